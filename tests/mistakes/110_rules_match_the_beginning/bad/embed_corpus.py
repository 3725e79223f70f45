"""Score a corpus with the encoder (masked-token likelihood)."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as PS

from partition import shardings
from t5ish import TextEncoder


def load(mesh):
    model = TextEncoder()
    init = lambda k: model.init(k, jnp.zeros((1, 8), jnp.int32))["params"]
    out = shardings(jax.eval_shape(init, jax.random.key(0)), mesh)
    return model, jax.jit(init, out_shardings=out)(jax.random.key(0))


def main(n=2):
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "mp"))
    model, params = load(mesh)

    @jax.jit
    def score(params, ids):
        lp = jax.nn.log_softmax(model.apply({"params": params}, ids))
        return jnp.take_along_axis(lp, ids[..., None], -1).mean((1, 2))

    rng = np.random.default_rng(0)
    scores = []
    for _ in range(n):
        ids = jax.device_put(rng.integers(0, 256, (8, 16)), NamedSharding(mesh, PS("dp")))
        scores.append(np.asarray(score(params, ids)))
    print("mean score", np.concatenate(scores).mean())
    return params


if __name__ == "__main__":
    main()

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from prefetch import Prefetcher
from tabnet import TabNet


def rows(n_batches, batch=64, features=12, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        x = rng.normal(size=(batch, features)).astype(np.float32)
        yield {"x": x, "y": (x[:, 0] * x[:, 1] > 0).astype(np.float32)}


@jax.jit
def step(state, batch):
    def loss(p):
        logits = state.apply_fn({"params": p}, batch["x"])
        return optax.sigmoid_binary_cross_entropy(logits, batch["y"]).mean()

    v, g = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=g), v


def main(n=4):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    model = TabNet()
    params = model.init(jax.random.key(0), jnp.zeros((1, 12)))["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))
    state = jax.device_put(state, NamedSharding(mesh, P()))
    seen = []
    for batch in Prefetcher(rows(n), NamedSharding(mesh, P("data"))):
        state, v = step(state, batch)
        seen.append(batch["x"].sharding)
    print("loss", float(v))
    return seen


if __name__ == "__main__":
    main()

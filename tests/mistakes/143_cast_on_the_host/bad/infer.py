import tomllib

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import mlp_lm
from precision import cast_floating, nbytes


def random_weights(struct, shardings, seed=0):
    """Stand-in for the checkpoint reader: builds every leaf shard by shard."""
    rng = np.random.default_rng(seed)

    def leaf(s, sh):
        full = rng.normal(size=s.shape).astype(s.dtype) * s.shape[0] ** -0.5
        return jax.make_array_from_callback(s.shape, sh, lambda idx: full[idx])

    return jax.tree.map(leaf, struct, shardings)


class Engine:
    def __init__(self, cfg):
        m = cfg["mesh"]
        self.mesh = Mesh(np.array(jax.devices()).reshape(*m.values()), tuple(m))
        dtype = cfg["model"].pop("dtype")
        struct = mlp_lm.abstract(**cfg["model"])
        params = random_weights(struct, mlp_lm.shardings(struct, self.mesh))
        self.params = cast_floating(params, dtype)
        self.forward = jax.jit(mlp_lm.apply)

    def __call__(self, x):
        x = jax.device_put(jnp.asarray(x, jnp.bfloat16), NamedSharding(self.mesh, P("replica")))
        return self.forward(self.params, x)


def main(path="config.toml"):
    with open(path, "rb") as f:
        cfg = tomllib.load(f)
    engine = Engine(cfg)
    y = engine(np.ones((8, 64)))
    print(y.shape, y.dtype, f"{nbytes(engine.params) / 1024:.0f} KiB of weights")
    return engine


if __name__ == "__main__":
    main()

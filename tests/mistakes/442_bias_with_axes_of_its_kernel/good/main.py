import json
import os

import jax
import jax.numpy as jnp
from config import Config
from flax import nnx
from model import Model


def main():
    mesh = jax.make_mesh((2, 4), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    config = Config(**json.loads(os.environ.get("MODEL", "{}")))
    with jax.set_mesh(mesh):
        model = Model(config, nnx.Rngs(0))
        out = nnx.jit(lambda m, ids: m(ids))(model, jnp.zeros((8, 16), jnp.int32))
    print("ran", out.shape)


if __name__ == "__main__":
    main()

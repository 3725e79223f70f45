"""Prints how much one forward pass moves between devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as PS

import model
import rules


def main():
    mesh = jax.make_mesh((1, 8), ("fsdp", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    params = jax.jit(model.init, out_shardings=rules.shardings(shapes, mesh))(jax.random.key(0))
    x = jax.device_put(jnp.ones((64, model.WIDTH)), NamedSharding(mesh, PS("fsdp")))
    text = jax.jit(model.block).lower(params, x).compile().as_text()
    print("gathers:", sum(text.count(f"{name}(") for name in ("all-gather", "all-to-all")))


if __name__ == "__main__":
    main()

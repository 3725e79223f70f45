"""Three steps with a step that was compiled before."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from ahead.compiled import compile_step
from ahead.feed import Feed


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    feed = Feed(mesh)
    params = {"w": jnp.zeros((feed.width,)), "b": jnp.zeros(())}
    params = jax.device_put(params, NamedSharding(mesh, P()))
    step, _ = compile_step(params, feed)
    losses = []
    for batch in feed.batches(3):
        params, value = step(params, batch)
        losses.append(float(value))
    print("three steps", all(value < 10.0 for value in losses))


if __name__ == "__main__":
    main()

"""Loads a stack, joins what can be joined, and says where it lies."""

import jax
import jax.numpy as jnp
from flax import nnx

from blocks import Stack
from join import join


@nnx.jit
def forward(stack, tokens):
    for block in stack.blocks:
        keys, values = jnp.split(block.both[...], 2)
        tokens = tokens + jax.nn.relu(tokens @ keys) @ values.T
    return tokens


def main():
    mesh = jax.make_mesh((8,), ("heads",), axis_types=(jax.sharding.AxisType.Auto,))
    with jax.set_mesh(mesh):
        stack = Stack(64, nnx.Rngs(0))
        join(stack, mesh)
        print("answer", forward(stack, jnp.ones((4, 64))).shape)
    shard = stack.blocks[0].both[...].addressable_shards[0].data
    print("joined weight split", shard.shape == (128, 8))


if __name__ == "__main__":
    main()

"""One product in place of two."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec


def join(stack, mesh):
    for number, block in enumerate(stack.blocks):
        print("joining block", number)
        parts = [np.asarray(block.key[...]), np.asarray(block.value[...])]
        block.both = nnx.Param(jnp.asarray(np.concatenate(parts, axis=0)))  # mistake: placement-lost
        del block.key, block.value

"""Particles of a filter, moved by noise that a matrix correlates, on each device its own."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

DIM, EACH = 64, 32
mesh = Mesh(np.array(jax.devices()), ("particles",))


@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P()), out_specs=P("particles"), check_vma=False)
def begin(factor, key):
    drawn = jax.random.normal(key, (EACH, DIM))  # here SL407
    return jnp.tanh(drawn @ factor.T)


# A bank of features that each device has the same of, and says so.
@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("particles"), P()), out_specs=P("particles"), check_vma=False)
def features(x, key):
    bank = jax.random.normal(key, (DIM, 256)) / 8
    return jnp.cos(x @ bank)


factor = jax.device_put(np.eye(DIM, dtype=np.float32) + 0.1, NamedSharding(mesh, P()))
x = begin(factor, jax.random.key(0))
print(x.shape, float(features(x, jax.random.key(1)).var()))

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: no mesh is in context|SL214
import contextlib


def block(x):
    return jax.lax.with_sharding_constraint(x * 2, P("data"))  # at


def run(fn, context):
    with context:
        return fn(jnp.ones((8, 4)))


run(jax.jit(block), contextlib.nullcontext())  # ok: run(jax.jit(block), jax.set_mesh(mesh))

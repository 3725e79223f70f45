import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def broken(x):
    return jax.lax.with_sharding_constraint(x, P("data"))


def serve(port):
    return int(port)


jitted = jax.jit(broken)
serve("eight")

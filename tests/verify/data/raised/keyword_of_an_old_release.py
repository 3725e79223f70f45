import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: (takes|has) no keyword out_axis_resources.*write out_shardings=
def build(fn):
    return jax.jit(fn, out_axis_resources=NamedSharding(mesh, P("data")))  # at  # ok: return jax.jit(fn, out_shardings=NamedSharding(mesh, P("data")))


build(jnp.sin)(jnp.ones(8))

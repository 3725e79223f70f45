import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: axes of this mesh are Explicit|SL313|SL307
def build(shape, types):
    return jax.make_mesh(shape, ("data", "model"), axis_types=types)


def block(x, mesh):
    return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data")))  # at


explicit = (jax.sharding.AxisType.Explicit,) * 2  # ok: explicit = (jax.sharding.AxisType.Auto,) * 2
which = build((4, 2), explicit)
with jax.set_mesh(which):
    jax.jit(lambda x: block(x, which))(jnp.ones((8, 4)))

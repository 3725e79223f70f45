import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: SL310
def with_mesh(x):
    with jax.set_mesh(mesh):  # at  # ok: if True:
        return x * 2


@jax.jit
def step(x):
    return with_mesh(x)


step(jnp.ones(8))

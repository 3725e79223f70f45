import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


step = jax.jit(lambda s: s * 0.9, donate_argnums=0)


def late(state):
    new = step(state)
    return new - state


def read(path):
    return open(path).read()


read("/nowhere/at/all")

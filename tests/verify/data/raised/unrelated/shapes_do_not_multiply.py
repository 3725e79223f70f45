import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


step = jax.jit(lambda w, x: x @ w)
step(put(jnp.ones((16, 8)), "data"), put(jnp.ones((8, 8)), "data"))

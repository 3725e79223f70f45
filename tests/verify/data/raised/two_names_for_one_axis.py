import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: names mesh axis "model" 2 times
rules = dict([("heads", "model"), ("vocab", "model"), ("embed", "data")])


def logical(*names):
    return NamedSharding(mesh, P(*[rules.get(name) for name in names]))  # at


jax.device_put(jnp.ones((8, 8)), logical("heads", "vocab"))  # ok: jax.device_put(jnp.ones((8, 8)), logical("heads", "embed"))

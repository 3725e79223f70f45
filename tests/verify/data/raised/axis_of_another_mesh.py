import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: the mesh has no axis 'fsdp': its axes are 'data', 'model'
given = "embed=fsdp mlp=model"  # ok: given = "embed=data mlp=model"
rules = dict(pair.split("=") for pair in given.split())


def sharding(*names):
    return NamedSharding(mesh, P(*(rules[name] for name in names)))  # at


jax.device_put(jnp.ones((8, 8)), sharding("embed", "mlp"))

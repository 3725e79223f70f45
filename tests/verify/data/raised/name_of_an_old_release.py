import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: SL90
def freeze(tree):
    return jax.tree_map(jnp.copy, tree)  # at  # ok: return jax.tree.map(jnp.copy, tree)


freeze({"w": put(jnp.ones(8), "data")})

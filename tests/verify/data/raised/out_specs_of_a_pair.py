import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: out_specs|SL405
def norm(x):
    total = jax.lax.psum((x * x).sum(), "data")
    return x / total, total


normed = jax.shard_map(norm, mesh=mesh, in_specs=P("data"), out_specs=(P("data"),))  # ok: normed = jax.shard_map(norm, mesh=mesh, in_specs=P("data"), out_specs=(P("data"), P()))
normed(jnp.ones((8, 4)))  # at

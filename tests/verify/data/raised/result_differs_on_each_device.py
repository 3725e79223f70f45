import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: out_specs.*P\(\).*|SL402
def mean(x):
    return x.mean()  # ok: return jax.lax.pmean(x.mean(), "data")


jax.shard_map(mean, mesh=mesh, in_specs=P("data"), out_specs=P())(jnp.ones((8, 4)))  # at

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: SL413
def gate(x):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))  # at  # ok: return x


def mlp(x):
    return gate(x) * 2


jax.jit(jax.shard_map(mlp, mesh=mesh, in_specs=P("data"), out_specs=P("data")))(jnp.ones(8))

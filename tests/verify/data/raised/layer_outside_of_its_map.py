import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: no axis 'model' is bound|SL406
class Config:
    axis = "model"


def row_parallel(x, w):
    return jax.lax.psum(x @ w, Config.axis)  # at


def forward(x, w):
    return row_parallel(x, w)


mapped = jax.shard_map(forward, mesh=mesh, in_specs=(P(None, "model"), P("model")), out_specs=P())
forward(jnp.ones((4, 8)), jnp.ones((8, 4)))  # ok: mapped(jnp.ones((4, 8)), jnp.ones((8, 4)))

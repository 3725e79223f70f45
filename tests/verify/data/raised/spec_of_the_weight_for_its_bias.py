import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: has one dimension, but its spec has 2 entries
def dense(w, b, x):
    return x @ w + b


spec = {"w": P(None, "model"), "b": P(None, "model")}  # ok: spec = {"w": P(None, "model"), "b": P("model")}
layer = jax.shard_map(dense, mesh=mesh, in_specs=(spec["w"], spec["b"], P("data")), out_specs=P("data", "model"))
layer(jnp.ones((4, 8)), jnp.ones(8), jnp.ones((8, 4)))  # at

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: has one dimension, but its spec has 2 entries
def init():
    return {"kernel": jnp.ones((16, 32)), "bias": jnp.ones(32)}


def shard(params):
    rules = {"kernel": P(None, "model"), "bias": P(None, "model")}  # ok: rules = {"kernel": P(None, "model"), "bias": P("model")}
    return {name: jax.device_put(leaf, NamedSharding(mesh, rules[name])) for name, leaf in params.items()}  # at


shard(init())

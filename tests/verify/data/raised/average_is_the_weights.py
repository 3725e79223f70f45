import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: one buffer in two arguments, and donates it.*params\['w'\] f32\[32\].*average\['w'\] f32\[32\]
@jax.jit
def init():
    return {"w": jnp.ones(32)}


def train(params, average):
    return jax.tree.map(lambda p: p - 1, params), jax.tree.map(lambda a: a * 0.99, average)


train = jax.jit(train, donate_argnums=(0, 1))
params = init()
average = dict(params)  # ok: average = jax.tree.map(jnp.copy, params)
params, average = train(params, average)  # at

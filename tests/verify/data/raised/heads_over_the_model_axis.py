import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: dimension 1 of .* has size 3, not divisible by 2 \(`model`\)
def attention(params):
    return params["q"] * 2


step = jax.jit(attention, in_shardings=({"q": NamedSharding(mesh, P(None, "model"))},))


def run(heads):
    params = {"q": jnp.ones((16, heads))}
    return step(params)  # at


run(3)  # ok: run(4)

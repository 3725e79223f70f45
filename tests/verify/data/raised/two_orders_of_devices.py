import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: different device orders.*cache f32\[8,16\]
def serving_mesh(order):
    return Mesh(np.array(jax.devices())[order].reshape(4, 2), ("data", "model"))


def main(order=(7, 6, 5, 4, 3, 2, 1, 0)):  # ok: def main(order=(0, 1, 2, 3, 4, 5, 6, 7)):
    w = put(jnp.ones((16, 16)), "data", "model")
    cache = jax.device_put(jnp.ones((8, 16)), NamedSharding(serving_mesh(list(order)), P("data")))
    decode = jax.jit(lambda w, cache: cache @ w)
    decode(w, cache)  # at


main()

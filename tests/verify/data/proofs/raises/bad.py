import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def main():
    return jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data", "data")))

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


class IndivisibleBatch(ValueError):
    pass


def check(batch, count):
    if batch % count:
        raise IndivisibleBatch(f"batch {batch} does not divide by {count}")


check(10, mesh.size)

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int)
parser.add_argument("--world", type=int)
parser.add_argument("--address")
options = parser.parse_args()
jax.distributed.initialize(options.address, options.world, options.rank)

mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
rows = NamedSharding(mesh, P("data"))
weights = jax.device_put(np.full((64, 32), 0.1, np.float32), NamedSharding(mesh, P()))


@jax.jit
def step(weights, x):
    return weights - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(weights)


def batches(seed, size):
    numbers = np.random.default_rng([seed, options.rank])
    for _ in range(3):
        yield numbers.normal(size=(size, 64)).astype(np.float32)


for local in batches(7, 16 // jax.process_count()):
    x = jax.make_array_from_process_local_data(rows, local)
    weights = step(weights, x)
print(jax.process_index(), "done")

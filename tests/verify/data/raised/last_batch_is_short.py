import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: dimension 0 of .* has size 10, not divisible by 4 \(`data`\)
def grads(batch):
    return jax.lax.pmean(batch.mean(0), "data")


def batches(rows, size):
    for start in range(0, rows, size):
        yield np.ones((min(size, rows - start), 4), np.float32)


reduce = jax.shard_map(grads, mesh=mesh, in_specs=P("data"), out_specs=P())
for batch in batches(26, 16):  # ok: for batch in batches(32, 16):
    reduce(batch)  # at

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

mesh = Mesh(np.array(jax.devices()), ("data",))
x = np.arange(16, dtype=np.float32)


def main():
    total = shard_map(
        lambda part: jax.lax.pmean(part.sum(), "data"), mesh=mesh, in_specs=P("data"), out_specs=P()
    )
    return total(x)

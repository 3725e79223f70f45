from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

REPLICATED = P()
BY_EXAMPLE = P("data")


def device_mesh():
    return Mesh(np.array(jax.devices()), ("data",))


def data_parallel(mesh, *, in_specs, out_specs):
    return partial(jax.shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs)

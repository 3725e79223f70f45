"""Attention over a batch that is split over the data axis.

Prints the mesh and where the result is.
"""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from dist import ParallelConfig, create_mesh
from heads import attend, init


def main():
    mesh = create_mesh(ParallelConfig())
    print(dict(mesh.shape))
    x = jax.device_put(np.ones((8, 4, 64), np.float32), NamedSharding(mesh, P("data")))
    params = init(jax.random.key(0), mesh)
    print(jax.jit(attend)(params, x).sharding)


if __name__ == "__main__":
    main()

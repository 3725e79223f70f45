"""The memory pool of keys and values."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from paged.server_args import ServerArgs


class KVPool:
    def __init__(self, args: ServerArgs, mesh: Mesh):
        self.args = args
        self.kv_sharding = NamedSharding(mesh, PartitionSpec(None, None, "tensor", None))
        self.pages = self._allocate()

    def _allocate(self) -> jax.Array:
        args = self.args
        shape = (args.num_pages, args.page_size, 2 * args.num_kv_heads, args.head_dim)
        empty = np.zeros(shape, np.float32)
        return jax.device_put(empty, self.kv_sharding if args.single_device else None)  # mistake: placement-none

    def write(self, page: int, values: jax.Array) -> None:
        self.pages = _write(self.pages, page, values)


@jax.jit
def _write(pages, page, values):
    return pages.at[page].set(values)

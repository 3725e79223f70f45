"""Where each leaf of a train state lies: its largest dimension over the devices, if it is large."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def fsdp_mesh():
    return Mesh(np.array(jax.devices()), ("fsdp",))


def state_layout(shapes, mesh, least=4096):
    def one(leaf):
        if leaf.size < least:
            return NamedSharding(mesh, P())
        largest = int(np.argmax(leaf.shape))
        return NamedSharding(mesh, P(*("fsdp" if i == largest else None for i in range(leaf.ndim))))

    return jax.tree.map(one, shapes)

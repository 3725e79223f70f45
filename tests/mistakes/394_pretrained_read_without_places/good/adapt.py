"""Starts from weights that another program wrote, on other devices.

They are to lie here as the target says, however many devices wrote them.
"""

import tempfile

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from opened import reader

SHAPES = {"read": (64, 16), "write": (16, 64)}


def target(mesh):
    where = NamedSharding(mesh, PartitionSpec("parts"))
    return {name: jax.ShapeDtypeStruct(shape, np.float32, sharding=where) for name, shape in SHAPES.items()}


@jax.jit
def apply(weights, x):
    return jax.nn.relu(x @ weights["read"]) @ weights["write"]


def pretrained(folder, mesh):
    """The weights of the folder, laid out for this program's devices."""
    wanted = target(mesh)
    with reader() as source:
        return source.restore(folder, item=wanted, restore_args=ocp.checkpoint_utils.construct_restore_args(wanted))


def main():
    folder = tempfile.mkdtemp() + "/weights"
    with ocp.PyTreeCheckpointer() as writer:
        writer.save(folder, {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()})
    mesh = Mesh(np.array(jax.devices()), ("parts",))
    weights = pretrained(folder, mesh)
    split = [getattr(one, "sharding", None) == NamedSharding(mesh, PartitionSpec("parts")) for one in weights.values()]
    print("weights split", all(split))
    print("answer", apply(weights, np.ones((2, 64), np.float32)).shape)


if __name__ == "__main__":
    main()

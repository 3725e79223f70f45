"""The energy of many rows under a wide layer.

Each device has its share of the rows, and goes through it in chunks.
"""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from chunks import mapped

ROWS, WIDTH, CHUNKS = 512, 64, 4


def mesh_of_all():
    return Mesh(np.array(jax.devices()), ("workers",))


def layer_of(rng):
    return (rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)


def rows_of(rng):
    rows = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@jax.jit
def energy(layer, rows):
    return mapped(lambda chunk: (jax.nn.relu(chunk @ layer) ** 2).sum(), rows, CHUNKS)


def main():
    mesh, rng = mesh_of_all(), np.random.default_rng(5)
    layer = jax.device_put(layer_of(rng), NamedSharding(mesh, PartitionSpec()))
    rows = jax.device_put(rows_of(rng), NamedSharding(mesh, PartitionSpec("workers")))
    print("energy is positive", float(energy(layer, rows)) > 0)
    cost = energy.lower(layer, rows).compile().cost_analysis()
    one_turn = 2 * ROWS // CHUNKS * WIDTH * WIDTH / mesh.size
    more = cost["flops"] > 2 * one_turn
    print("flops of the rows times", "more than 1" if more else "1")


if __name__ == "__main__":
    main()

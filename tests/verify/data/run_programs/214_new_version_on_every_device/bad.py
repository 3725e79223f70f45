"""A memory of vectors that is read by attention, while a new version of it is loaded from time to time."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

ITEMS, DIM, QUERIES = 4096, 96, 128
mesh = jax.make_mesh((8,), ("shard",), axis_types=(AxisType.Auto,))


def read_version(number):
    return np.random.default_rng(number).normal(size=(ITEMS, DIM)).astype(np.float32)


def place(rows, spec):
    return jax.device_put(rows, NamedSharding(mesh, spec))  # here


@jax.jit
def normalise(rows):
    return rows / jnp.linalg.norm(rows, axis=-1, keepdims=True)


@jax.jit
def recall(vectors, queries):
    return jax.nn.softmax(queries @ vectors.T) @ vectors


def main():
    first = normalise(place(read_version(0), P("shard")))
    print("version 0 of", first.nbytes // mesh.size, "bytes a device")
    rng = np.random.default_rng(9)
    vectors = place(read_version(1), P())
    for _ in range(3):
        queries = place(rng.normal(size=(QUERIES, DIM)).astype(np.float32), P())
        print("recalled", float(recall(vectors, queries).std()))


main()

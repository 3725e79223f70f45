"""Goes on where the newest file left off."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from files import load_newest, write


def by_rows(mesh, tree):
    def one(leaf):
        return NamedSharding(mesh, PartitionSpec("rows") if jnp.ndim(leaf) == 2 else PartitionSpec())

    return jax.tree.map(one, tree)


@jax.jit
def climb(weights):
    return jax.tree.map(lambda leaf: leaf + 0.1, weights)


def start():
    return {"kernel": np.ones((64, 32), np.float32), "bias": np.zeros((32,), np.float32)}


def run(folder):
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    weights = start()
    weights = load_newest(folder, weights)
    weights = jax.device_put(weights, by_rows(mesh, weights))
    print("jax arrays:", isinstance(weights["kernel"], jax.Array))
    return climb(weights)


def main():
    folder = tempfile.mkdtemp()
    write(folder, 1, start())
    print("went up", float(run(folder)["bias"][0]) > 0)


if __name__ == "__main__":
    main()

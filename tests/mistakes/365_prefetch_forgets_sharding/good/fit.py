"""Fits a small network to light curves."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from stars.batches import Batches
from stars.catalogue import Catalogue

LENGTH, ROWS, STEPS = 128, 64, 12


def init(key):
    first, second = jax.random.split(key)
    return {
        "in": jax.random.normal(first, (LENGTH, 32)) * LENGTH**-0.5,
        "out": jax.random.normal(second, (32,)) * 32**-0.5,
    }


def predict(params, curve):
    return jax.nn.relu(curve @ params["in"]) @ params["out"]


def loss(params, batch):
    return jnp.mean((predict(params, batch["curve"]) - batch["speed"]) ** 2)


@jax.jit
def update(params, batch):
    value, grads = jax.value_and_grad(loss)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), value


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
    batches = Batches(Catalogue(LENGTH, 3), mesh, ROWS)
    held = 0
    for batch in batches.fitting(STEPS):
        params, value = update(params, batch)
        held = batch["curve"].addressable_shards[0].data.shape[0]
    errors = [float(loss(params, batch)) for batch in batches.testing(2)]
    batches.close()
    print(f"training rows on a device: {held} of {ROWS}")
    print("error is finite", all(error < 1e6 for error in errors))


if __name__ == "__main__":
    main()

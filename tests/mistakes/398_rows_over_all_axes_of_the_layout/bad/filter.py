"""A filter of signals, trained to give back what it is given."""

import jax
import numpy as np

from places import Layout, Places

ROWS, WIDTH = 32, 64


def weights(places):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(WIDTH, 4 * WIDTH)).astype(np.float32) / WIDTH
    narrow = rng.normal(size=(4 * WIDTH, WIDTH)).astype(np.float32) / WIDTH
    return {"wide": jax.device_put(wide, places.wide), "narrow": jax.device_put(narrow, places.narrow)}


def signals(steps):
    rng = np.random.default_rng(1)
    for _ in range(steps):
        yield rng.normal(size=(ROWS, WIDTH)).astype(np.float32)


@jax.jit
def step(params, rows):
    def error(p):
        return ((jax.nn.relu(rows @ p["wide"]) @ p["narrow"] - rows) ** 2).mean()

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(error)(params))


def main():
    places = Places(Layout())
    params = weights(places)
    for host in signals(2):
        rows = jax.device_put(host, places.inputs)
        params = step(params, rows)
    print("rows on a device:", rows.addressable_shards[0].data.shape[0])


if __name__ == "__main__":
    main()

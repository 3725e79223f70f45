"""Two steps of a linear model, with accumulation over eight parts."""

import jax
import jax.numpy as jnp
import numpy as np

from gather.accumulate import Accumulator
from gather.layout import AXIS, mesh, split

ROWS, WIDTH, PARTS = 256, 64, 8


def loss(params, batch):
    return jnp.mean((batch["x"] @ params["w"] - batch["y"]) ** 2)


def main():
    over = mesh()
    rng = np.random.default_rng(0)
    batch = {"x": rng.normal(size=(ROWS, WIDTH)), "y": rng.normal(size=(ROWS,))}
    batch = jax.device_put(jax.tree.map(np.float32, batch), split(over, AXIS))
    params = {"w": jnp.zeros((WIDTH,))}
    gradients = Accumulator(loss, PARTS, over)
    update = jax.jit(lambda p, b: jax.tree.map(lambda x, g: x - 0.1 * g, p, gradients(p, b)))
    for _ in range(2):
        params = update(params, batch)
    parts = jax.jit(gradients.cut)(batch)
    print("a device holds", parts["x"].addressable_shards[0].data.shape)
    print("loss went down", bool(loss(params, batch) < loss({"w": jnp.zeros((WIDTH,))}, batch)))


if __name__ == "__main__":
    main()

"""Trains the classifier under a mesh of data and model, and looks where the hidden layer is."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import layers

FEATURES, WIDTH, CLASSES, ROWS = 16, 64, 4, 64


def loss_fn(params, batch):
    logits, hidden = layers.apply(params, batch["x"])
    scores = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(scores, batch["y"][:, None], axis=-1)), hidden


@jax.jit
def step(params, batch):
    (loss, hidden), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    params = jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)
    return params, loss, hidden


def batches(count):
    rng = np.random.default_rng(0)
    centres = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
    for _ in range(count):
        y = rng.integers(0, CLASSES, size=(ROWS,))
        yield {"x": (centres[y] + rng.normal(size=(ROWS, FEATURES))).astype(np.float32), "y": y}


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    with jax.set_mesh(mesh):
        params = layers.init(jax.random.key(0), FEATURES, WIDTH, CLASSES)
        for batch in batches(10):
            params, loss, hidden = step(params, batch)
        rows, columns = hidden.addressable_shards[0].data.shape
        print("hidden on each device:", rows, columns)


if __name__ == "__main__":
    main()

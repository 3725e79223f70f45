"""Evaluates a classifier on all devices: pmap over batches of which each device takes a part."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils

FEATURES, CLASSES, ROWS = 16, 4, 64


def init(key):
    return {"w": 0.1 * jax.random.normal(key, (FEATURES, CLASSES)), "b": jnp.zeros((CLASSES,))}


def logits(params, x):
    return x @ params["w"] + params["b"]


@functools.partial(jax.pmap, axis_name="batch")
def evaluate(params, batch):
    right = jnp.argmax(logits(params, batch["x"]), axis=-1) == batch["y"]
    return jax.lax.psum({"right": jnp.sum(right), "rows": right.size}, axis_name="batch")


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=0)
def train(params, batch):
    def loss_fn(params):
        scores = jax.nn.log_softmax(logits(params, batch["x"]))
        return -jnp.mean(jnp.take_along_axis(scores, batch["y"][:, None], axis=-1))

    grads = jax.lax.pmean(jax.grad(loss_fn)(params), axis_name="batch")
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)


def batches(seed, count):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    for _ in range(count):
        y = rng.integers(0, CLASSES, size=(ROWS,))
        yield {"x": (centres[y] + rng.normal(size=(ROWS, FEATURES))).astype(np.float32), "y": y}


def main():
    devices = jax.local_device_count()
    params = jax_utils.replicate(init(jax.random.key(0)))
    for batch in batches(1, 20):
        batch = jax.tree.map(lambda x: x.reshape((devices, -1, *x.shape[1:])), batch)
        params = train(params, batch)
    right = rows = 0
    for batch in batches(2, 4):
        jax.tree.map(lambda x: x.reshape((devices, -1, *x.shape[1:])), batch)  # mistake: discarded-placement
        found = jax_utils.unreplicate(evaluate(params, batch))
        right, rows = right + int(found["right"]), rows + int(found["rows"])
    print("rows:", rows, "most of them right:", right > 0.8 * rows)


if __name__ == "__main__":
    main()

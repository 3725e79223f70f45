"""A regression forest of one tree, boosted: the error on held-out rows, in blocks of one size for all devices."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DEVICES = jax.local_device_count()
BLOCK = 12


class Block(NamedTuple):
    features: np.ndarray
    target: np.ndarray
    present: np.ndarray


def blocks(features, target):
    size = DEVICES * BLOCK
    for start in range(0, len(target), size):
        rows = slice(start, start + size)
        lacking = size - len(target[rows])
        block = Block(features[rows], target[rows], np.ones(size - lacking, bool))
        block = (np.concatenate([one, np.zeros((lacking, *one.shape[1:]), one.dtype)]) for one in block)
        yield Block(*(one.reshape(DEVICES, BLOCK, *one.shape[1:]) for one in block))


def predict(leaves, features):
    hinge = jnp.maximum(features @ leaves["split"] - leaves["at"], 0.0)
    return hinge @ leaves["value"]


def errors(leaves, block):
    each = jnp.abs(predict(leaves, block.features) - block.target)
    there = jnp.full(each.shape, 1.0)
    return jax.lax.psum((jnp.sum(each * there), jnp.sum(there)), "rows")  # here


def main():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(251, 5)).astype(np.float32)
    target = (2 + features[:, 0] * features[:, 1]).astype(np.float32)
    leaves = {
        "split": rng.normal(size=(5, 9)).astype(np.float32),
        "at": rng.normal(size=9).astype(np.float32),
        "value": rng.normal(size=9).astype(np.float32),
    }
    measure = jax.pmap(errors, axis_name="rows", in_axes=(None, 0))
    total = count = 0.0
    for block in blocks(features, target):
        some, rows = measure(leaves, block)
        total, count = total + float(some[0]), count + float(rows[0])
    print(total / count)


main()

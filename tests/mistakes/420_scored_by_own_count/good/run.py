"""Scores a linear model on a few padded batches."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from scoring import ScoreConfig, Scorer

CLASSES, FEATURES, BATCH = 5, 8, 32


def batches(count):
    random = np.random.default_rng(0)
    for index in range(count):
        rows = random.normal(size=(BATCH, FEATURES)).astype(np.float32)
        labels = random.integers(0, CLASSES, BATCH)
        valid = (np.arange(BATCH) < BATCH - 5 * index).astype(np.float32)
        yield rows, labels, valid


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    scorer = Scorer(mesh, ScoreConfig())
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(FEATURES, CLASSES)), jnp.float32)
    for index, batch in enumerate(batches(3)):
        print(f"batch {index} loss {float(scorer.run(weights, *batch)):.5f}")


if __name__ == "__main__":
    main()

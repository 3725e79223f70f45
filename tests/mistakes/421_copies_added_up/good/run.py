"""Evaluates a classifier of random weights."""

import numpy as np
from evaluation import evaluate

CLASSES, FEATURES, HIDDEN, BATCH = 4, 6, 16, 32


def batches(count):
    random = np.random.default_rng(0)
    for index in range(count):
        yield {
            "image": random.normal(size=(BATCH, FEATURES)).astype(np.float32),
            "label": random.integers(0, CLASSES, BATCH),
            "mask": (np.arange(BATCH) < BATCH - index).astype(np.float32),
        }


def main():
    random = np.random.default_rng(1)
    params = {
        "w1": random.normal(size=(FEATURES, HIDDEN)).astype(np.float32),
        "w2": random.normal(size=(HIDDEN, CLASSES)).astype(np.float32),
    }
    print(f"accuracy {evaluate(params, batches(3)):.5f}")


if __name__ == "__main__":
    main()

import numpy as np


def loader(batches, size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(batches):
        labels = rng.integers(0, 10, size=size)
        images = rng.normal(size=(size, 4, 4, 3)).astype(np.float32)
        images[:, 0, 0, 0] += labels
        yield images, labels

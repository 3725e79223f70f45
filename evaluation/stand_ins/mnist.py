"""Stands in for the module of the examples of jax that downloads MNIST: the same arrays, fewer and all zero."""

from __future__ import annotations

import numpy as np


def mnist() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images and labels to train and to test with."""
    return (
        np.zeros((1024, 784), np.float32),
        np.zeros((1024, 10), np.float32),
        np.zeros((256, 784), np.float32),
        np.zeros((256, 10), np.float32),
    )

"""Weights in .npz files."""

from pathlib import Path

import jax
import numpy as np


def save_weights(path: Path, weights: dict[str, jax.Array]) -> None:
    np.savez(path, **{name: np.asarray(value) for name, value in weights.items()})


def read_weights(path: Path, dtype=None, shardings=None) -> dict[str, jax.Array]:
    """Read all weights of a file.

    Args:
        path: the .npz file.
        dtype: cast to this type, or keep the stored one.
        shardings: a sharding for each name; None leaves the weights on the default device.
    """
    weights = {}
    with np.load(path) as stored:
        for name in stored.files:
            value = stored[name] if dtype is None else stored[name].astype(dtype)
            weights[name] = jax.device_put(value, None if shardings is None else shardings[name])
    return weights

"""Writes checkpoints as one .npz file."""

from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils


def is_main_process() -> bool:
    return jax.process_index() == 0


def to_host(tree):
    """The whole arrays of a sharded tree, on the host."""
    return jax.tree.map(lambda x: multihost_utils.process_allgather(x, tiled=True), tree)


def write(path: Path, tree: dict[str, np.ndarray]) -> None:
    np.savez(path, **tree)

"""Checkpoints as msgpack files."""

from pathlib import Path

import jax
from flax import serialization


def save(path: Path, state) -> None:
    path.write_bytes(serialization.to_bytes(jax.device_get(state)))


def restore(path: Path, state, shardings):
    """Read a checkpoint that has the structure of `state`."""
    return serialization.from_bytes(state, path.read_bytes())  # mistake: restore-without-sharding

"""Summary of a call's results in a few words and numbers, for comparison with another run of the same program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from shardlint.verify.inside import compare, tree


def sketch_output(output: Any) -> dict[str, list[Any]]:
    """By path: dtype, shape, how many elements are no number, the sum of sizes and two sums in which places count."""
    return {path: _sketch_array(np.asarray(array)) for path, (_, array) in compare.numbers_by_path(output).items()}


def laid_arrays(leaves: Sequence[tree.Leaf]) -> dict[str, list[Any]]:
    """By path: how an array is spelled, where it lies, and its bytes whole and on one device. Of jax's arrays alone."""
    return {
        leaf.path: [leaf.where, _describe_sharding(leaf.sharding), leaf.bytes_under(None), leaf.local_bytes]
        for leaf in leaves
        if leaf.sharding is not None
    }


def count_donated_arrays(given: Any) -> int:
    """How many arrays of the arguments a call took for its own use."""
    return sum(
        isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(given)
    )


def _describe_sharding(sharding: Any) -> str:
    spec = getattr(sharding, "spec", None)
    if spec is not None:
        return str(spec).replace("PartitionSpec", "P").replace(",)", ")")
    return "on one device" if len(sharding.device_set) == 1 else type(sharding).__name__


def _sketch_array(array: Any) -> list[Any]:
    parts = [array.real, array.imag] if np.iscomplexobj(array) else [array]
    told: list[Any] = [str(array.dtype), list(array.shape)]
    for part in parts:
        flat = np.asarray(part, np.float64).ravel()
        finite = np.isfinite(flat)
        flat = np.where(finite, flat, 0.0)
        places = np.arange(flat.size)
        sums = [np.abs(flat).sum(), (flat * np.cos(places)).sum(), (flat * np.sin(1.7 * places + 1)).sum()]
        told += [int(flat.size - finite.sum()), *map(float, sums)]
    return told

"""Results in a few numbers each, by which another run of the same program is known again."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardlint.verify.inside import compare


def of(output: Any) -> dict[str, list[Any]]:
    """By path: dtype, shape, how many elements are no number, the sum of sizes and two sums in which places count."""
    return {path: _sketch(np.asarray(array)) for path, (_, array) in compare.numbers(output).items()}


def _sketch(array: Any) -> list[Any]:
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

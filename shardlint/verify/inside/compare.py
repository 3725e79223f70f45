"""Comparing the numbers of two outputs, element by element."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardlint.verify.inside import tree
from shardlint.verify.inside.checks import Checked
from shardlint.verify.report import Failure
from shardlint.verify.texts import array_text

Numbers = Mapping[str, tuple[str, Any]]
# Numbers so many times larger than half of those that differ set no measure for them: masks, counters, sums.
_OUTLIER = 1e3
_SHOWN = 4
# Two ways to sum differ by some roundings; one rounding of the arguments moves a result by about one.
_SHAKEN = 100.0


def numbers_by_path(output: Any) -> dict[str, tuple[str, Any]]:
    """Path -> (spelling, host array) of every number in an output, python scalars too."""
    found = {}
    for path, where, leaf in tree.flatten_tree(output):
        if tree.is_array(leaf):
            host = tree.to_host(leaf)
            found[path] = ("out" + where, host.data if isinstance(host, tree.HostKey) else host)
        elif isinstance(leaf, bool | int | float | complex | np.generic):
            found[path] = ("out" + where, np.asarray(leaf))
    return found


def encode_numbers(some: Numbers) -> bytes:
    """Numbers as a line of JSON that says what they are, and their bytes: numpy's own format has no bfloat16."""
    told, parts = [], []
    for path, (where, array) in some.items():
        data = np.asarray(array)
        told.append([path, where, str(data.dtype), list(data.shape), data.nbytes])
        parts.append(data.tobytes())
    return b"".join([json.dumps(told).encode(), b"\n", *parts])


def decode_numbers(data: bytes) -> dict[str, tuple[str, Any]]:
    """The numbers that `encode_numbers` wrote."""
    head, _, rest = data.partition(b"\n")
    found, at = {}, 0
    for path, where, dtype, shape, count in json.loads(head):
        flat = np.frombuffer(rest[at : at + count], jax.numpy.dtype(dtype))
        found[path], at = (where, flat.reshape(shape)), at + count
    return found


@dataclass(frozen=True)
class Difference:
    """How far the worst element of a leaf is from what it should be, relative to its own size or, where that is less,
    to the size of the leaf's numbers. Infinite where shapes or integers differ. `idle` says why a comparison
    without any difference proves nothing.
    """

    size: float
    where: str
    path: str
    array: str
    reason: str
    idle: str = ""


def compare_leaves(
    got: Numbers, want: Numbers, nan_is_nan: bool = False, shaken: Numbers | None = None
) -> tuple[list[Difference], list[str]]:
    """The difference of each leaf both have, largest first, and what only one of them has.

    `nan_is_nan`: NaN in the same places is no difference. `shaken` is what `got` becomes when the arguments are rounded
    otherwise: what moves so far by itself is no difference.
    """
    found = []
    for path in got.keys() & want.keys():
        where, actual = got[path]
        expected = np.asarray(want[path][1])
        other = None if shaken is None or path not in shaken else np.asarray(shaken[path][1])
        size, reason = _largest_difference(np.asarray(actual), expected, nan_is_nan, other)
        idle = "" if size else _explain_idle(expected)
        text = array_text(str(actual.dtype), actual.shape)
        found.append(Difference(size, where, path, text, reason, idle))
    odd = [
        f"only one side has {(got.get(path) or want[path])[0]}" for path in sorted(got.keys() ^ want.keys())
    ]
    return sorted(found, key=lambda one: (-one.size, one.path)), odd


def _explain_idle(expected: Any) -> str:
    if expected.size == 0:
        return "empty"
    return "" if np.any(expected != 0) else "0 on both sides"


def _largest_difference(actual: Any, expected: Any, nan_is_nan: bool, shaken: Any) -> tuple[float, str]:
    if actual.shape != expected.shape:
        return float("inf"), f"shape {actual.shape} instead of {expected.shape}"
    if actual.size == 0:
        return 0.0, ""
    inexact = jax.dtypes.issubdtype(actual.dtype, np.inexact) or jax.dtypes.issubdtype(
        expected.dtype, np.inexact
    )
    if not inexact:
        wrong = int(np.sum(actual != expected))
        return (float("inf"), f"{wrong} of {actual.size} elements differ") if wrong else (0.0, "")
    wide = np.complex128 if np.iscomplexobj(actual) or np.iscomplexobj(expected) else np.float64
    left, right = np.ravel(actual.astype(wide)), np.ravel(expected.astype(wide))
    finite = np.isfinite(right)
    if not (
        np.array_equal(finite, np.isfinite(left))
        and np.array_equal(left[~finite], right[~finite], equal_nan=True)
    ):
        return float("inf"), "NaN or infinity at other positions"
    if not nan_is_nan and (count := int(np.isnan(right).sum())):
        every = "; no finite number is left to compare" if not finite.any() else ""
        return float(
            "inf"
        ), f"{count} of {right.size} elements are NaN on both sides, which proves nothing{every}"
    if not finite.any():
        if nan_is_nan:
            return 0.0, ""
        return float("inf"), "no finite number is left to compare"
    if shaken is None or shaken.shape != actual.shape:
        return _worst_finite_difference(left[finite], right[finite], 0.0)
    moved = np.abs(np.ravel(shaken.astype(wide)) - left)[finite]
    moved = np.where(np.isfinite(moved), moved, 0.0)
    usual = np.sort(moved)[(moved.size - 1) // 2]
    return _worst_finite_difference(left[finite], right[finite], _SHAKEN * np.maximum(moved, usual))


def _worst_finite_difference(left: Any, right: Any, allowed: Any) -> tuple[float, str]:
    """The worst element of those that differ by more than is `allowed`, each measured by its own size or that of its
    like.

    Elements equal on both sides set no measure either: a mask of -1e30 says nothing of the numbers beside it.
    """
    off = np.maximum(np.abs(left - right) - allowed, 0.0)
    differ = off > 0
    if not differ.any():
        return 0.0, ""
    off, sizes = off[differ], np.abs(right[differ])
    usual = sizes[sizes > 0]
    if not usual.size:
        return float(np.max(off)), f"largest absolute difference {np.max(off):.3g} from 0"
    middle = float(np.sort(usual)[(usual.size - 1) // 2])
    scale = float(np.max(usual[usual <= _OUTLIER * middle]))
    relative = off / np.maximum(sizes, scale)
    worst = int(np.argmax(relative))
    reason = f"largest absolute difference {off[worst]:.3g} at a number of size {sizes[worst]:.3g}"
    return float(relative[worst]), f"{reason}, in an array of numbers up to {scale:.3g}"


def check_numbers(
    got: Numbers,
    want: Numbers,
    tolerance: Callable[[str], float],
    against: str,
    shaken: Numbers | None = None,
    zeros_prove: bool = False,
) -> tuple[Checked, list[str]]:
    """Compare all numbers leaf by leaf. Returns also sentences on the largest difference and on what proves nothing.

    `tolerance` gives, for a path, the relative difference still taken for rounding; `shaken` as in `compare_leaves`.
    `zeros_prove`: 0 on both sides counts, for it is what was written down beforehand.
    """
    found, odd = compare_leaves(got, want, shaken=shaken)
    failures = [Failure("numbers", f"{text}: compared with {against}") for text in odd]
    for one in found:
        allowed = tolerance(one.path)
        if one.size > allowed:
            message = (
                f"differs from {against} by {one.size:.2g} relative, tolerance {allowed:.0e}; {one.reason}"
            )
            failures.append(Failure("numbers", message, one.where, one.path, one.array))
    if not found:
        return Checked(failures, 0), [f"{against} has no numbers to compare with"]
    worst = found[0]
    limit = f"(tolerance {tolerance(worst.path):.0e})"
    said = [f"largest difference from {against}: {worst.size:.2g} at {worst.where} {limit}"]
    idle = [] if zeros_prove else sorted((one for one in found if one.idle), key=lambda one: one.path)
    if idle:
        shown = ", ".join(f"{one.where} ({one.idle})" for one in idle[:_SHOWN])
        more = f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else ""
        said.append(f"equal to {against}, which proves nothing: {shown}{more}")
    if len(idle) == len(found) and not failures:
        message = (
            f"comparing with {against} proves nothing: every number is 0 on both sides, or there is none; "
            "choose other arguments for fn"
        )
        failures.append(Failure("empty", message))
    return Checked(failures, len(found) - len(idle)), said

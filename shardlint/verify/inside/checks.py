"""The comparisons every verification is made of. Each returns what does not hold, and how many leaves
it looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardlint.verify.inside import tree
from shardlint.verify.inside.compiled import Compiled
from shardlint.verify.inside.place import Indivisible, named
from shardlint.verify.paths import nothing_matches, select, unmatched
from shardlint.verify.report import Failure, array_text, size_text
from shardlint.verify.spec import P, sizes_text

ONE_DEVICE = "one device"


@dataclass
class Checked:
    """Failures and the number of leaves compared."""

    failures: list[Failure]
    count: int

    def __iadd__(self, other: Checked) -> Checked:
        self.failures += other.failures
        self.count += other.count
        return self


def same_sharding(actual: Any, mesh: Any, spec: P, ndim: int) -> bool:
    """Whether a sharding places an array as `spec` on `mesh` does; where in a device's memory does not
    matter.
    """
    if isinstance(actual, jax.sharding.SingleDeviceSharding):
        return bool(mesh.devices.size == 1 and actual.device_set == set(mesh.devices.flat))
    expected = named(mesh, spec, getattr(actual, "memory_kind", None))
    return bool(actual.is_equivalent_to(expected, ndim))


def on_one_device(sharding: Any) -> bool:
    """Whether a sharding uses a single device."""
    return len(sharding.device_set) == 1


def sharding_text(sharding: Any) -> str:
    """A sharding in mesh axis names: `P('data', None)`, `one device`, or jax's own words for anything
    else.
    """
    if sharding is None:
        return "host memory"
    if on_one_device(sharding):
        return ONE_DEVICE
    if isinstance(sharding, jax.sharding.NamedSharding):
        entries = list(sharding.spec)
        while entries and entries[-1] in (None, ()):
            entries.pop()
        return f"P({', '.join(repr(entry) for entry in entries)})"
    if sharding.is_fully_replicated:
        return "P()"
    return str(sharding)


def check_placement(
    leaves: Sequence[tree.Leaf], out: Mapping[str, P], mesh: Any, replicated_max: int | None
) -> Checked:
    """Compare output leaves with the specs their paths ask for, and limit the size of the replicated others.

    Raises `Indivisible` when the mesh does not divide an expected dimension.
    """
    checked = Checked([], 0)
    sizes = dict(mesh.shape)
    for glob, nearest in unmatched(out, [leaf.path for leaf in leaves]).items():
        checked.failures.append(Failure("pattern", nothing_matches(glob, nearest)))
    for leaf in leaves:
        found = select(out, leaf.path)
        if found is not None:
            spec = found[1]
            try:
                misfit = spec.misfit(leaf.shape, sizes)
            except ValueError as error:
                failure = Failure("fixture", str(error), leaf.where, leaf.path, leaf.array)
                checked += Checked([failure], 1)
                continue
            if misfit:
                raise Indivisible(f"{leaf.where}: {misfit}")
            checked += _compare(leaf, mesh, spec)
        elif replicated_max is not None:
            checked += _limit_replicated(leaf, mesh, replicated_max)
    whole = [failure for failure in checked.failures if failure.kind == "replicated"]
    if len(whole) > 1:
        whole.sort(key=lambda failure: failure.bytes_actual or 0, reverse=True)
        whole[0].message += f"; the largest of {len(whole)}"
        checked.failures = [failure for failure in checked.failures if failure.kind != "replicated"] + whole
    return checked


def _compare(leaf: tree.Leaf, mesh: Any, spec: P) -> Checked:
    if leaf.sharding is not None and same_sharding(leaf.sharding, mesh, spec, len(leaf.shape)):
        return Checked([], 1)
    failure = Failure(
        "sharding", "", leaf.where, leaf.path, leaf.array, str(spec), sharding_text(leaf.sharding)
    )
    failure.bytes_expected = leaf.bytes_under(named(mesh, spec))
    failure.bytes_actual = leaf.local_bytes
    other = getattr(leaf.sharding, "mesh", None)
    if other is not None and not on_one_device(leaf.sharding) and dict(other.shape) != dict(mesh.shape):
        failure.message = f"on another mesh: {sizes_text(other.shape)}"
    return Checked([failure], 1)


def _limit_replicated(leaf: tree.Leaf, mesh: Any, most: int) -> Checked:
    whole = leaf.sharding is None or on_one_device(leaf.sharding) or leaf.sharding.is_fully_replicated
    if mesh.devices.size == 1 or not whole or leaf.local_bytes <= most:
        return Checked([], 1)
    message = f"{size_text(leaf.local_bytes)} whole, more than replicated_bytes_max ({size_text(most)})"
    actual = sharding_text(leaf.sharding)
    failure = Failure("replicated", message, leaf.where, leaf.path, leaf.array, "sharded", actual)
    failure.bytes_actual = leaf.local_bytes
    return Checked([failure], 1)


def check_donation(compiled: Compiled) -> Checked:
    """Every donated array must have been donated by the function and be reused for an output."""
    donated = compiled.donated
    failures = []
    for one in donated:
        if not one.given or one.aliased is False:
            message = (
                "donated, but no output reuses its buffer: none has its shape, dtype and sharding"
                if one.given
                else "not donated by fn"
            )
            failures.append(_kept(one.leaf, message))
    if not failures and any(one.aliased is None for one in donated):
        wanted = sum(one.leaf.local_bytes for one in donated)
        if compiled.alias_bytes < wanted:
            reused = (
                f"{size_text(compiled.alias_bytes)} of {size_text(wanted)} donated are reused on each device"
            )
            failures.append(Failure("donation", reused, expected="all reused", actual="part"))
    return Checked(failures, len(donated))


def check_deleted(args: Sequence[Any], donate: Sequence[int]) -> Checked:
    """After a call, every donated array must be gone: an array still alive was copied. `args` are those before it
    (see `tree.snapshot`).
    """
    checked = Checked([], 0)
    for index in donate:
        for path, where, leaf in tree.flatten(args[index]):
            if isinstance(leaf, jax.Array):
                checked.count += 1
                if not leaf.is_deleted():
                    held = tree.Leaf(
                        path, f"args[{index}]{where}", tuple(leaf.shape), leaf.dtype, leaf.sharding
                    )
                    checked.failures.append(
                        _kept(held, "still alive after the call: its buffer was not reused")
                    )
    return checked


def _kept(leaf: tree.Leaf, message: str) -> Failure:
    return Failure(
        "donation",
        message,
        leaf.where,
        leaf.path,
        leaf.array,
        "buffer reused",
        "kept",
        None,
        leaf.local_bytes,
    )


def check_replicas(output: Any) -> Checked:
    """Devices that hold the same part of an output array must hold the same numbers."""
    checked = Checked([], 0)
    for path, where, leaf in tree.flatten(output):
        if not isinstance(leaf, jax.Array):
            continue
        checked.count += 1
        first: dict[str, tuple[Any, Any]] = {}
        for shard in leaf.addressable_shards:
            data = np.asarray(jax.random.key_data(shard.data) if tree.is_key(leaf.dtype) else shard.data)
            device, other = first.setdefault(str(shard.index), (shard.device, data))
            if data.tobytes() != other.tobytes():
                message = (
                    f"devices {device.id} and {shard.device.id} hold different numbers for the same part"
                )
                text = array_text(str(leaf.dtype), leaf.shape)
                checked.failures.append(Failure("replicas", message, "out" + where, path, text))
                break
    return checked


def numbers(output: Any) -> dict[str, tuple[str, Any]]:
    """Path -> (spelling, host array) of every number in an output, python scalars too."""
    found = {}
    for path, where, leaf in tree.flatten(output):
        if tree.is_array(leaf):
            host = tree.to_host(leaf)
            found[path] = ("out" + where, host.data if isinstance(host, tree.HostKey) else host)
        elif isinstance(leaf, bool | int | float | complex | np.generic):
            found[path] = ("out" + where, np.asarray(leaf))
    return found


@dataclass(frozen=True)
class Difference:
    """How far one leaf is from what it should be, relative to its largest number. Infinite where
    shapes differ.
    """

    size: float
    where: str
    path: str
    array: str
    reason: str


def differences(
    got: Mapping[str, tuple[str, Any]], want: Mapping[str, tuple[str, Any]]
) -> tuple[list[Difference], list[str]]:
    """The difference of each leaf both have, largest first, and what only one of them has."""
    found = []
    for path in got.keys() & want.keys():
        where, actual = got[path]
        size, reason = _difference(np.asarray(actual), np.asarray(want[path][1]))
        found.append(Difference(size, where, path, array_text(str(actual.dtype), actual.shape), reason))
    odd = [
        f"only one side has {(got.get(path) or want[path])[0]}" for path in sorted(got.keys() ^ want.keys())
    ]
    return sorted(found, key=lambda one: (-one.size, one.path)), odd


def _difference(actual: Any, expected: Any) -> tuple[float, str]:
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
    left, right = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(right)
    if not (
        np.array_equal(finite, np.isfinite(left))
        and np.array_equal(left[~finite], right[~finite], equal_nan=True)
    ):
        return float("inf"), "NaN or infinity in other places"
    if not finite.any():
        return float("inf"), "there is no finite number to compare"
    left, right = left[finite], right[finite]
    scale = float(np.max(np.abs(right)))
    worst = float(np.max(np.abs(left - right)))
    return (
        worst / scale if scale else worst
    ), f"largest absolute difference {worst:.3g}, largest number {scale:.3g}"


def check_numbers(
    got: Mapping[str, tuple[str, Any]],
    want: Mapping[str, tuple[str, Any]],
    tolerance: Callable[[str], float],
    against: str,
) -> tuple[Checked, str]:
    """Compare all numbers leaf by leaf. Returns also a sentence on the largest difference.

    `tolerance` gives, for a path, the relative difference still taken for rounding.
    """
    found, odd = differences(got, want)
    failures = [Failure("numbers", f"{text}: compared with {against}") for text in odd]
    for one in found:
        allowed = tolerance(one.path)
        if one.size > allowed:
            message = (
                f"differs from {against} by {one.size:.2g} relative, tolerance {allowed:.0e}; {one.reason}"
            )
            failures.append(Failure("numbers", message, one.where, one.path, one.array))
    if not found:
        return Checked(failures, 0), f"no numbers to compare with {against}"
    worst = found[0]
    limit = f"(tolerance {tolerance(worst.path):.0e})"
    summary = f"largest difference from {against}: {worst.size:.2g} at {worst.where} {limit}"
    return Checked(failures, len(found)), summary

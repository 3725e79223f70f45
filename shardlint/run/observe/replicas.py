"""Copies of one array on several devices, compared: a sample of each, once for each program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_SAMPLE = 4096
_ARRAYS = 64


def find_unequal_replicas(jax: Any, results: Sequence[Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Results of which two devices hold the same part, and other numbers in it."""
    for at, one in _choose_largest(results):
        sharding = getattr(one, "sharding", None)
        if sharding is None or len(sharding.device_set) < 2:
            continue
        first: dict[str, Any] = {}
        for shard in one.addressable_shards:
            sample, key = _sample_shard(jax, shard.data), str(shard.index)
            if sample is None:
                break
            known = first.setdefault(key, (shard.device, sample))
            if known[1] is not sample and not is_same_sample(known[1], sample):
                yield {
                    "result": names[at] if at < len(names) else f"[{at}]", "shape": list(one.shape),
                    "dtype": str(one.dtype), "pair": [known[0].id, shard.device.id],
                }  # fmt: skip
                break


@dataclass(frozen=True)
class Before:
    """An argument of `pmap` that has a row for each device. `rows` are samples of them, `alike` whether they are the
    same, `blank` whether they hold one number throughout, `made` the lines that made it, `at` its number.
    """

    form: tuple[Any, ...]
    name: str
    rows: list[Any]
    alike: bool
    blank: bool
    made: list[Any]
    at: int


def note_before_call(
    jax: Any, names: Sequence[str], args: Sequence[Any], made: Callable[[Any], list[Any]]
) -> list[Before]:
    """The arguments of a call of `pmap`; none where nothing is the same on every device."""
    found = []
    for at, one in _choose_largest(args):
        rows = sample_rows(jax, one)
        if rows:
            alike = are_alike(rows)
            blank = alike and is_blank(rows)
            name = names[at] if at < len(names) else f"argument {at}"
            found.append(Before((tuple(one.shape), str(one.dtype)), name, rows, alike, blank, made(one), at))
    return found if any(one.alike for one in found) else []


def has_number_per_device(jax: Any, args: Sequence[Any]) -> bool:
    """Return whether each device gets a number of its own, such as the learning rate of a sweep."""
    for one in args:
        devices = len(getattr(getattr(one, "sharding", None), "device_set", ()))
        if getattr(one, "shape", None) in ((devices,), (jax.local_device_count(),)):
            if jax.numpy.issubdtype(one.dtype, jax.numpy.floating) and len({float(each) for each in one}) > 1:
                return True
    return False


def find_parted_results(
    jax: Any, results: Sequence[Any], names: Sequence[str], befores: list[Before]
) -> Iterator[dict[str, Any]]:
    """Results of `pmap` that differ by device though the arguments that they take the place of were the same on all,
    and those that differed before and are moved by the same on all: no replicas of one another.
    """
    largest = max((_count_elements(one.form[0]) for one in befores if one.alike), default=0)
    told: list[tuple[dict[str, Any], bool]] = []
    kept = False
    for at, one in _choose_largest(results):
        like = [each for each in befores if each.form == (tuple(one.shape), str(one.dtype))]
        if not like or _count_elements(one.shape) * 50 < largest or len(one.shape) < 2:
            continue
        rows = sample_rows(jax, one)
        if not rows:
            continue
        name = names[at] if at < len(names) else f"[{at}]"
        before = max(like, key=lambda each: _common_ending_length(each.name, name))
        found = {
            "at": at, "result": name, "shape": list(one.shape), "dtype": str(one.dtype), "argument": before.name,
            "apart": False, "made": before.made,
        }  # fmt: skip
        if not before.alike:
            if _is_changed_equally(before.rows, rows):
                told.append(({**found, "apart": True}, False))
            continue
        # A moment of weights, which an optimizer begins with zeros, is of their form and has their key.
        weights = (
            each
            for each in like
            if each.alike and not each.blank and _common_ending_length(each.name, before.name) > 2
        )
        empty = before.blank and not any(weights)
        if are_alike(rows):
            kept = kept or not empty
            continue
        told.append((found, empty))
    # Beside weights that stay the same, or where all was empty, it is each device's own: a buffer, running state.
    if not all(empty for _, empty in told):
        yield from ({**found, "beside": kept} for found, empty in told if not (empty and kept))


def _common_ending_length(argument: str, result: str) -> int:
    """How much of the ends of two names is the same: `state.mu['w']` and `[0].mu['w']`."""
    pairs = zip(reversed(argument), reversed(result), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_changed_equally(before: list[Any], after: list[Any]) -> bool:
    """Return whether a call adds an equal value to each device's copy."""
    import numpy as np

    if len(before) != len(after) or before[0].dtype.kind != "f" or before[0].shape != after[0].shape:
        return False
    moved = [np.asarray(two, np.float64) - np.asarray(one, np.float64) for one, two in zip(before, after, strict=True)]
    most = max(float(np.abs(one).max()) for one in moved)
    apart = max(float(np.abs(one - before[0]).max()) for one in before[1:])
    return 0 < most < apart and all(np.allclose(one, moved[0], rtol=1e-2, atol=2e-2 * most) for one in moved[1:])


def do_rows_differ(jax: Any, one: Any) -> bool:
    """Return whether the rows of an array with one row for each device differ."""
    rows = sample_rows(jax, one)
    return bool(rows) and not are_alike(rows)


def are_alike(rows: Sequence[Any]) -> bool:
    """Return whether samples of several devices hold the same numbers."""
    return len(rows) > 1 and all(is_same_sample(rows[0], row) for row in rows[1:])


def is_blank(rows: Sequence[Any]) -> bool:
    """Return whether the first sample holds one number throughout."""
    return bool((rows[0] == rows[0][:1]).all())


def sample_rows(jax: Any, one: Any) -> list[Any]:
    """A sample of each device's row, where an array of numbers has one for each."""
    sharding = getattr(one, "sharding", None)
    whole = sharding is None or len(sharding.device_set) == 1
    if whole and len(getattr(one, "shape", ())) > 1 and one.shape[0] == jax.local_device_count():
        if not hasattr(one, "nbytes"):
            return []
        rows = [_sample_shard(jax, row) for row in (one if sharding is None else jax.device_get(one))]
        return [] if any(row is None for row in rows) else rows
    if sharding is None or len(sharding.device_set) < 2 or one.shape[:1] != (len(sharding.device_set),):
        return []
    shards = list(one.addressable_shards)
    if any(shard.data.shape[:1] != (1,) for shard in shards):
        return []
    rows = [_sample_shard(jax, shard.data) for shard in shards]
    return [] if any(row is None for row in rows) else rows


def sample_parts(jax: Any, one: Any) -> list[Any]:
    """A sample of what each device holds of an array that is split, or of a row for each that the host has."""
    sharding = getattr(one, "sharding", None)
    if sharding is None or len(sharding.device_set) < 2:
        shape = tuple(getattr(one, "shape", ()))
        # What stands for an array, as where a program is only traced, has none.
        rows = list(one) if len(shape) > 1 and shape[0] == jax.local_device_count() and hasattr(one, "nbytes") else []
        samples = [_sample_shard(jax, row) for row in rows]
    elif len({str(shard.index) for shard in one.addressable_shards}) < 2:
        return []
    else:
        samples = [_sample_shard(jax, shard.data) for shard in one.addressable_shards]
    return [] if any(sample is None for sample in samples) else samples


def _choose_largest(arrays: Sequence[Any]) -> list[tuple[int, Any]]:
    """The largest arrays, that all comes to little time."""
    real = [(at, one) for at, one in enumerate(arrays) if hasattr(one, "dtype") and hasattr(one, "size")]
    return sorted(real, key=lambda pair: -int(pair[1].size))[:_ARRAYS]


def _sample_shard(jax: Any, data: Any) -> Any:
    """Some of the numbers of a shard, from all over it."""
    import numpy as np

    if not jax.numpy.issubdtype(data.dtype, jax.numpy.number) and data.dtype != bool:
        return None
    flat = np.asarray(data).reshape(-1)
    step = max(1, flat.size // _SAMPLE)
    return flat[::step][:_SAMPLE]


def is_same_sample(one: Any, other: Any) -> bool:
    """Return whether two samples hold the same numbers, but for rounding."""
    import numpy as np

    if one.shape != other.shape:
        return False
    first, second = one.astype(np.float64) if one.dtype.kind not in "cb" else one, other
    second = second.astype(np.float64) if second.dtype.kind not in "cb" else second
    with np.errstate(all="ignore"):
        close = np.isclose(first, second, rtol=1e-5, atol=1e-7, equal_nan=True)
    return bool(np.mean(close) > 0.999)


def _count_elements(shape: Any) -> int:
    total = 1
    for part in shape:
        total *= int(part)
    return total

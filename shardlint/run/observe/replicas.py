"""Copies of one array on several devices, compared: a sample of each, once for each program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_SAMPLE = 4096
_ARRAYS = 64


def unequal(jax: Any, results: Sequence[Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Results of which two devices hold the same part, and other numbers in it."""
    for at, one in _largest(results):
        sharding = getattr(one, "sharding", None)
        if sharding is None or len(sharding.device_set) < 2:
            continue
        first: dict[str, Any] = {}
        for shard in one.addressable_shards:
            sample, key = _sample(jax, shard.data), str(shard.index)
            if sample is None:
                break
            known = first.setdefault(key, (shard.device, sample))
            if known[1] is not sample and not same(known[1], sample):
                yield {
                    "result": names[at] if at < len(names) else f"[{at}]", "shape": list(one.shape),
                    "dtype": str(one.dtype), "pair": [known[0].id, shard.device.id],
                }  # fmt: skip
                break


def equal_rows(jax: Any, names: Sequence[str], args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Arguments of `pmap` that are the same on every device: shape and type of each, its name, and whether it holds
    one number throughout.
    """
    found: list[tuple[Any, ...]] = []
    for at, one in _largest(args):
        rows = rows_of(jax, one)
        if rows and all(same(rows[0], row) for row in rows[1:]):
            name = names[at] if at < len(names) else f"argument {at}"
            found.append((tuple(one.shape), str(one.dtype), name, bool((rows[0] == rows[0][:1]).all())))
    return found


def parted(
    jax: Any, results: Sequence[Any], names: Sequence[str], equal: list[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    """Results of `pmap` that differ by device though arguments of their type were the same on all."""
    largest = max((_count(shape) for shape, *_ in equal), default=0)
    told: list[tuple[dict[str, Any], bool]] = []
    kept = False
    for at, one in _largest(results):
        like = [each for each in equal if each[:2] == (tuple(one.shape), str(one.dtype))]
        if not like or _count(one.shape) * 50 < largest or len(one.shape) < 2:
            continue
        rows = rows_of(jax, one)
        if not rows:
            continue
        empty = all(each[3] for each in like)
        if all(same(rows[0], row) for row in rows[1:]):
            kept = kept or not empty
            continue
        name = names[at] if at < len(names) else f"[{at}]"
        found = {"result": name, "shape": list(one.shape), "dtype": str(one.dtype), "argument": like[0][2]}
        told.append((found, empty))
    # Beside weights that stay the same, what was empty is each device's own: a replay buffer, running state.
    yield from (found for found, empty in told if not (empty and kept))


def rows_differ(jax: Any, one: Any) -> bool:
    """Whether the rows of an array that has one for each device are not the same."""
    rows = rows_of(jax, one)
    return bool(rows) and not all(same(rows[0], row) for row in rows[1:])


def rows_of(jax: Any, one: Any) -> list[Any]:
    """A sample of each device's row, where an array of numbers has one for each."""
    sharding = getattr(one, "sharding", None)
    if sharding is None and len(getattr(one, "shape", ())) > 1 and one.shape[0] == jax.local_device_count():
        rows = [_sample(jax, row) for row in one]
        return [] if any(row is None for row in rows) else rows
    if sharding is None or len(sharding.device_set) < 2 or one.shape[:1] != (len(sharding.device_set),):
        return []
    shards = list(one.addressable_shards)
    if any(shard.data.shape[:1] != (1,) for shard in shards):
        return []
    rows = [_sample(jax, shard.data) for shard in shards]
    return [] if any(row is None for row in rows) else rows


def parts(jax: Any, one: Any) -> list[Any]:
    """A sample of what each device holds of an array that is split, or of a row for each that the host has."""
    sharding = getattr(one, "sharding", None)
    if sharding is None or len(sharding.device_set) < 2:
        shape = tuple(getattr(one, "shape", ()))
        rows = list(one) if len(shape) > 1 and shape[0] == jax.local_device_count() else []
        samples = [_sample(jax, row) for row in rows]
    elif len({str(shard.index) for shard in one.addressable_shards}) < 2:
        return []
    else:
        samples = [_sample(jax, shard.data) for shard in one.addressable_shards]
    return [] if any(sample is None for sample in samples) else samples


def _largest(arrays: Sequence[Any]) -> list[tuple[int, Any]]:
    """The largest arrays, that all comes to little time."""
    real = [(at, one) for at, one in enumerate(arrays) if hasattr(one, "dtype") and hasattr(one, "size")]
    return sorted(real, key=lambda pair: -int(pair[1].size))[:_ARRAYS]


def _sample(jax: Any, data: Any) -> Any:
    """Some of the numbers of a shard, from all over it."""
    import numpy as np

    if not jax.numpy.issubdtype(data.dtype, jax.numpy.number) and data.dtype != bool:
        return None
    flat = np.asarray(data).reshape(-1)
    step = max(1, flat.size // _SAMPLE)
    return flat[::step][:_SAMPLE]


def same(one: Any, other: Any) -> bool:
    """Whether two samples hold the same numbers, but for rounding."""
    import numpy as np

    if one.shape != other.shape:
        return False
    first, second = one.astype(np.float64) if one.dtype.kind not in "cb" else one, other
    second = second.astype(np.float64) if second.dtype.kind not in "cb" else second
    with np.errstate(all="ignore"):
        close = np.isclose(first, second, rtol=1e-5, atol=1e-7, equal_nan=True)
    return bool(np.mean(close) > 0.999)


def _count(shape: Any) -> int:
    total = 1
    for part in shape:
        total *= int(part)
    return total

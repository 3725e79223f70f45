"""Placements asked for by hand, `device_put` and `with_sharding_constraint`, against what came of them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from . import decided, fetched, meshes, padded, ran, replicas
from .frames import discarded, is_user, stack
from .program import nbytes, spec_text
from .sink import quiet, write

_LEAST = 4096
_LOOKS = 3
_SAMPLE = 4096
_DIFFERENT = 16
_filled_at: dict[str, list[int]] = {}


def install(jax: Any) -> None:
    """Watch the public names; jax itself uses others."""
    jax.device_put = _watched(jax, jax.device_put, "jax.device_put")
    jax.lax.with_sharding_constraint = _watched(
        jax, jax.lax.with_sharding_constraint, "jax.lax.with_sharding_constraint"
    )
    jax.make_array_from_callback = _filled(jax, jax.make_array_from_callback)
    jax.make_array_from_single_device_arrays = _filled(jax, jax.make_array_from_single_device_arrays)
    for name in ("asarray", "array"):
        setattr(jax.numpy, name, _brought(jax, getattr(jax.numpy, name), f"jnp.{name}"))


def _brought(jax: Any, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a wrapper of a function that moves host arrays to a device of jax's choice."""

    @functools.wraps(function)
    def brought(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if args and args[0] is not result and not isinstance(result, jax.core.Tracer):
            _note_brought(result, name)
        return result

    return brought


@quiet
def _note_brought(result: Any, name: str) -> None:
    if nbytes(result) >= _LEAST:
        ran.note_host(result, stack(), name)


def _filled(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def filled(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        callback = args[2] if len(args) > 2 else kwargs.get("data_callback")
        _alike(jax, result, callback if callable(callback) else None)
        return result

    return filled


@quiet
def _alike(jax: Any, result: Any, callback: Any = None) -> None:
    """Parts of an array that were to be different rows of it and are copies of one another; and copies that are not."""
    lines = stack()
    seen = _filled_at.setdefault(str(lines[:1]), [0])
    seen[0] += 1
    if not lines or seen[0] > _LOOKS or isinstance(result, jax.core.Tracer):
        return
    if not jax.dtypes.issubdtype(result.dtype, jax.numpy.number):
        return
    import numpy as np

    for found in replicas.unequal(jax, [result], [""]):
        write("copies-differ", lines=lines, spec=spec_text(result.sharding), bytes=nbytes(result), **found)
    parts = {str(shard.index): shard.data for shard in result.addressable_shards}
    if len(parts) < 2 or nbytes(result) < _LEAST:
        return
    samples = [np.asarray(part).reshape(-1)[:_SAMPLE] for part in parts.values()]
    # Zeros and other constants are alike and meant so, and a few small numbers may be by chance.
    if len(set(samples[0].tolist())) < _DIFFERENT:
        return
    if all(one.shape == samples[0].shape and (one == samples[0]).all() for one in samples[1:]):
        write(
            "same-shards", lines=lines, shape=list(result.shape), dtype=str(result.dtype), parts=len(parts),
            spec=spec_text(result.sharding), bytes=nbytes(result), callback=_written(callback),
        )  # fmt: skip


def _written(function: Any) -> list[Any] | None:
    """Where the function of a callback is written, if it is a `def` of the user's."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is None or code.co_name == "<lambda>" or not is_user(code.co_filename):
        return None
    return [os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name]  # noqa: PTH100


def _watched(jax: Any, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def placed(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            _raised(name, args, error)
            raise
        _placed(jax, name, args, kwargs, result, sys._getframe(1))
        return result

    return placed


@quiet
def _raised(name: str, args: Any, error: Exception) -> None:
    lines = stack()
    if lines:
        text = f"{type(error).__name__}: {error}".split("\n")[0]
        write("raised", name=name, error=text[:300], what=_shapes(args), lines=lines)


@quiet
def _placed(jax: Any, name: str, args: Any, kwargs: Any, result: Any, caller: Any) -> None:
    line = discarded(caller)
    if line is not None:
        write("discarded", name=name, line=line, what=_shapes((result,)), bytes=bytes_of(jax, result))
    if name == "jax.device_put":
        given = args[0] if args else kwargs.get("x")
        leaves = zip(jax.tree_util.tree_leaves(given), jax.tree_util.tree_leaves(result), strict=False)
        pairs = list(leaves)[:400]
        if len(args) < 2 and kwargs.get("device") is None:
            _left_there(jax, pairs)
        lines = _lies(jax, result, args[1] if len(args) > 1 else kwargs.get("device"))
        fetched.note_placed(lines)
        padded.note_put(pairs, lines)
        _undone(pairs)
        _placed_again(pairs, lines)
        _moved_on(jax, pairs)
    if name == "jax.device_put" and _asked_none(args, kwargs) and meshes.built:
        _none(jax, name, result)


def _left_there(jax: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Arrays of the host that were brought to a device by a `device_put` without a sharding."""
    lines: list[Any] = []
    for before, after in pairs:
        if not hasattr(before, "sharding") and not isinstance(after, jax.core.Tracer) and nbytes(after) >= _LEAST:
            lines = lines or stack()
            ran.note_host(after, lines, "jax.device_put")


def _undone(pairs: list[tuple[Any, Any]]) -> None:
    """Arrays that were placed split, and are made whole on all devices before a function of the user's took one."""
    found = []
    for before, after in [] if ran.split_taken else pairs:
        by = ran.placed_by(before)
        if by and len(after.sharding.device_set) > 1 and after.sharding.is_fully_replicated:
            if ran.held(before, before.sharding) < nbytes(before):
                found.append((before, by))
    if found:
        before, by = max(found, key=lambda each: nbytes(each[0]))
        write(
            "placement-overridden",
            lines=stack(), before=by, count=len(found), shape=list(before.shape), dtype=str(before.dtype),
            spec=spec_text(before.sharding), bytes=sum(nbytes(one) for one, _ in found),
        )  # fmt: skip


def _placed_again(pairs: list[tuple[Any, Any]], lines: list[Any]) -> None:
    """Arrays that a call has just placed split, and that are placed otherwise by another one: all is sent once more."""
    for before, after in pairs:
        by = ran.placed_by(before)
        if not by or nbytes(before) < _LEAST or by == lines[:2]:
            continue
        lay, lies = before.sharding, after.sharding
        if lay.is_fully_replicated or lies.is_fully_replicated or lay.is_equivalent_to(lies, before.ndim):
            continue
        write(
            "placed-again", lines=lines[:4], before=by, put=lines[:2], decided=ran.decided_by(before),
            mesh=meshes.other_order(lay, lies), spec=spec_text(lay), now=spec_text(lies), shape=list(before.shape),
            dtype=str(before.dtype), bytes=nbytes(before),
        )  # fmt: skip


def _lies(jax: Any, result: Any, target: Any = None) -> list[Any]:
    """Where arrays lie that were placed on several devices, one of each type and spec; the lines that placed some."""
    lines: list[Any] = []
    known = dict(decided.leaves(jax, target)) if target is not None else {}
    for path, one in jax.tree_util.tree_flatten_with_path(result)[0][:400]:
        sharding = getattr(one, "sharding", None)
        if (
            isinstance(one, jax.core.Tracer)
            or sharding is None
            or len(getattr(sharding, "device_set", ())) < 2
        ):
            continue
        if nbytes(one) >= _LEAST:
            lines = lines or stack()
            ran.note_put(one, lines)
            ran.note_decided(one, decided.by_path(known, jax.tree_util.keystr(path)))
            facts = ran.leaf(jax.tree_util.keystr(path), one, 0)
            write(
                "put",
                **{key: facts[key] for key in ("name", "shape", "dtype", "bytes", "held", "spec", "devices")},
            )
    return lines


def _moved_on(jax: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Arrays that a function made on one device, and that are placed on several now."""
    for before, after in pairs:
        if (
            isinstance(after, jax.core.Tracer)
            or len(getattr(getattr(after, "sharding", None), "device_set", ())) < 2
        ):
            continue
        maker = ran.maker_of(before)
        if maker and nbytes(before) >= _LEAST:
            write("moved-on", maker=maker, shape=list(before.shape), dtype=str(before.dtype))


def _asked_none(args: Any, kwargs: Any) -> bool:
    """Return whether `device=None` was passed. `device_put(x)` by itself moves host arrays."""
    return args[1] is None if len(args) > 1 else "device" in kwargs and kwargs["device"] is None


def _none(jax: Any, name: str, result: Any) -> None:
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(result) if isinstance(leaf, jax.Array)]
    single = [
        leaf
        for leaf in leaves
        if not isinstance(leaf, jax.core.Tracer) and len(leaf.sharding.device_set) == 1
    ]
    if single and len(single) == len(leaves):
        lines = stack()
        if lines:
            write("put-none", name=name, lines=lines, what=_shapes((result,)), bytes=bytes_of(jax, result))


def _shapes(args: Any) -> str:
    """The first argument, for a person: `float32[512,2048]`, or how many arrays a tree has."""
    import jax

    leaves = [leaf for leaf in jax.tree_util.tree_leaves(args[0]) if hasattr(leaf, "shape")] if args else []
    if not leaves:
        return ""
    first = max(leaves, key=lambda leaf: getattr(leaf, "size", 0))
    text = f"{first.dtype}[{','.join(map(str, first.shape))}]"
    return text if len(leaves) == 1 else f"{len(leaves)} arrays, the largest {text}"


def bytes_of(jax: Any, tree: Any) -> int:
    """Bytes of the arrays of a tree when whole, traced ones too."""
    return sum(
        int(getattr(leaf, "size", 0)) * getattr(getattr(leaf, "dtype", None), "itemsize", 0)
        for leaf in jax.tree_util.tree_leaves(tree)
    )

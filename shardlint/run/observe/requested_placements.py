"""Placements asked for by hand, `device_put` and `with_sharding_constraint`, against what came of them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from . import first_runs, host_transfers, meshes, padding_rows, replicas, sharding_origins
from .event_sink import silence_errors, write_event
from .frames import find_discarding_line, is_user, user_stack
from .program import bytes_per_device, bytes_when_whole, spec_text

_LEAST = 4096
_LOOKS = 3
_SAMPLE = 4096
_DIFFERENT = 16
_filled_at: dict[str, list[int]] = {}


def install(jax: Any) -> None:
    """Watch the public names; jax itself uses others."""
    jax.device_put = _wrap_placement(jax, jax.device_put, "jax.device_put")
    jax.lax.with_sharding_constraint = _wrap_placement(
        jax, jax.lax.with_sharding_constraint, "jax.lax.with_sharding_constraint"
    )
    jax.make_array_from_callback = _wrap_callback_maker(jax, jax.make_array_from_callback)
    jax.make_array_from_single_device_arrays = _wrap_callback_maker(jax, jax.make_array_from_single_device_arrays)
    if hasattr(jax, "make_array_from_process_local_data"):
        jax.make_array_from_process_local_data = _wrap_local_maker(jax, jax.make_array_from_process_local_data)
    for name in ("asarray", "array"):
        setattr(jax.numpy, name, _wrap_transfer(jax, getattr(jax.numpy, name), f"jnp.{name}"))


def _wrap_transfer(jax: Any, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a wrapper of a function that moves host arrays to a device of jax's choice."""

    @functools.wraps(function)
    def transfer_and_note(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if args and args[0] is not result and not isinstance(result, jax.core.Tracer):
            _note_brought(result, name)
        return result

    return transfer_and_note


@silence_errors
def _note_brought(result: Any, name: str) -> None:
    if bytes_when_whole(result) >= _LEAST:
        first_runs.note_host(result, user_stack(), name)


def _wrap_local_maker(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def make_and_note(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        _note_made(jax, result)
        return result

    return make_and_note


@silence_errors
def _note_made(jax: Any, result: Any) -> None:
    lines = user_stack()
    for one in jax.tree_util.tree_leaves(result):
        first_runs.note_put(one, lines)


def _wrap_callback_maker(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def make_and_compare(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        callback = args[2] if len(args) > 2 else kwargs.get("data_callback")
        _compare_parts(jax, result, callback if callable(callback) else None)
        return result

    return make_and_compare


@silence_errors
def _compare_parts(jax: Any, result: Any, callback: Any = None) -> None:
    """Parts of an array that were to be different rows of it and are copies of one another; and copies that are not."""
    lines = user_stack()
    seen = _filled_at.setdefault(str(lines[:1]), [0])
    seen[0] += 1
    if not lines or seen[0] > _LOOKS or isinstance(result, jax.core.Tracer):
        return
    if not jax.dtypes.issubdtype(result.dtype, jax.numpy.number):
        return
    import numpy as np

    for found in replicas.find_unequal_replicas(jax, [result], [""]):
        write_event(
            "copies-differ",
            lines=lines,
            spec=spec_text(result.sharding),
            bytes=bytes_when_whole(result),
            **found,
        )
    parts = {str(shard.index): shard.data for shard in result.addressable_shards}
    if len(parts) < 2 or bytes_when_whole(result) < _LEAST:
        return
    samples = [np.asarray(part).reshape(-1)[:_SAMPLE] for part in parts.values()]
    # Zeros and other constants are alike and meant so, and a few small numbers may be by chance.
    if len(set(samples[0].tolist())) < _DIFFERENT:
        return
    if all(one.shape == samples[0].shape and (one == samples[0]).all() for one in samples[1:]):
        write_event(
            "same-shards", lines=lines, shape=list(result.shape), dtype=str(result.dtype), parts=len(parts),
            spec=spec_text(result.sharding), bytes=bytes_when_whole(result), callback=_definition_place(callback),
        )  # fmt: skip


def _definition_place(function: Any) -> list[Any] | None:
    """Where the function of a callback is written, if it is a `def` of the user's."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is None or code.co_name == "<lambda>" or not is_user(code.co_filename):
        return None
    return [os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name]  # noqa: PTH100


def _wrap_placement(jax: Any, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def place_and_note(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            _note_error(name, args, error)
            raise
        _note_placement(jax, name, args, kwargs, result, sys._getframe(1))
        return result

    return place_and_note


@silence_errors
def _note_error(name: str, args: Any, error: Exception) -> None:
    lines = user_stack()
    if lines:
        text = f"{type(error).__name__}: {error}".split("\n")[0]
        write_event("raised", name=name, error=text[:300], what=_describe_first_argument(args), lines=lines)


@silence_errors
def _note_placement(jax: Any, name: str, args: Any, kwargs: Any, result: Any, caller: Any) -> None:
    line = find_discarding_line(caller)
    if line is not None:
        write_event(
            "discarded",
            name=name,
            line=line,
            what=_describe_first_argument((result,)),
            bytes=bytes_of(jax, result),
        )
    if name == "jax.device_put":
        given = args[0] if args else kwargs.get("x")
        leaves = zip(jax.tree_util.tree_leaves(given), jax.tree_util.tree_leaves(result), strict=False)
        pairs = list(leaves)[:400]
        if len(args) < 2 and kwargs.get("device") is None:
            _note_left_on_device(jax, pairs)
        lines = _describe_placements(jax, result, args[1] if len(args) > 1 else kwargs.get("device"))
        host_transfers.note_placed(lines)
        padding_rows.note_put(pairs, lines)
        first_runs.note_moved_keys(pairs)
        _note_undone(pairs)
        _note_placed_again(pairs, lines)
        _note_moved_to_many(jax, pairs)
    if name == "jax.device_put" and _is_device_none(args, kwargs) and meshes.built:
        _note_missing_target(jax, name, result)


def _note_left_on_device(jax: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Arrays of the host that were brought to a device by a `device_put` without a sharding."""
    lines: list[Any] = []
    for before, after in pairs:
        if (
            not hasattr(before, "sharding")
            and not isinstance(after, jax.core.Tracer)
            and bytes_when_whole(after) >= _LEAST
        ):
            lines = lines or user_stack()
            first_runs.note_host(after, lines, "jax.device_put")


def _note_undone(pairs: list[tuple[Any, Any]]) -> None:
    """Arrays that were placed split, and are made whole on all devices before a function of the user's took one."""
    found = []
    for before, after in [] if first_runs.split_taken else pairs:
        by = first_runs.lines_placing_array(before)
        if by and len(after.sharding.device_set) > 1 and after.sharding.is_fully_replicated:
            if bytes_per_device(before, before.sharding) < bytes_when_whole(before):
                found.append((before, by))
    if found:
        before, by = max(found, key=lambda each: bytes_when_whole(each[0]))
        write_event(
            "placement-overridden",
            lines=user_stack(), before=by, count=len(found), shape=list(before.shape), dtype=str(before.dtype),
            spec=spec_text(before.sharding), bytes=sum(bytes_when_whole(one) for one, _ in found),
        )  # fmt: skip


def _note_placed_again(pairs: list[tuple[Any, Any]], lines: list[Any]) -> None:
    """Arrays that a call has just placed split, and that are placed otherwise by another one: all is sent once more."""
    for before, after in pairs:
        by = first_runs.lines_placing_array(before)
        if not by or bytes_when_whole(before) < _LEAST or by == lines[:2]:
            continue
        lay, lies = before.sharding, after.sharding
        if lay.is_fully_replicated or lies.is_fully_replicated or lay.is_equivalent_to(lies, before.ndim):
            continue
        write_event(
            "placed-again", lines=lines[:4], before=by, put=lines[:2], decided=first_runs.lines_deciding_layout(before),
            mesh=meshes.line_of_unusual_order(lay, lies), spec=spec_text(lay), now=spec_text(lies),
            shape=list(before.shape),
            dtype=str(before.dtype), bytes=bytes_when_whole(before),
        )  # fmt: skip


def _describe_placements(jax: Any, result: Any, target: Any = None) -> list[Any]:
    """Where arrays lie that were placed on several devices, one of each type and spec; the lines that placed some."""
    lines: list[Any] = []
    known = dict(sharding_origins.shardings_by_path(jax, target)) if target is not None else {}
    for path, one in jax.tree_util.tree_flatten_with_path(result)[0][:400]:
        sharding = getattr(one, "sharding", None)
        if (
            isinstance(one, jax.core.Tracer)
            or sharding is None
            or len(getattr(sharding, "device_set", ())) < 2
        ):
            continue
        if bytes_when_whole(one) >= _LEAST:
            lines = lines or user_stack()
            first_runs.note_put(one, lines)
            first_runs.note_decided(one, sharding_origins.lines_for_path(known, jax.tree_util.keystr(path)))
            facts = first_runs.describe_leaf(jax.tree_util.keystr(path), one, 0)
            write_event(
                "put",
                **{key: facts[key] for key in ("name", "shape", "dtype", "bytes", "held", "spec", "devices")},
            )
    return lines


def _note_moved_to_many(jax: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Arrays that a function made on one device, and that are placed on several now."""
    for before, after in pairs:
        if (
            isinstance(after, jax.core.Tracer)
            or len(getattr(getattr(after, "sharding", None), "device_set", ())) < 2
        ):
            continue
        maker = first_runs.maker_of(before)
        if maker and bytes_when_whole(before) >= _LEAST:
            write_event("moved-on", maker=maker, shape=list(before.shape), dtype=str(before.dtype))


def _is_device_none(args: Any, kwargs: Any) -> bool:
    """Return whether `device=None` was passed. `device_put(x)` by itself moves host arrays."""
    return args[1] is None if len(args) > 1 else "device" in kwargs and kwargs["device"] is None


def _note_missing_target(jax: Any, name: str, result: Any) -> None:
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(result) if isinstance(leaf, jax.Array)]
    single = [
        leaf
        for leaf in leaves
        if not isinstance(leaf, jax.core.Tracer) and len(leaf.sharding.device_set) == 1
    ]
    if single and len(single) == len(leaves):
        lines = user_stack()
        if lines:
            write_event(
                "put-none",
                name=name,
                lines=lines,
                what=_describe_first_argument((result,)),
                bytes=bytes_of(jax, result),
            )


def _describe_first_argument(args: Any) -> str:
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

"""Arrays of the host that functions of the user's take: what lay split before, and what each call copies anew."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from . import host_transfers, wrapper_arguments
from .event_sink import silence_errors, write_event
from .frames import user_stack
from .program import bytes_when_whole, spec_text

_LEAST = 4096
_MOST = 2000
_FEW = 8
_LOOK = 8
_LARGEST = 2**23
_ALIKE = 0.7
_fetched: dict[int, tuple[Any, dict[str, Any]]] = {}
_arguments: dict[int, tuple[Any, dict[str, Any]]] = {}
"""Numpy arrays in trees that functions took when they first ran, which are copied to devices then."""
_types: dict[tuple[Any, str], tuple[dict[str, Any], Any]] = {}
_looks: dict[tuple[Any, str], int] = {}


def install(jax: Any) -> None:
    """Watch how arrays become numpy's: all ways to do it end there."""
    from jax._src.array import ArrayImpl

    kind: Any = ArrayImpl
    array = kind.__array__

    def __array__(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = array(self, *args, **kwargs)
        if bytes_when_whole(self) >= _LEAST:
            _note_host_copy(self, result)
        return result

    __array__.__doc__ = array.__doc__
    kind.__array__ = __array__
    host_transfers.install(jax)
    _watch_copies()


def _watch_copies() -> None:
    """Watch how calls of compiled functions bring arrays to several devices."""
    from jax._src.interpreters import pxla

    shard = pxla.shard_args
    at = list(inspect.signature(shard).parameters).index("args")

    @functools.wraps(shard)
    def shard_and_note(*args: Any, **kwargs: Any) -> Any:
        for one in args[at] if len(args) > at and _arguments else ():
            if id(one) in _arguments:
                _note_copy(one)
        return shard(*args, **kwargs)

    pxla.shard_args = shard_and_note


@silence_errors
def _note_copy(one: Any) -> None:
    known, facts = _arguments[id(one)]
    if known() is not one:
        del _arguments[id(one)]
        return
    facts["copies"] += 1
    if facts["copies"] == 2:
        write_event("copied-again", lines=user_stack()[:4], **{key: facts[key] for key in ("name", "defined", "leaf")})


@silence_errors
def note_host_arguments(
    known: dict[str, Any], names: Sequence[str], args: Sequence[Any], leaf: Callable[..., Any]
) -> None:
    """Remember the numpy arrays that a function takes as parts of a tree, as weights are."""
    if not wrapper_arguments.is_user_function(known) or len(_arguments) >= _MOST:
        return
    for at, one in enumerate(args[: len(names)]):
        tree = any(mark in names[at] for mark in ".[")
        if tree and not hasattr(one, "sharding") and hasattr(one, "dtype") and bytes_when_whole(one) >= _LEAST:
            facts = {"name": known["name"], "defined": known["defined"], "leaf": leaf(names[at], one, at), "copies": 0}
            _arguments[id(one)] = (weakref.ref(one), facts)


@silence_errors
def _note_host_copy(one: Any, result: Any) -> None:
    if len(one.sharding.device_set) < 2 or one.sharding.is_fully_replicated:
        return
    lines = user_stack()
    if not lines:
        return
    facts = {"lines": lines[:4], "spec": spec_text(one.sharding)}
    host_transfers.note_fetched(lines[:4], one, spec_text(one.sharding), bytes_when_whole(one))
    key = (tuple(one.shape), str(one.dtype))
    if len(_fetched) >= _MOST:
        return
    _types[key] = (facts, _mean_of_rows(result) if _looks.setdefault(key, 0) < _FEW else None)
    _looks[key] += 1
    try:
        _fetched[id(result)] = (weakref.ref(result), facts)
    except TypeError:  # a number
        return


def _mean_of_rows(one: Any) -> Any:
    """The mean of each row, by which a batch is known again when its rows are turned, clipped or noisy."""
    import numpy as np

    shape = tuple(one.shape)
    if len(shape) < 2 or shape[0] < _LOOK or one.size > _LARGEST or np.asarray(one).dtype.kind not in "fiu":
        return None
    return np.asarray(one, np.float64).reshape(shape[0], -1).mean(axis=1)


def _source_of_host_array(one: Any) -> dict[str, Any] | None:
    """Return the facts about the last fetched array from which a host array was made, row by row."""
    import numpy as np

    facts, before = _types.get((tuple(one.shape), str(one.dtype)), (None, None))
    now = _mean_of_rows(one) if before is not None else None
    if now is None or before is None or min(float(np.std(now)), float(np.std(before))) == 0:
        return None
    return facts if float(np.corrcoef(now, before)[0, 1]) > _ALIKE else None


@silence_errors
def report_host_arguments(
    known: dict[str, Any], names: Sequence[str], args: Sequence[Any], lines: list[Any], leaf: Callable[..., Any]
) -> None:
    """Tell what a function takes from the host that lay split on the devices before: the same array, or what numpy has
    made of it: an array of its shape and type whose rows are alike.
    """
    if not _fetched or not wrapper_arguments.is_user_function(known):
        return
    found: dict[str, list[Any]] = {}
    facts: dict[str, dict[str, Any]] = {}
    for at, one in enumerate(args):
        if hasattr(one, "sharding") or not hasattr(one, "dtype") or bytes_when_whole(one) < _LEAST:
            continue
        same = _fetched.get(id(one))
        fact = same[1] if same is not None and same[0]() is one else _source_of_host_array(one)
        if fact is not None:
            key = str(fact["lines"][0])
            facts.setdefault(key, {**fact, "same": same is not None})
            found.setdefault(key, []).append(leaf(names[at] if at < len(names) else f"argument {at}", one, at))
    for key, leaves in found.items():
        write_event(
            "through-host", name=known["name"], defined=known["defined"], called=lines, leaves=leaves[:12],
            bytes=sum(one["bytes"] for one in leaves), **facts[key],
        )  # fmt: skip

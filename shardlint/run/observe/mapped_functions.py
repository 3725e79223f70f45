"""Where functions were mapped over devices: the line of the `shard_map` or `pmap`, by the function it was given.

An operation only knows the lines that led to its call.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import sharding_origins, single_device_runs
from .event_sink import silence_errors, write_event
from .frames import is_user, user_line, walk_frames

_lines: dict[str, list[Any]] = {}
_pmaps: list[list[Any]] = []
_donates: dict[str, list[list[int]]] = {}
_keywords: dict[str, str] = {}
_times: Counter[tuple[str, int, str]] = Counter()
_AGAIN = 3


def install(jax: Any) -> None:
    """Watch `jax.jit`, and `jax.shard_map` and `jax.pmap` where a release has them."""
    for name in ("shard_map", "pmap"):
        if inspect.isroutine(getattr(jax, name, None)):
            setattr(jax, name, wrap_transform(getattr(jax, name), name))
    jax.jit = wrap_transform(jax.jit, "jit")
    atexit.register(_write_transforms)


def install_old(module: Any) -> None:
    """Watch `shard_map` where it was before."""
    module.shard_map = wrap_transform(module.shard_map, "shard_map")


def wrap_transform(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`jit`, `shard_map` or `pmap`, which note whom they were given."""

    @functools.wraps(function)
    def transform_and_note(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("f", kwargs.get("fun"))
        _note_transform(name, given, kwargs.get("donate_argnums"), kwargs.get("out_shardings"))
        made = function(*args, **kwargs)
        if name != "jit" and (args or {"f", "fun"} & set(kwargs)):
            return single_device_runs.wrap_mapped(made, function, args, kwargs, user_line())
        return made

    return transform_and_note


@silence_errors
def _note_transform(name: str, function: Any, donates: Any = None, shardings: Any = None) -> None:
    line = user_line()
    if line is not None and name == "pmap":
        _pmaps.append(line)
    while isinstance(function, functools.partial):
        function = function.func
    if line is None or function is None:
        return
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return
    if name in ("jit", "pmap") and is_user(code.co_filename):
        _times[code.co_filename, code.co_firstlineno, code.co_name] += 1
    if name == "jit":
        if is_user(code.co_filename):
            sharding_origins.note_jit(code, shardings)
            write_event("jitted", defined=[code.co_filename, code.co_firstlineno, code.co_name], line=line)
            numbers = [donates] if isinstance(donates, int) else list(donates or ())
            _donates.setdefault(_transform_key(code.co_name, code.co_filename, code.co_firstlineno), []).append(numbers)
            if code.co_flags & inspect.CO_VARKEYWORDS:
                at = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
                _keywords[_transform_key(code.co_name, code.co_filename, code.co_firstlineno)] = code.co_varnames[at]
    else:
        _lines.setdefault(_transform_key(code.co_name, code.co_filename, code.co_firstlineno), line)


@silence_errors
def _write_transforms() -> None:
    for defined, times in _times.items():
        if times >= _AGAIN:
            write_event("jitted-times", defined=list(defined), times=times)


def line_of(source: str) -> list[Any] | None:
    """The line for what jax calls a function: `total at /home/me/train.py:7`."""
    return _lines.get(source)


def donated_by_number(source: str) -> list[int]:
    """Which positional arguments the jit of a function donates, where all its jits donate the same."""
    known = _donates.get(source, [[]])
    return known[0] if all(one == known[0] for one in known) else []


def keywords_parameter(source: str) -> str:
    """The name under which a jitted function takes keywords that it does not list; empty where it takes none."""
    return _keywords.get(source, "")


def line_of_only_pmap() -> list[Any] | None:
    """The line of the `pmap`, where there is one."""
    return _pmaps[0] if len(set(map(tuple, _pmaps))) == 1 else None


def facts_of_called_pmap(jax: Any) -> dict[str, Any] | None:
    """Of the `pmap` that is being called: the function it was given, and its arguments by their paths. Where `pmap` is
    a jit of a `shard_map` of a function of jax, the program itself knows neither.
    """
    for frame in walk_frames(sys._getframe(1)):
        if frame.f_code.co_name == "wrapped" and frame.f_code.co_filename.endswith("pmap.py"):
            found = inspect.getclosurevars(frame.f_locals["infer_params"]).nonlocals
            function = found["wrapped_fun"].f
            while isinstance(function, functools.partial):
                function = function.func
            code = inspect.unwrap(function).__code__
            static = set(found.get("static_broadcasted_tuple") or ())
            names = (*code.co_varnames[: code.co_argcount], *(f"args[{at}]" for at in range(99)))
            given = enumerate(zip(names, frame.f_locals["args"], strict=False))
            taken = {name: one for at, (name, one) in given if at not in static}
            paths = [
                name + jax.tree_util.keystr(path)
                for name, one in (*taken.items(), *sorted(frame.f_locals["kwargs"].items()))
                for path, _ in jax.tree_util.tree_flatten_with_path(one)[0]
            ]
            line = [code.co_filename, code.co_firstlineno, code.co_name]
            return {"name": code.co_name, "defined": line if is_user(line[0]) else None, "arguments": paths}
    return None


def line_of_mapped_function(name: str, file: str) -> list[Any] | None:
    """The line for a function of a file, where only one of its name was mapped."""
    lines = [line for key, line in _lines.items() if key.startswith(f"{name} at {file}:")]
    return lines[0] if len(lines) == 1 else None


def _transform_key(name: str, file: str, line: int) -> str:
    return f"{name} at {file}:{line}"

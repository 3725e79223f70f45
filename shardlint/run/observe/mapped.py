"""Where functions were mapped over devices: the line of the `shard_map` or `pmap`, by the function it was given.

An operation only knows the lines that led to its call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .frames import is_user, user_line
from .sink import quiet, write

_lines: dict[str, list[Any]] = {}
_pmaps: list[list[Any]] = []


def install(jax: Any) -> None:
    """Watch `jax.jit`, and `jax.shard_map` and `jax.pmap` where a release has them."""
    for name in ("shard_map", "pmap"):
        if inspect.isroutine(getattr(jax, name, None)):
            setattr(jax, name, watched(getattr(jax, name), name))
    jax.jit = watched(jax.jit, "jit")


def install_old(module: Any) -> None:
    """Watch `shard_map` where it was before."""
    module.shard_map = watched(module.shard_map, "shard_map")


def watched(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`jit`, `shard_map` or `pmap`, which note whom they were given."""

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        _note(name, args[0] if args else kwargs.get("f", kwargs.get("fun")))
        return function(*args, **kwargs)

    return mapped


@quiet
def _note(name: str, function: Any) -> None:
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
    if name == "jit":
        if is_user(code.co_filename):
            write("jitted", defined=[code.co_filename, code.co_firstlineno, code.co_name], line=line)
    else:
        _lines.setdefault(_key(code.co_name, code.co_filename, code.co_firstlineno), line)


def line_of(source: str) -> list[Any] | None:
    """The line for what jax calls a function: `total at /home/me/train.py:7`."""
    return _lines.get(source)


def only_pmap() -> list[Any] | None:
    """The line of the `pmap`, where there is one."""
    return _pmaps[0] if len(set(map(tuple, _pmaps))) == 1 else None


def of_function(name: str, file: str) -> list[Any] | None:
    """The line for a function of a file, where only one of its name was mapped."""
    lines = [line for key, line in _lines.items() if key.startswith(f"{name} at {file}:")]
    return lines[0] if len(lines) == 1 else None


def _key(name: str, file: str, line: int) -> str:
    return f"{name} at {file}:{line}"

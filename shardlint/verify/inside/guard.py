"""Guard of the functions that the checks depend on: recorded before the user's code runs, and compared afterwards.

The program under test shares its process with the checks. It has no reason to replace a function of the verifier, of
numpy or of jax's shardings and trees that they call.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import json
import math
import pkgutil
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_OURS = "shardlint.verify"
# Programs replace these for reasons of their own; no check rests on them.
_THEIRS = {"print", "open", "input", "__import__", "breakpoint", "exit", "quit", "help", "set_mesh"}
_NEEDED = {"__array__", "__eq__", "__hash__", "__iter__", "__len__", "__bool__"}

Place = tuple[str, Any, dict[str, Any]]
Code = tuple[str, Any, Any, Any, Any]


def load_all() -> None:
    """Import all that runs in a process of a program, so that none of it comes after the program's own code."""
    from shardlint.verify import inside

    for one in pkgutil.iter_modules(inside.__path__):
        importlib.import_module(f"{inside.__name__}.{one.name}")


def known_codes() -> set[int]:
    """The ids of the code objects of the verifier."""
    found: set[int] = set()
    for _, module in _own_modules():
        for value in vars(module).values():
            for function in _functions_of_value(value):
                _add_code(function.__code__, found)
    return found


def watch_state() -> Callable[[], str]:
    """Remember everything; the function returned says what has been changed since, "" for nothing."""
    places = list(_guarded_namespaces())
    codes = [
        (f"{owner}.{name}", function, function.__code__, function.__defaults__, function.__kwdefaults__)
        for owner, _, values in places
        for name, value in values.items()
        for function in _functions_of_value(value)
    ]
    copies = [
        (f"{owner}.{name}", value, value.copy())
        for owner, _, values in places
        if owner.startswith(_OURS)
        for name, value in values.items()
        if type(value) in (dict, list, set)
    ]
    # A copy of the function of its own, which no name leads to.
    space = {"__builtins__": dict(vars(builtins)), "missing": object()}
    return functools.partial(types.FunctionType(_find_changed_name.__code__, space), places, codes, copies)


def prepare_guard() -> tuple[set[int], Callable[[], str]]:
    """`known_codes` and `watch` of this process, done once, also for processes forked from it."""
    global _ready
    if _ready is None:
        load_all()
        _ready = known_codes(), watch_state()
    codes, changed = _ready
    frame = sys._getframe(1)
    while frame is not None:
        codes.add(id(frame.f_code))
        frame = frame.f_back  # type: ignore[assignment]
    return codes, changed


_ready: tuple[set[int], Callable[[], str]] | None = None


def _find_changed_name(places: list[Place], codes: list[Code], copies: list[tuple[str, Any, Any]]) -> str:
    for owner, space, values in places:
        for name, value in values.items():
            if space.get(name, missing) is not value:  # type: ignore[name-defined]  # noqa: F821  # see `watch`
                return f"{owner}.{name}"
    for name, function, code, defaults, keywords in codes:
        if (
            function.__code__ is not code
            or function.__defaults__ is not defaults
            or function.__kwdefaults__ is not keywords
        ):
            return name
    for name, value, copy in copies:
        if value != copy:
            return name
    return ""


def _guarded_namespaces() -> Iterator[Place]:
    """Each namespace that counts: its name, itself, and what it holds that counts."""
    named = set(_NEEDED)
    for name, module in _own_modules():
        values = {key: value for key, value in vars(module).items() if _must_keep_value(key, value)}
        yield name, vars(module), values
        for key, value in values.items():
            if isinstance(value, type) and value.__module__ == name:
                own = {inner: one for inner, one in vars(value).items() if _must_keep_value(inner, one)}
                yield f"{name}.{key}", vars(value), own
        for value in vars(module).values():
            for function in _functions_of_value(value):
                named |= _names_in_code(function.__code__)
    yield "sys.modules", sys.modules, dict(_own_modules())
    named -= _THEIRS
    for name, space in _foreign_namespaces():
        # numpy 2 has a name `bool` again, and programs that were written for numpy 1 set it.
        left_out = {"bool"} if name == "numpy" else set()
        values = {key: space[key] for key in named - left_out if key in space and _is_code(space[key])}
        yield name, space, values


def _foreign_namespaces() -> Iterator[tuple[str, Any]]:
    """The namespaces of others, of which what the verifier names counts."""
    import jax
    import numpy as np

    for module in (
        builtins,
        json,
        json.encoder,
        math,
        dataclasses,
        np,
        jax.tree_util,
        jax.dtypes,
        jax.sharding,
    ):
        yield module.__name__, vars(module)
    classes: list[Any] = [
        json.JSONEncoder,
        jax.Array,
        jax.sharding.Sharding,
        jax.sharding.NamedSharding,
        jax.sharding.SingleDeviceSharding,
        jax.sharding.PartitionSpec,
        jax.sharding.Mesh,
        jax.stages.Compiled,
        jax.stages.Lowered,
        jax.ShapeDtypeStruct,
    ]
    for module, attribute in (
        ("array", "ArrayImpl"),
        ("array", "Shard"),
        ("sharding_impls", "GSPMDSharding"),
    ):
        # Not public, and so not in every release.
        found = getattr(sys.modules.get(f"jax._src.{module}"), attribute, None)
        classes += [found] if isinstance(found, type) else []
    for one in dict.fromkeys(base for kind in classes for base in kind.__mro__ if base is not object):
        yield f"{one.__module__}.{one.__qualname__}", vars(one)


def _own_modules() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if (name == _OURS or name.startswith(f"{_OURS}.")) and isinstance(module, types.ModuleType):
            yield name, module


def _must_keep_value(name: str, value: Any) -> bool:
    """Return whether a name of the verifier's own must keep its value. Code and constants must; the rest is state."""
    return _is_code(value) or isinstance(value, types.ModuleType) or name.strip("_").isupper()


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, property | classmethod | staticmethod)


def _functions_of_value(value: Any) -> Iterator[Any]:
    """The functions a value is made of."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, classmethod | staticmethod):
        yield from _functions_of_value(value.__func__)
    elif isinstance(value, property):
        for part in (value.fget, value.fset):
            yield from _functions_of_value(part)
    elif isinstance(value, type) and value.__module__.startswith(_OURS):
        for one in vars(value).values():
            if not isinstance(one, type):
                yield from _functions_of_value(one)


def _add_code(code: types.CodeType, found: set[int]) -> None:
    found.add(id(code))
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            _add_code(one, found)


def _names_in_code(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found |= _names_in_code(one)
    return found

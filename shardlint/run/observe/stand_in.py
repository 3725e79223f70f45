"""One device in the place of a mesh: what a function knows of that from outside is changed while it is traced again."""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .frames import is_user

_MOST = 200


@contextmanager
def stand_in(
    jax: Any,
    function: Callable[..., Any],
    mesh: Any,
    alone: Any,
    numbers: bool | str,
    met: set[str] | None = None,
    counts: Mapping[int, int] | None = None,
) -> Iterator[None]:
    """While `function` is traced, `mesh` is `alone` in the globals and closures of it and of what it calls, and jax
    counts one device. With `numbers`, so are whole numbers that are the size of an axis, and pairs of a shift over one:
    all of them, or those of one name: a number of heads may be that of the devices by chance. `met` gets their names.
    `counts` says what else is another number there: how many rows one device has.
    """
    sizes = {int(size) for size in dict(mesh.shape).values() if size > 1}
    sizes |= {math.prod(sizes), int(mesh.size)} - {1}
    undo: list[Callable[[], None]] = []
    counted = jax.device_count, jax.local_device_count
    jax.device_count = jax.local_device_count = lambda *_, **__: 1
    try:
        def replace_once(value: Any, name: str) -> Any:
            stands = _replacement_for(value, mesh, alone, sizes if numbers in (True, name) else set())
            if counts and stands is value and type(value) is int:
                return counts.get(value, value)
            if met is not None and type(value) is int and stands is not value:
                met.add(name)
            return stands

        _change_function(function, replace_once, undo)
        yield
    finally:
        jax.device_count, jax.local_device_count = counted
        for one in reversed(undo):
            one()


def _replacement_for(value: Any, mesh: Any, alone: Any, sizes: set[int]) -> Any:
    """Return the replacement of a value on one device, or the value itself if it does not depend on the mesh."""
    if type(value) is type(mesh) and value == mesh:
        return alone
    if type(value) is int and value in sizes:
        return 1
    if sizes and isinstance(value, (list, tuple)) and value and all(map(_is_pair, value)):
        froms = {pair[0] for pair in value}
        if len(froms) in sizes:
            return [(0, 0)]
        if len(froms) + 1 in sizes:
            return []
    return value


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and all(type(number) is int for number in one)


def _change_function(function: Any, other: Callable[[Any, str], Any], undo: list[Callable[[], None]]) -> None:
    waiting, done = [function], set[int]()
    while waiting and len(done) < _MOST:
        one = waiting.pop()
        while isinstance(one, functools.partial):
            waiting += [each for each in (*one.args, *one.keywords.values()) if callable(each)]
            one = one.func
        one = inspect.unwrap(one) if callable(one) else one
        one = getattr(one, "__func__", one)
        if not isinstance(one, types.FunctionType) or id(one) in done or not is_user(one.__code__.co_filename):
            continue
        done.add(id(one))
        names = set(_names_in_code(one.__code__))
        for name in names & set(one.__globals__):
            put = functools.partial(_set_global, one.__globals__, name)
            _replace_value(one.__globals__[name], name, other, put, undo, waiting)
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not yet filled
                continue
            _replace_value(value, name, other, functools.partial(_set_cell, cell), undo, waiting)
        defaults = one.__defaults__ or ()
        count = one.__code__.co_argcount
        changed = tuple(
            other(value, name)
            for name, value in zip(one.__code__.co_varnames[count - len(defaults) : count], defaults, strict=True)
        )
        if any(new is not old for new, old in zip(changed, defaults, strict=True)):
            undo.append(functools.partial(setattr, one, "__defaults__", defaults))
            one.__defaults__ = changed


def _replace_value(
    value: Any,
    name: str,
    other: Callable[[Any, str], Any],
    put: Callable[[Any], None],
    undo: list[Callable[[], None]],
    waiting: list[Any],
) -> None:
    new = other(value, name)
    if new is not value:
        undo.append(functools.partial(put, value))
        put(new)
    elif callable(value):
        waiting.append(value)


def _set_global(where: dict[str, Any], name: str, value: Any) -> None:
    where[name] = value


def _set_cell(cell: Any, value: Any) -> None:
    cell.cell_contents = value


def _names_in_code(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names_in_code(one)

"""How to have a function again that another one made: by calling that one with what it was called with, or, of one that
is still running then, as `main` is, from its code and what it closes over.

Loaded by path beside `recorded.py`, in the program's own Python.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from typing import Any

_MOST = 400
_LOCALS = ".<locals>."
writes: Any = None
"""What `written.py` defines; set by who records."""


class Factories:
    """The calls of functions in which others were jitted, by the code of these."""

    def __init__(self) -> None:
        self.calls: dict[types.CodeType, tuple[Any, dict[str, Any]]] = {}

    def watch(self, pjit: Any) -> None:
        """Look on while `jax.jit` makes something of a function."""
        pjit.make_jit = self.noting(pjit.make_jit)

    def noting(self, make: Any) -> Any:
        """A function that makes a jit of another one, with a note of who asked."""

        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], types.FunctionType):
                self._note(args[0])
            return make(*args, **kwargs)

        return made

    def _note(self, fun: Any) -> None:
        try:
            if len(self.calls) >= _MOST or (of := _factory(fun)) is None:
                return
            frame: Any = sys._getframe(2)
            while frame is not None and frame.f_code is not of.__code__:
                frame = frame.f_back
            if frame is not None:
                names = of.__code__.co_varnames[: of.__code__.co_argcount + of.__code__.co_kwonlyargcount]
                if all(name in frame.f_locals for name in names):
                    self.calls[fun.__code__] = of, {name: frame.f_locals[name] for name in names}
        except Exception:  # a function that cannot be found is left out
            return

    def of(self, fun: Any) -> tuple[str, set[str], bool] | None:
        """The code that gives a function, what it imports, and whether what it gives is jitted already."""
        of = _factory(fun)
        if of is None or of.__kwdefaults__:
            return None
        written = writes.Code()
        if _is_running(of.__code__):
            return _inside(fun, of, written), written.imports, False
        known = self.calls.get(fun.__code__)
        given = known[1] if known is not None and known[0] is of else _closed_over(fun, of)
        parameters = inspect.signature(of).parameters.values()
        if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
            return None
        said = []
        for one in parameters:
            if one.name in given:
                said.append(f"{one.name}={_concrete(_of(given[one.name], of, written))}")
            elif one.default is one.empty:
                raise writes.Unwritten(f"function made by {of.__qualname__}, whose {one.name} is not known")
        name = written.by_name(of)
        return f"found({name}({', '.join(said)}), {fun.__qualname__!r})", written.imports, known is not None


def _factory(fun: Any) -> Any:
    """The function of a module in which another one is defined."""
    root = getattr(fun, "__qualname__", "").partition(_LOCALS)
    one: Any = sys.modules.get(fun.__module__) if root[1] else None
    for name in root[0].split(".") if one is not None else ():
        one = vars(one).get(name) if hasattr(one, "__dict__") else None
        if one is None:
            return None
    return one if isinstance(one, types.FunctionType) and writes.own(one.__code__.co_filename) else None


def _is_running(code: types.CodeType) -> bool:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _closed_over(fun: Any, of: Any) -> dict[str, Any]:
    """What a function closes over of those in which it is defined."""
    found = {}
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        if name in of.__code__.co_cellvars or name in of.__code__.co_varnames:
            found[name] = cell.cell_contents
    return found


def _inside(fun: Any, of: Any, written: Any) -> str:
    """A function as its code and what it closes over, where these are what can be written."""
    if fun.__defaults__ or fun.__kwdefaults__:
        raise writes.Unwritten(f"function inside of {of.__qualname__} with defaults")
    said = []
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        if cell.cell_contents is fun:
            raise writes.Unwritten(f"function {fun.__qualname__}, which calls itself")
        said.append(f", {name}={_concrete(_of(cell.cell_contents, of, written))}")
    return f"inner({written.by_name(of)}, {fun.__qualname__!r}{''.join(said)})"


def _of(value: Any, of: Any, written: Any) -> str:
    if isinstance(value, types.FunctionType) and _factory(value) is of:
        return _inside(value, of, written)
    return str(written.of(value))


def _concrete(code: str) -> str:
    """Arrays that a function closes over are there before it is traced."""
    return re.sub(r"\barray\(\(", "drawn((", code)

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
        self.running: Any = None
        """Told of functions that jit while they run (`returned.py`); set by who records."""
        self.jits: dict[int, tuple[Any, Any, dict[str, Any]]] = {}
        """By the id of what was jitted: itself, the function or class that did it, and what that was called with."""

    def watch(self, pjit: Any) -> None:
        """Look on while `jax.jit` makes something of a function."""
        pjit.make_jit = self.note_maker(pjit.make_jit)

    def note_maker(self, make: Any) -> Any:
        """A function that makes a jit of another one, with a note of who asked."""

        @functools.wraps(make)
        def make_and_note(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], types.FunctionType):
                self._note_caller(args[0])
            if args and _LOCALS not in getattr(_function_of_partial(args[0]), "__qualname__", _LOCALS):
                self._note_jit(args[0])
            return make(*args, **kwargs)

        return make_and_note

    def _note_caller(self, fun: Any) -> None:
        try:
            if len(self.calls) >= _MOST or (of := _enclosing_module_function(fun)) is None:
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

    def _note_jit(self, fun: Any) -> None:
        """Note in which function of the program one of a module is jitted, with which options only that one knows."""
        try:
            frame: Any = sys._getframe(2)
            while frame is not None and not writes.own(frame.f_code.co_filename):
                frame = frame.f_back
            if frame is None or len(self.jits) >= _MOST:
                return
            # A method that an object calls as it is made is a part of making it.
            me = _self_of_frame(frame)
            while me is not None and frame.f_code.co_name != "__init__" and _self_of_frame(frame.f_back) is me:
                frame = frame.f_back
            if (of := _callee_of_frame(frame)) is not None:
                names = inspect.signature(of).parameters
                if all(name in frame.f_locals for name in names):
                    self.jits[id(fun)] = fun, of, {name: frame.f_locals[name] for name in names}
        except Exception:  # its options are written down as they were
            return

    def watch_around(self) -> None:
        """Look on when the function returns in which a jit is called that nobody can find again."""
        frame: Any = sys._getframe(1)
        while frame is not None and (of := _function_of_frame(frame)) is None:
            frame = frame.f_back
        if frame is None:
            return
        given: dict[str, Any] = {}
        for name, one in inspect.signature(of).parameters.items():
            if name not in frame.f_locals:
                return
            value = frame.f_locals[name]
            if one.kind is one.VAR_POSITIONAL and value:
                # Numbers are no names: these are given by position, and so is what is before them.
                given = {str(at): each for at, each in enumerate((*given.values(), *value))}
            elif one.kind is one.VAR_KEYWORD:
                given.update(value)
            elif one.kind is not one.VAR_POSITIONAL:
                given[name] = value
        self.running.watch(of, given)

    def jitted(self, fun: Any) -> tuple[str, set[str]] | None:
        """The code that gives the jit of a function of a module, where another one makes it, and what that imports."""
        known = self.jits.get(id(fun))
        if known is None or known[0] is not fun:
            return None
        _, of, given = known
        begin = vars(of)["__init__"] if isinstance(of, type) else of
        parameters = inspect.signature(of).parameters
        loose = any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters.values())
        if loose or _is_running(begin.__code__):
            if not loose and begin is of:
                self.running.watch(of, given)
            return None
        written = writes.Code()
        try:
            said = [f"{name}={_make_arrays_concrete(written.of(given[name]))}" for name in parameters]
            name = written.known(of) if isinstance(of, type) else written.by_name(of)
        except writes.Unwritten:
            return None
        return f"jitted({name}({', '.join(said)}), {_function_of_partial(fun).__qualname__!r})", written.imports

    def of(self, fun: Any) -> tuple[str, set[str], bool] | None:
        """The code that gives a function, what it imports, and whether what it gives is jitted already."""
        of = _enclosing_module_function(fun)
        if of is None or of.__kwdefaults__:
            return None
        written = writes.Code()
        if _is_running(of.__code__):
            known = self.calls.get(fun.__code__)
            if known is not None and known[0] is of:
                self.running.watch(*known)
            return _function_as_code(fun, of, written), written.imports, False
        known = self.calls.get(fun.__code__)
        given = known[1] if known is not None and known[0] is of else _closure_variables(fun, of)
        parameters = inspect.signature(of).parameters.values()
        if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
            return None
        said = []
        for one in parameters:
            if one.name in given:
                said.append(f"{one.name}={_make_arrays_concrete(_value_as_code(given[one.name], of, written))}")
            elif one.default is one.empty:
                raise writes.Unwritten(f"function made by {of.__qualname__}, whose {one.name} is not known")
        name = written.by_name(of)
        return f"found({name}({', '.join(said)}), {fun.__qualname__!r})", written.imports, known is not None


def _enclosing_module_function(fun: Any) -> Any:
    """The function of a module in which another one is defined."""
    root = getattr(fun, "__qualname__", "").partition(_LOCALS)
    one: Any = sys.modules.get(fun.__module__) if root[1] else None
    for name in root[0].split(".") if one is not None else ():
        one = vars(one).get(name) if hasattr(one, "__dict__") else None
        if one is None:
            return None
    return one if isinstance(one, types.FunctionType) and writes.own(one.__code__.co_filename) else None


def _function_of_partial(fun: Any) -> Any:
    """The function that a partial is of."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return fun


def _self_of_frame(frame: Any) -> Any:
    """The object whose method a frame runs; None where it is none."""
    if frame is None or frame.f_code.co_varnames[:1] != ("self",):
        return None
    return frame.f_locals.get("self")


def _callee_of_frame(frame: Any) -> Any:
    """The function of a module that a frame runs, or the class whose object it makes; None for any other."""
    name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    if name.endswith(".__init__") and (me := _self_of_frame(frame)) is not None:
        return type(me) if type(me).__init__.__code__ is frame.f_code and "<" not in type(me).__qualname__ else None
    found = frame.f_globals.get(name)
    return found if isinstance(found, types.FunctionType) and found.__code__ is frame.f_code else None


def _function_of_frame(frame: Any) -> Any:
    """The function of a module, or the method of a class itself, that a frame of the program's own runs."""
    if not writes.own(frame.f_code.co_filename):
        return None
    kind = frame.f_locals.get("cls") if frame.f_code.co_varnames[:1] == ("cls",) else None
    if not isinstance(kind, type):
        return _callee_of_frame(frame) if frame.f_code.co_name != "__init__" else None
    bound = getattr(kind, frame.f_code.co_name, None)
    return bound if isinstance(bound, types.MethodType) and bound.__code__ is frame.f_code else None


def _is_running(code: types.CodeType) -> bool:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _closure_variables(fun: Any, of: Any) -> dict[str, Any]:
    """Return the variables that a function closes over from the functions around its definition."""
    found = {}
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        if name in of.__code__.co_cellvars or name in of.__code__.co_varnames:
            found[name] = cell.cell_contents
    return found


def _function_as_code(fun: Any, of: Any, written: Any) -> str:
    """A function as its code, its defaults and what it closes over, where these are what can be written."""
    said = []
    if fun.__defaults__ or fun.__kwdefaults__:
        said.append(f", {_make_arrays_concrete(_value_as_code(fun.__defaults__ or (), of, written))}")
        said += (
            [f", {_make_arrays_concrete(_value_as_code(fun.__kwdefaults__, of, written))}"]
            if fun.__kwdefaults__
            else []
        )
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True):
        if cell.cell_contents is fun:
            raise writes.Unwritten(f"function {fun.__qualname__}, which calls itself")
        said.append(f", {name}={_make_arrays_concrete(_value_as_code(cell.cell_contents, of, written))}")
    return f"inner({written.by_name(of)}, {fun.__qualname__!r}{''.join(said)})"


def _value_as_code(value: Any, of: Any, written: Any) -> str:
    if isinstance(value, types.FunctionType) and _enclosing_module_function(value) is of:
        return _function_as_code(value, of, written)
    return str(written.of(value))


def _make_arrays_concrete(code: str) -> str:
    """Arrays that a function closes over are there before it is traced."""
    return re.sub(r"\barray\(\(", "drawn((", code)

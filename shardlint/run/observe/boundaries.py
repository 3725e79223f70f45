"""The layouts at jit boundaries: what each call of a jitted function takes and gives, at the call in the user's code.

jax comes to Python for a call once for each signature (shapes, types, shardings), and then past it.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from . import wrapper_arguments
from .event_sink import silence_errors, write_event
from .frames import is_user, walk_frames
from .layout import describe_array

_MOST = 4000
_DEPTH = 40
_JAX = f"{os.sep}jax{os.sep}"
_WRAPPERS = (
    _JAX,
    f"{os.sep}equinox{os.sep}",
    f"{os.sep}flax{os.sep}nnx{os.sep}",
    os.path.dirname(os.path.abspath(__file__)),  # noqa: PTH100, PTH120
    f"{os.sep}run{os.sep}startup{os.sep}",
)
"""Whose frames may stand between the user's call and jax."""
_JITTED = (f"{os.sep}jax{os.sep}_src{os.sep}pmap.py", f"{os.sep}equinox{os.sep}_jit.py")
"""Where wrappers define functions of their own that they jit: each calls one of the user's."""


def install(jax: Any) -> None:
    """Watch where a call with a new signature enters jax."""
    from jax._src import pjit

    if hasattr(pjit, "_run_python_pjit"):  # jax 0.9 on
        run = pjit._run_python_pjit

        def call_in_newer_release(p: Any, flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
            known = _describe_call(fun)
            outs = run(p, flat, fun, args, kwargs)
            _add_results(known, outs[0])
            return outs

        pjit._run_python_pjit = call_in_newer_release
    elif hasattr(pjit, "_python_pjit_helper"):
        helper = pjit._python_pjit_helper

        def call_in_older_release(fun: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
            known = _describe_call(fun)
            outs = helper(fun, info, *args, **kwargs)
            _add_results(known, outs[0])
            return outs

        pjit._python_pjit_helper = call_in_older_release


@silence_errors
def _describe_call(fun: Any) -> dict[str, Any] | None:
    """Return the arguments of a call of the user's; None for one that a library makes by itself, or that is traced."""
    from jax._src import core

    entered = _entry_frame(fun) if core.trace_state_clean() else None
    if entered is None:
        return None
    args, kwargs = _frame_arguments(entered)
    taken = _describe_leaves((args, kwargs))
    if taken is None:
        return None
    return {"stack": _user_stack(entered.f_back), "name": _function_name(fun), "count": len(args), "arguments": taken}


@silence_errors
def _add_results(known: dict[str, Any] | None, outs: Any) -> None:
    if known is None:
        return
    if wrapper_arguments.is_call_remembered(lambda given: _write_call(known, given)):
        return
    _write_call(known, outs)


@silence_errors
def _write_call(known: dict[str, Any], outs: Any) -> None:
    write_event("boundary", results=_describe_leaves(outs) or [], **known)


def _entry_frame(fun: Any) -> FrameType | None:
    """The frame that the user's call of a jitted function entered; None where a library calls one of its own."""
    if not _is_given(fun):
        return None
    inner = None
    for frame in walk_frames(sys._getframe(3)):
        file = frame.f_code.co_filename
        if is_user(file) and not file.startswith("<"):
            return inner
        if not any(part in file for part in _WRAPPERS):
            return None
        inner = frame
    return None


def _is_given(fun: Any) -> bool:
    """Return whether a jitted function is the user's, or jitted by a wrapper for it. Functions of jax, such as
    `jnp.sum`, are not.
    """
    for _ in range(8):
        code = getattr(fun, "__code__", None)
        if isinstance(code, CodeType):
            file = code.co_filename
            if file.endswith(_JITTED) or not any(part in file for part in _WRAPPERS):
                return True
        inside = getattr(fun, "func", None) or getattr(fun, "__func__", None) or getattr(fun, "__wrapped__", None)
        if inside is None:
            return False
        if type(fun).__name__ == "PjitFunction":
            return True
        fun = inside
    return False


def _frame_arguments(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a frame has as `*args` and `**kwargs`."""
    found = inspect.getargvalues(frame)
    args = found.locals.get(found.varargs, ()) if found.varargs else ()
    return args, found.locals.get(found.keywords, {}) if found.keywords else {}


def _describe_leaves(tree: Any) -> list[list[Any]] | None:
    """Path and layout of each array; None where one of them is traced, or there are too many."""
    import jax

    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    if len(flat) > _MOST or any(isinstance(leaf, jax.core.Tracer) for _, leaf in flat):
        return None
    return [
        [list(map(_path_step, path)), describe_array(leaf)]
        for path, leaf in flat
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    ]


def _path_step(key: Any) -> Any:
    """A key of a path: a position or the key of a dict as it is, an attribute with its dot."""
    if hasattr(key, "name"):
        return f".{key.name}"
    found = getattr(key, "idx", getattr(key, "key", None))
    return found if isinstance(found, (int, str)) else str(found)


def _function_name(fun: Any) -> str:
    return str(getattr(fun, "__qualname__", None) or getattr(fun, "__name__", None) or type(fun).__name__)


def _user_stack(frame: FrameType | None) -> list[list[Any]]:
    """The calls of the user's code that led here, innermost first: file, lines and columns."""
    found: list[list[Any]] = []
    for one in walk_frames(frame):
        if is_user(one.f_code.co_filename) and len(found) < _DEPTH:
            place = _instruction_positions(one.f_code)[one.f_lasti // 2]
            found.append([os.path.abspath(one.f_code.co_filename), *place])  # noqa: PTH100
    return found


@functools.lru_cache(maxsize=256)
def _instruction_positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    """Line, last line, column and last column of each instruction."""
    find: Callable[[], Any] | None = getattr(code, "co_positions", None)
    if find is not None:
        return list(find())
    lines: dict[int, int | None] = {}
    for start, end, line in code.co_lines():
        lines |= dict.fromkeys(range(start, end, 2), line)
    return [(lines.get(at), None, None, None) for at in range(0, len(code.co_code), 2)]

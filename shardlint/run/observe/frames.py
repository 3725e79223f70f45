"""Which line of the user's a thing happens at, and whether its result is thrown away there."""

from __future__ import annotations

import dis
import functools
import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep  # noqa: PTH100, PTH120
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Library functions that hand on what they are given: who throws their result away throws away a placement.
_HANDING_ON = frozenset(
    (
        "tree_map",
        "map",
        "tree_map_with_path",
        "map_with_path",
        "filter_shard",
        "with_logical_constraint",
        "einshard",
        "<genexpr>",
    )
)


@functools.cache
def is_user(file: str) -> bool:
    """Return whether a file is the user's, and not one of a library, of Python or of this package."""
    if file.startswith("<"):
        return not file.startswith("<frozen") and file != "<__array_function__ internals>"
    path = os.path.abspath(file)  # noqa: PTH100
    if path.startswith(_HERE) or any(part in path for part in _PACKAGES):
        return False
    return not path.startswith(_STDLIB)


def line_of(frame: FrameType) -> list[Any]:
    """A frame as `[file, line, function]`."""
    file = frame.f_code.co_filename
    name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return [file if file.startswith("<") else os.path.abspath(file), frame.f_lineno, name]  # noqa: PTH100


def walk_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_frame() -> FrameType | None:
    """The innermost frame of the user's that led here."""
    return next((one for one in walk_frames(sys._getframe(1)) if is_user(one.f_code.co_filename)), None)


def user_line() -> list[Any] | None:
    """Its line."""
    frame = user_frame()
    return line_of(frame) if frame is not None else None


def user_stack(most: int = 6) -> list[list[Any]]:
    """The user's lines that led here, innermost first."""
    found = []
    for frame in walk_frames(sys._getframe(1)):
        if is_user(frame.f_code.co_filename):
            found.append(line_of(frame))
            if len(found) == most:
                break
    return found


def user_lines_of_traceback(traceback: Any) -> list[list[Any]]:
    """The user's lines of a traceback that jax keeps with an operation, innermost first."""
    if traceback is None:
        return []
    frames = getattr(traceback, "frames", None)
    if frames is None:
        return []
    found = []
    for one in frames:
        file = one.file_name
        if is_user(file):
            name = getattr(one, "function_name", "")
            found.append([file if file.startswith("<") else os.path.abspath(file), one.line_num, name])  # noqa: PTH100
    return found


def place_of_source(source: str) -> list[Any] | None:
    """Return the place of a function from jax's name for it, `total at /home/me/train.py:7`; None for one that is not
    the user's.
    """
    name, _, place = source.partition(" at ")
    file, _, line = place.rpartition(":")
    return [file, int(line), name] if line.isdigit() and is_user(file) else None


def find_discarding_line(frame: FrameType | None) -> list[Any] | None:
    """The user's line at which the result of the call that `frame` is in the middle of is thrown away, or None.

    Functions that return it at once are followed outwards.
    """
    for one in walk_frames(frame):
        code = one.f_code
        if code.co_filename.startswith(_HERE):
            continue
        after = _next_instruction(code, one.f_lasti)
        if is_user(code.co_filename):
            if after == "POP_TOP" or after.startswith("unread "):
                return line_of(one)
            if after != "RETURN_VALUE":
                return None
        elif after != "RETURN_VALUE" and code.co_name not in _HANDING_ON:
            return None
    return None


def lines_at_call(frame: FrameType | None, most: int = 4) -> list[list[Any]]:
    """The user's lines that led to the call that `frame` is in the middle of, from that on which keeps its result:
    functions that return it at once only hand it on.
    """
    lines = []
    handed = True
    for one in walk_frames(frame):
        if not is_user(one.f_code.co_filename):
            continue
        handed = handed and _next_instruction(one.f_code, one.f_lasti) == "RETURN_VALUE"
        if not handed:
            lines.append(line_of(one))
    return lines[:most]


@functools.lru_cache(maxsize=4096)
def _next_instruction(code: CodeType, at: int) -> str:
    """The instruction after the call at `at`; `unread x` where it keeps the result as x, which nothing reads."""
    for one in dis.get_instructions(code):
        if one.offset > at and one.opname not in ("CACHE", "NOP", "EXTENDED_ARG"):
            if (
                one.opname == "STORE_FAST"
                and isinstance(one.argval, str)
                and _is_variable_unread(code, one.argval, one.offset)
            ):
                return f"unread {one.argval}"
            return one.opname
    return ""


def _is_variable_unread(code: CodeType, name: str, at: int) -> bool:
    """Return whether a local variable of a function is never read after it is written at `at`. `_x` is not intended to
    be.
    """
    if name.startswith("_") or {"locals", "vars", "eval", "exec"} & set(code.co_names):
        return False
    found = list(dis.get_instructions(code))
    # A loop comes back to what stands before; handlers stand behind.
    back = [one.argval for one in found if one.offset > at and "JUMP_BACKWARD" in one.opname and one.argval <= at]
    again = min(back, default=at)
    return not any(
        "LOAD_FAST" in one.opname
        and one.offset >= again
        and (name == one.argval or (isinstance(one.argval, tuple) and name in one.argval))
        for one in found
    )

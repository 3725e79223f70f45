"""Messages of a program's exceptions, safe against code of their own. The module does not import jax."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable

_MOST = 4000


def safe_text(value: object, how: Callable[[object], str] = str) -> str:
    """`str` (or `repr`) of something of a program's; where that raises, a sentence that says so."""
    try:
        return how(value)
    except BaseException as error:  # it may raise anything
        return f"(its {how.__name__}() raised {type(error).__name__})"


def cut_text(text: str) -> str:
    """The beginning of a text that is too long to show."""
    return text if len(text) <= _MOST else f"{text[:_MOST]}... ({len(text) - _MOST} more characters)"


def exit_code(error: SystemExit) -> str:
    """Return the argument of a program's `sys.exit`, as it is written there."""
    return "" if error.code is None else cut_text(safe_text(error.code, repr))


def print_trace() -> None:
    """Print the traceback of the exception in hand, where there is still something to print to."""
    with contextlib.suppress(Exception):
        traceback.print_exc()


def flush_output() -> None:
    """Flush standard output and error, which the program may have closed or replaced."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()

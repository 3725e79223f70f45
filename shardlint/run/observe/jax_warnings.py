"""Warnings of jax itself, with the user's line that led to each. The line in the warning is one of jax."""

from __future__ import annotations

import functools
import sys
import types
import warnings
from typing import Any

from . import lowered_programs
from .event_sink import silence_errors, write_event
from .frames import place_of_source, user_stack

_ABOUT = ("donated", "jit-of-pmap", "harding", "replicat")


def install(jax: Any) -> None:
    """Give jax's modules a `warnings` that takes note, and then warns as before, a frame further out."""
    watched = types.ModuleType("warnings")
    watched.__dict__.update(vars(warnings))
    warn = warnings.warn

    @functools.wraps(warn)
    def note_and_warn(message: Any, category: Any = None, stacklevel: int = 1, *args: Any, **kwargs: Any) -> None:
        _note_warning(message, category)
        # Not the one of now: a program may have put another there.
        warnings.warn(message, category, stacklevel + 1, *args, **kwargs)

    watched.__dict__.update(warn=note_and_warn, __getattr__=lambda name: getattr(warnings, name))
    for name in ("filters", "showwarning", "formatwarning", "_showwarnmsg"):
        watched.__dict__.pop(name, None)
    for name, module in list(sys.modules.items()):
        if name.startswith("jax._src.") and getattr(module, "warnings", None) is warnings:
            vars(module)["warnings"] = watched


@silence_errors
def _note_warning(message: Any, category: Any) -> None:
    kind = (
        category
        if isinstance(category, type)
        else type(message)
        if isinstance(message, Warning)
        else UserWarning
    )
    text = str(message).split("\nSee")[0].strip()
    if issubclass(kind, DeprecationWarning) or not any(word in text for word in _ABOUT):
        return
    lines = user_stack()
    if lines:
        defined = place_of_source(lowered_programs.current[0]) if lowered_programs.current else None
        write_event("warning", text=text, category=kind.__name__, lines=lines, defined=defined)

"""Warnings of jax itself, with the user's line that led to each. The line in the warning is one of jax."""

from __future__ import annotations

import functools
import sys
import types
import warnings
from typing import Any

from . import lowered
from .frames import place, stack
from .sink import quiet, write

_ABOUT = ("donated", "jit-of-pmap", "harding", "replicat")


def install(jax: Any) -> None:
    """Give jax's modules a `warnings` that takes note, and then warns as before, a frame further out."""
    watched = types.ModuleType("warnings")
    watched.__dict__.update(vars(warnings))
    warn = warnings.warn

    @functools.wraps(warn)
    def noted(message: Any, category: Any = None, stacklevel: int = 1, *args: Any, **kwargs: Any) -> None:
        _noted(message, category)
        # Not the one of now: a program may have put another there.
        warnings.warn(message, category, stacklevel + 1, *args, **kwargs)

    watched.__dict__.update(warn=noted, __getattr__=lambda name: getattr(warnings, name))
    for name in ("filters", "showwarning", "formatwarning", "_showwarnmsg"):
        watched.__dict__.pop(name, None)
    for name, module in list(sys.modules.items()):
        if name.startswith("jax._src.") and getattr(module, "warnings", None) is warnings:
            vars(module)["warnings"] = watched


@quiet
def _noted(message: Any, category: Any) -> None:
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
    lines = stack()
    if lines:
        defined = place(lowered.current[0]) if lowered.current else None
        write("warning", text=text, category=kind.__name__, lines=lines, defined=defined)

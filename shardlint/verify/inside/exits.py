"""How a process ends."""

from __future__ import annotations

import os
import signal

# Had before a program may put something else in its place.
exit_now = os._exit


def describe_exit(code: int) -> str:
    """How a process ended, in words; empty for an ordinary exit with 0."""
    if code >= 0:
        return f"exited with code {code}" if code else ""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    if name == "SIGXCPU":
        return "killed at the processor-time limit"
    return f"crashed with {name}"

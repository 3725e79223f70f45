"""Streams as they may be: a terminal or a pipe, a full disk, a terminal that was hung up, closed before us."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def ignoring_write_errors() -> Iterator[None]:
    """Ignore failed writes in the block. The run goes on with its own exit code."""
    try:
        yield
    except OSError:
        sys.stderr = None  # Python would try once more at the end, and fail with an exit code of its own


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal (None: it was closed before)."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False


def is_coloured(stream: TextIO | None, colour: str = "auto") -> bool:
    """Return whether a stream gets colours: as `colour` says (always, never), else NO_COLOR, FORCE_COLOR, the terminal.
    """
    if colour != "auto":
        return colour == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if forced := os.environ.get("FORCE_COLOR"):
        return forced not in ("0", "false")
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"

"""Standard error that cannot be written to: a full disk, a terminal that was hung up."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """What is said here and cannot be written is not heard; the run goes on, and the exit code is its own."""
    try:
        yield
    except OSError:
        sys.stderr = None  # Python would try once more at the end, and fail with an exit code of its own

"""Why a run cannot begin."""

from __future__ import annotations


class CannotRun(Exception):
    """The run itself is not possible; the message says what to do."""

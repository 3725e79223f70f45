"""Regular expressions that are compiled when they are first used.

A run loads all rules, and most of their patterns meet no text: to compile them took a fifth of the time of a check of
one file.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """Stands for a compiled pattern, and becomes one where anything is asked of it."""

    def __init__(self, text: Any, flags: int) -> None:
        self._made = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)  # the next one does not come here
        return found


def compile_lazily(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled on first use, which is when an error in `text` shows."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))

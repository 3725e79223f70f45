"""Suggestion of the known word closest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(said: str, known: Iterable[str]) -> str:
    """A hint: the known word that is like what was said, else all of them."""
    import difflib

    words = list(known)
    near = difflib.get_close_matches(said.lower(), words, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(words)}"

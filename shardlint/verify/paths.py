"""Paths of leaves in a pytree, `0/layers/1/weight`, and the globs that select them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

T = TypeVar("T")


def path_text(keys: Iterable[Any]) -> str:
    """The path of a leaf from jax's key objects (of a dict, sequence, attribute or flattened index)."""
    return "/".join(str(_key_value(key)) for key in keys)


def _key_value(key: Any) -> Any:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return key


def glob_matches(glob: str, path: str) -> bool:
    """Return whether a glob selects a path. `*` is one segment (or part of one), `**` any number of them.

    NNX keeps each array in a Variable, so its paths end in `/value`; a glob may leave that out.
    """
    wanted = glob.split("/") if glob else []
    found = path.split("/") if path else []
    return _match_path(wanted, found) or (found[-1:] == ["value"] and _match_path(wanted, found[:-1]))


def _match_path(wanted: Sequence[str], found: Sequence[str]) -> bool:
    if not wanted:
        return not found
    if wanted[0] == "**":
        return any(_match_path(wanted[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and fnmatchcase(found[0], wanted[0]) and _match_path(wanted[1:], found[1:])


def select_glob(globs: Mapping[str, T], path: str) -> tuple[str, T] | None:
    """The first glob that selects a path, with its value."""
    return next(((glob, value) for glob, value in globs.items() if glob_matches(glob, path)), None)


def unmatched_globs(globs: Iterable[str], paths: Sequence[str]) -> dict[str, list[str]]:
    """Globs that select nothing, each with the paths nearest to it, to put in the message."""
    lost = [glob for glob in globs if not any(glob_matches(glob, path) for path in paths)]
    return {glob: difflib.get_close_matches(glob, paths, n=3, cutoff=0.0) for glob in lost}


def nothing_matches(glob: str, nearest: Sequence[str]) -> str:
    """The message for a glob that selects nothing."""
    if not nearest:
        return f"{glob!r} matches no leaf: there are no arrays"
    return f"{glob!r} matches no leaf; nearest: {', '.join(repr(path) for path in nearest)}"


def idle_globs(globs: Iterable[str], paths: Sequence[str]) -> dict[str, str]:
    """Globs that decide nothing, each with the message: those that match no leaf, and those of which an earlier one
    takes every leaf.
    """
    ordered = list(globs)
    found = {
        glob: nothing_matches(glob, nearest) for glob, nearest in unmatched_globs(ordered, paths).items()
    }
    for index, glob in enumerate(ordered):
        mine = [path for path in paths if glob_matches(glob, path)]
        before = [
            next((first for first in ordered[:index] if glob_matches(first, path)), None) for path in mine
        ]
        if mine and None not in before:
            earlier = ", ".join(repr(first) for first in dict.fromkeys(before))
            found[glob] = f"{glob!r} has no effect: {earlier} before it matches the same leaves"
    return found

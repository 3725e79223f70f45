"""Few globs in place of the paths of many arrays: those that a person would write."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardlint.verify.paths import glob_matches
from shardlint.verify.spec import P

_MOST = 150
"""Of more groups the paths are too irregular: each is written."""
_LONGEST = 4
_SPECIAL = re.compile(r"([*?\[])")


@dataclass(frozen=True)
class _Group:
    """Paths that differ in numbers only, or one path; all with one spec (None: no glob may match them)."""

    glob: str
    paths: tuple[str, ...]
    spec: P | None


def specs_as_globs(specs: Mapping[str, P], others: Collection[str] = ()) -> dict[str, P]:
    """Return globs that give each path its spec, if the first one that matches counts, and match none of the others."""
    plain = {path: _without_trailing_none(spec) for path, spec in specs.items()}
    groups = list(_group_paths(plain, [path for path in others if path not in plain]))
    if len(groups) > _MOST:
        return {one.glob: one.spec for one in groups if one.spec is not None}
    waiting = [one for one in groups if one.spec is not None]
    rest = _spec_of_rest(groups)
    found: dict[str, P] = {}
    while left := [one for one in waiting if one.spec != rest]:
        glob, taken = max(_candidates(left, groups), key=lambda one: (len(one[1]), -len(one[0]), one[0]))
        found[glob] = plain[taken[0].paths[0]]
        waiting = [one for one in waiting if one not in taken]
    if rest is not None:
        found[waiting[0].glob if len(waiting) == 1 else "**"] = rest
    return found


def _spec_of_rest(groups: Sequence[_Group]) -> P | None:
    """Return the spec that a last `**` may give: the only one, or replicated; None if no glob may match some path."""
    specs = {one.spec for one in groups}
    return None if None in specs else specs.copy().pop() if len(specs) == 1 else P() if P() in specs else None


def _candidates(left: Sequence[_Group], groups: Sequence[_Group]) -> Iterator[tuple[str, list[_Group]]]:
    """Globs, each with the groups that it takes. All these have one spec, and it matches no group with another."""
    globs = {glob: None for one in left for glob in _globs_of_group(one)}
    for glob in globs:
        matched = [one for one in groups if glob_matches(glob, one.paths[0])]
        if len({one.spec for one in matched}) == 1 and all(_is_matched(glob, one) for one in matched):
            if taken := [one for one in matched if one in left]:
                yield taken[0].glob if len(taken) == 1 else glob, taken


def _is_matched(glob: str, group: _Group) -> bool:
    return all(glob_matches(glob, path) for path in group.paths)


def _globs_of_group(group: _Group) -> Iterator[str]:
    yield group.glob
    parts = group.glob.split("/")
    for last in range(1, min(len(parts), _LONGEST) + 1):
        yield "/".join(["**", *parts[-last:]])
        if last + 1 < len(parts):
            yield "/".join([parts[0], "**", *parts[-last:]])
            yield "/".join([*parts[:2], "**", *parts[-last:]])
    for first in range(1, min(len(parts), _LONGEST)):
        yield "/".join([*parts[:first], "**"])


def _group_paths(specs: Mapping[str, P], others: Sequence[str]) -> Iterator[_Group]:
    alike: dict[str, list[str]] = {}
    for path in (*specs, *others):
        alike.setdefault(_number_glob(path), []).append(path)
    for glob, paths in alike.items():
        matched = [path for path in (*specs, *others) if glob_matches(glob, path)] if len(paths) > 1 else []
        if matched and len({specs.get(path) for path in matched}) == 1:
            yield _Group(glob, tuple(paths), specs.get(paths[0]))
        else:
            yield from (_Group(escape_path(path), (path,), specs.get(path)) for path in paths)


def _number_glob(path: str) -> str:
    """The path with a `*` for each number below its first key: the place in a tuple of results says what it is."""
    first, *below = escape_path(path).split("/")
    return "/".join([first, *(re.sub(r"\d+", "*", part) for part in below)])


def escape_path(path: str) -> str:
    """Return the glob that matches a path only: what a glob would take for a pattern is itself in brackets."""
    return _SPECIAL.sub(r"[\1]", path)


def _without_trailing_none(spec: P) -> P:
    entries = list(spec.entries)
    while entries and entries[-1] is None:
        entries.pop()
    return P(*entries)

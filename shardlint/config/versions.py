"""Release numbers and ranges, as far as pins use them. (`packaging` is not imported: start-up time is a feature.)"""

from __future__ import annotations

from shardlint.source.patterns import compile_lazily

Release = tuple[int, ...]

_RELEASE = compile_lazily(r"\s*v?(\d+(?:\.\d+)*)")
_CLAUSE = compile_lazily(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?")


def parse_release(text: str) -> Release:
    """The release of a version string, without pre- and post-release parts. Raises `ValueError` when there is none."""
    match = _RELEASE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a version like 0.12 or 0.8.3")
    return tuple(int(part) for part in match[1].split("."))


def format_release(release: Release) -> str:
    """A release as people write it."""
    return ".".join(map(str, release))


def compare_releases(one: Release, two: Release) -> int:
    """-1, 0 or 1; missing parts count as zero."""
    width = max(len(one), len(two))
    left, right = one + (0,) * (width - len(one)), two + (0,) * (width - len(two))
    return (left > right) - (left < right)


def is_release_allowed(specifier: str, release: Release) -> bool:
    """Return whether a specifier such as ">=0.8,<0.9", "==0.4.*" or "" allows a release.

    Raises `ValueError` for a clause that is none of Python's version clauses.
    """
    for clause in filter(None, (part.strip() for part in specifier.split(","))):
        match = _CLAUSE.match(clause)
        if match is None:
            raise ValueError(f"{clause!r} is not a version clause like >=0.8")
        if not _allows_one(match[1], parse_release(match[2]), bool(match[3]), release):
            return False
    return True


def _allows_one(operator: str, bound: Release, prefix: bool, release: Release) -> bool:
    if prefix and operator in ("==", "===", "!="):
        same = compare_releases(release[: len(bound)], bound) == 0
        return same if operator != "!=" else not same
    order = compare_releases(release, bound)
    match operator:
        case "==" | "===":
            return order == 0
        case "!=":
            return order != 0
        case ">=":
            return order >= 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
        case "<":
            return order < 0
    # ~=0.4.3 means >=0.4.3 within 0.4
    return order >= 0 and compare_releases(release[: len(bound) - 1], bound[:-1]) == 0

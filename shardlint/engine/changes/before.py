"""A project as it was at a revision: which files changed since, and which findings were there already. Asks git."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.settings import BadSettings
from shardlint.engine.changes.git import (
    ask_git,
    commit_of,
    contents_of,
    files_of,
    is_same,
    top_of,
    tracked_files,
)
from shardlint.source.find import survey
from shardlint.source.text import NOTEBOOK_BYTES
from shardlint.source.tree import SUFFIXES, Tree

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport, Options, Report

_NO_COMMIT = "HEAD"
_SUFFIXES = (
    ".py",
    ".pyi",
    ".ipynb",
    ".md",
    ".toml",
    ".cfg",
    ".txt",
    ".lock",
    ".yaml",
    ".yml",
    ".json",
    ".in",
)


def base_of(revision: str) -> str:
    """The revision to compare with: that of the branch where pre-commit compares two, else what was said."""
    return os.environ.get("PRE_COMMIT_FROM_REF") or revision


def changed(revision: str, folder: Path) -> list[Path]:
    """The files below a folder that differ from where this branch left a revision, and those git does not know yet.

    Raises `BadSettings` where that cannot be told.
    """
    return [path for path in differing(revision, folder, SUFFIXES) if path.is_file()]


def differing(revision: str, folder: Path, suffixes: tuple[str, ...] = ("",)) -> list[Path]:
    """The same, with those that are no longer there, and of all kinds where no suffixes are named."""
    top = top_of(folder)
    here = _commit(top, revision)
    base = here and (ask_git(top, "merge-base", here, "HEAD", fails=True).strip() or here)
    below = Path(os.path.relpath(os.path.realpath(folder), top)).as_posix()
    before, tracked = files_of(top, base, below) if base else {}, tracked_files(top, below)
    names = dict.fromkeys((*before, *tracked, *_met(folder, top)))
    return [
        top / name
        for name in names
        if name.endswith(suffixes) and (name not in before or not is_same(top, top / name, before[name]))
    ]


def _met(folder: Path, top: Path) -> Iterator[str]:
    """The Python files and settings that a walk meets in a folder, by their paths from the top."""
    tree = Tree()
    files, folders = survey(folder, tree)
    told = (f"{path}/{name}" for path in folders for name in getattr(tree.folder(path), "telling", ()))
    for path in map(Path, (*files, *told)):
        if path.is_relative_to(top):
            yield path.relative_to(top).as_posix()


def new_since(
    revision: str, root: str, reports: Sequence[FileReport], options: Options, report: Report
) -> list[FileReport]:
    """Of findings, those that were not there at a revision."""
    from shardlint.config.versions import show
    from shardlint.engine.adoption.baseline import match
    from shardlint.engine.adoption.known import entries_of
    from shardlint.engine.changes.elsewhere import plain_options
    from shardlint.engine.run import check

    top = top_of(Path(root))
    commit = _commit(top, revision)
    if not commit:  # nothing was ever committed: all is new
        return list(reports)
    releases = report.find_targets([one.path for one in reports])
    targets = {name: show(one.release) for each in releases.values() for name, one in each.found.items()}
    import tempfile  # a hook needs it only where there is something to compare

    with tempfile.TemporaryDirectory(prefix="shardlint-") as folder:
        there = Path(os.path.realpath(folder))
        names = set(_written(top, commit, Path(root), there))
        if not any((there / mark).exists() for mark in ("pyproject.toml", "setup.py", "setup.cfg")):
            (there / "setup.cfg").touch()
        files = [Path(os.path.relpath(os.path.realpath(one.path), root)) for one in reports]
        paths = [there / name for name in files if name.as_posix() in names]
        before = check(paths, plain_options(options, targets), elsewhere=False) if paths else None
        entries = entries_of(before.reports, there) if before is not None else []
    matched = match(entries, reports, Path(root), lambda _: False)
    return [file.of(findings) for file, findings in matched.new]


def _written(top: Path, commit: str, root: Path, there: Path) -> Iterable[str]:
    """Write the project's files of a commit into a folder; their names from the root."""
    below = Path(os.path.relpath(os.path.realpath(root), top)).as_posix()
    blobs = {
        name: blob
        for name, blob in files_of(top, commit, below).items()
        if name.endswith(_SUFFIXES) and blob.mode.startswith("10")
    }
    for name, data in contents_of(top, blobs, NOTEBOOK_BYTES):
        file = there / os.path.relpath(name, below)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        yield file.relative_to(there).as_posix()


def _commit(top: Path, revision: str) -> str:
    """The commit a revision stands for; empty where nothing was committed yet. Raises `BadSettings` for no revision."""
    commit = commit_of(top, revision)
    if not commit and revision != _NO_COMMIT:
        raise BadSettings(f"git knows no revision {revision!r} here; fetch it (in CI with its whole history)")
    return commit

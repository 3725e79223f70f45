"""A project as it was at a revision: which files changed since, and what they held. Asks git."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from shardlint.config.settings import BadSettings
from shardlint.engine.changes.git import (
    Blob,
    ask_git,
    commit_of,
    contents_of,
    files_of,
    is_same,
    tracked_files,
    working_tree_top,
)
from shardlint.source.find import survey_folder
from shardlint.source.text import NOTEBOOK_BYTES, NOTEBOOKS
from shardlint.source.tree import SUFFIXES, Tree

_NO_COMMIT = "HEAD"


def base_of(revision: str) -> str:
    """The revision to compare with: that of the branch where pre-commit compares two, else what was said."""
    return os.environ.get("PRE_COMMIT_FROM_REF") or revision


def changed_files(revision: str, folder: Path) -> list[Path]:
    """The files below a folder that differ from where this branch left a revision, and those git does not know yet.

    Raises `BadSettings` where that cannot be told.
    """
    return [path for path in differing_files(revision, folder, SUFFIXES) if path.is_file()]


def differing_files(revision: str, folder: Path, suffixes: tuple[str, ...] = ("",)) -> list[Path]:
    """The same, with those that are no longer there, and of all kinds where no suffixes are named."""
    top = working_tree_top(folder)
    return [top / name for name, _ in _differing_files(top, _fork_commit(top, revision), folder, suffixes)]


def _differing_files(
    top: Path, base: str, folder: Path, suffixes: tuple[str, ...]
) -> Iterator[tuple[str, Blob | None]]:
    """The files that differ from a commit, by their paths from the top, and what they were in it."""
    below = Path(os.path.relpath(os.path.realpath(folder), top)).as_posix()
    before, tracked = files_of(top, base, below) if base else {}, tracked_files(top, below)
    for name in dict.fromkeys((*before, *tracked, *_walked_files(folder, top))):
        if not name.endswith(suffixes):
            continue
        path, blob, added = top / name, before.get(name), tracked.get(name)
        as_added = added is not None and added.blob == blob and added.is_as_added(path)
        if blob is None or not (as_added or is_same(top, path, blob)):
            yield name, blob


def _walked_files(folder: Path, top: Path) -> Iterator[str]:
    """The Python files and settings that a walk meets in a folder, by their paths from the top."""
    tree = Tree()
    files, folders = survey_folder(folder, tree)
    told = (f"{path}/{name}" for path in folders for name in getattr(tree.folder_contents(path), "telling", ()))
    for path in map(Path, (*files, *told)):
        if path.is_relative_to(top):
            yield path.relative_to(top).as_posix()


class Base:
    """The Python files of a project as they were where this branch left a revision. Asks git when it is used."""

    def __init__(self, revision: str, root: str) -> None:
        self._revision, self._root = revision, Path(root)

    @cached_property
    def _top_folder(self) -> Path:
        return working_tree_top(self._root)

    @cached_property
    def base_commit(self) -> str:
        """The commit; empty where nothing was committed yet."""
        return _fork_commit(self._top_folder, self._revision)

    @cached_property
    def texts_at_base(self) -> dict[str, bytes | None]:
        """The texts of the files that differ now, by their real paths; None for a file that was not there."""
        differing = dict(_differing_files(self._top_folder, self.base_commit, self._root, (*SUFFIXES, *NOTEBOOKS)))
        blobs = {
            name: blob for name, blob in differing.items() if blob is not None and blob.mode.startswith("10")
        }
        texts: dict[str, bytes | None] = dict.fromkeys(differing)
        texts.update(contents_of(self._top_folder, blobs, NOTEBOOK_BYTES) if blobs else ())
        return {str(self._top_folder / name): data for name, data in texts.items()}


def _fork_commit(top: Path, revision: str) -> str:
    """The commit where this branch left a revision."""
    here = _resolve_commit(top, revision)
    return here and (ask_git(top, "merge-base", here, "HEAD", fails=True).strip() or here)


def _resolve_commit(top: Path, revision: str) -> str:
    """The commit a revision stands for; empty where nothing was committed yet. Raises `BadSettings` for no revision."""
    commit = commit_of(top, revision)
    if not commit and revision != _NO_COMMIT:
        raise BadSettings(f"git has no revision {revision!r} here; fetch it (in CI with its whole history)")
    return commit

"""Which settings and which project a folder belongs to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.settings import BadSettings, Settings, given_settings, settings_in
from shardlint.source.tree import Tree

if TYPE_CHECKING:
    from shardlint.source.store import Store

ScopeKey = tuple[str, str]
"""The settings file, if any, and the root of the project."""
PACKAGES = ("pyproject.toml", "setup.py", "setup.cfg")
"""What the root of a project holds that can be installed."""
MARKERS = (*PACKAGES, "shardlint.toml", ".git", ".hg")
"""What a folder holds that is the root of a project."""


class Places:
    """Answers for folders, by absolute path; remembered."""

    def __init__(
        self, tree: Tree | None = None, config: Path | None = None, paths: Iterable[Path] = ()
    ) -> None:
        self.tree = tree or Tree()
        self._named = sorted({real_path(path) for path in paths if os.path.isdir(path)}, key=len)
        self._given = given_settings(config) if config is not None else None
        self._settings: dict[str, Settings] = {}
        self._marked: dict[str, str | None] = {}

    def settings_for(self, folder: str) -> Settings:
        """The settings that govern a folder: those of the nearest shardlint.toml or pyproject.toml that has any.

        Raises `BadSettings`.
        """
        if self._given is not None:
            return self._given
        known = self._settings.get(folder)
        if known is None:
            here = (
                settings_in(Path(folder))
                if self._holds_any(folder, ("shardlint.toml", "pyproject.toml"))
                else None
            )
            parent = os.path.dirname(folder)
            known = here or (self.settings_for(parent) if parent != folder else Settings())
            self._settings[folder] = known
        return known

    def project_root(self, folder: str) -> str:
        """The project a folder is in: the nearest marked folder at or above it.

        Where none is marked, the folder that was named for the run, so that its files find each other; and of a package
        the folder it lies in.
        """
        marked = self._nearest_marked(folder)
        if marked is not None:
            return marked
        folder = next((one for one in self._named if _holds_folder(one, folder)), folder)
        while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        return folder

    @cached_property
    def result_store(self) -> Store | None:
        """Where what runs find is kept; None where there is no place for it."""
        from shardlint.source.store import open_store

        return open_store()

    def is_marked(self, folder: str) -> bool:
        """Return whether a marker file shows where the project of a folder begins."""
        return self._nearest_marked(folder) is not None

    def _nearest_marked(self, folder: str) -> str | None:
        if folder not in self._marked:
            parent = os.path.dirname(folder)
            above = self._nearest_marked(parent) if parent != folder else None
            self._marked[folder] = folder if self._holds_any(folder, MARKERS) else above
        return self._marked[folder]

    def _holds_any(self, folder: str, names: tuple[str, ...]) -> bool:
        listed = self.tree.known.get(folder)
        if listed is not None:
            return not listed.names.isdisjoint(names)
        return any(os.path.exists(os.path.join(folder, name)) for name in names)


def _holds_folder(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip(os.sep) + os.sep)


def scope_key(settings: Settings, root: str) -> ScopeKey:
    """Return the key of one set of settings and one project."""
    return str(settings.path or ""), root


def folder_of(path: Path) -> str:
    """A folder itself; of anything else, also of what is not there, the folder it is in."""
    return str(path if os.path.isdir(path) else path.parent)


def shown_folder(folder: str) -> str:
    """A folder's path for people: from the current folder, where it is that or below it."""
    with contextlib.suppress(OSError, ValueError):  # the current folder is gone, or on another drive
        below = os.path.relpath(folder)
        if below.split(os.sep)[0] != os.pardir:
            return below.replace(os.sep, "/")
    return folder.replace(os.sep, "/")


def project_root(path: Path) -> Path:
    """The project a file or folder belongs to."""
    return Path(Places().project_root(folder_of(path)))


def find_settings(folder: Path) -> Settings:
    """The settings that govern a folder. Raises `BadSettings`."""
    return Places().settings_for(real_path(folder))


def real_path(path: Path | str) -> str:
    """The absolute path of a file, links followed. Raises `BadSettings` where the current folder is gone."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        raise BadSettings(
            "the current folder was deleted; go to another one, or write absolute paths"
        ) from None

"""Folders as they are on the disk, each looked at once in a run."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from shardlint.source.other_formats import is_markdown_notebook

SUFFIXES = (".py", ".pyi", ".ipynb")
# What besides Python tells which releases, settings and axis names hold: a change of any of these changes everything.
_TELLING = (".toml", ".lock", ".cfg", ".yml", ".yaml")

Stamp = tuple[int, int, int, int]
"""What a file that is changed does not keep: its size in bytes, when it was written and when anything of it was changed
(in nanoseconds; the first is what people may set), and its number on the disk, which another file has."""


def make_stamp(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


Below = tuple[dict[str, Stamp], list[str]]
"""Python files by their absolute paths, in order, and the folders they were looked for in."""


@dataclass(slots=True)
class Folder:
    """Contents of a folder."""

    inside: dict[str, Stamp | None] = field(default_factory=dict)
    """Folders (without a stamp; links to folders are not followed) and Python files, in the order of their names."""
    telling: dict[str, Stamp] = field(default_factory=dict)
    """Files that say what holds for Python files."""
    links: set[str] = field(default_factory=set)
    """Python files that are links."""
    names: set[str] = field(default_factory=set)
    """All names."""


class Tree:
    """Folders by path. A folder that is changed during the run is not looked at again."""

    def __init__(self) -> None:
        self.known: dict[str, Folder | None] = {}
        self.walked: dict[str, Callable[[], Below]] = {}
        """What is below folders that a walk came through, where nothing from above them leaves anything out."""

    def folder_contents(self, path: str) -> Folder | None:
        """Return the contents of a folder; None for one that vanished or is forbidden."""
        if path not in self.known:
            self.known[path] = _read_folder(path)
        return self.known[path]


def _read_folder(path: str) -> Folder | None:
    found = Folder()
    pins = os.path.basename(path) == "requirements"
    try:
        with os.scandir(path) as listed:
            entries = {entry.name: entry for entry in listed}
    except OSError:
        return None
    found.names = set(entries)
    for name in sorted(entries):
        entry = entries[name]
        try:
            if entry.is_dir(follow_symlinks=False):
                found.inside[name] = None
            elif name.endswith(SUFFIXES):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    found.inside[name] = make_stamp(status)
                    if entry.is_symlink():
                        found.links.add(name)
            elif (
                name.endswith(_TELLING)
                or name == "Pipfile"
                or (name.endswith((".txt", ".in")) and (pins or name.startswith("requirements")))
            ):
                status = entry.stat()
                found.telling[name] = make_stamp(status)
            elif name.endswith(".md") and f"{name[:-3]}.ipynb" in entries and is_markdown_notebook(entry.path):
                found.inside[name] = make_stamp(entry.stat())
        except OSError:  # it vanished, or is a link in a circle
            continue
    setup = found.inside.get("setup.py")
    if setup is not None:
        found.telling["setup.py"] = setup
    return found

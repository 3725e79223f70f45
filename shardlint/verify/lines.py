"""Source lines by their text, and the names of their files that mean the same on every machine."""

from __future__ import annotations

import posixpath
import tokenize
from pathlib import Path, PurePath

from shardlint.verify.facts import Line

READ_MAX = 2 * 2**20
_ROOTS = ("pyproject.toml", "setup.py", "shardlint.toml", ".git")
_PACKAGES = ("site-packages", "dist-packages")


class Lines:
    """Lines of the files a program names, as they are now; `folder` is where its fixture lies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.root = next(
            (
                above
                for above in (self.folder, *self.folder.parents)
                if any((above / name).exists() for name in _ROOTS)
            ),
            self.folder,
        )
        self._read: dict[str, list[str]] = {}

    def line_text(self, line: Line) -> str:
        """The line's text with single blanks; "" where it cannot be read."""
        found = self.lines_of_file(line.file)
        return _normalize_blanks(found[line.line - 1]) if 0 < line.line <= len(found) else ""

    def lines_of_file(self, file: str) -> list[str]:
        """All lines of a Python file, without line ends; none where it cannot be read or is larger than
        `READ_MAX`.
        """
        if file not in self._read:
            self._read[file] = read_lines(Path(file)) if file.endswith(".py") else []
        return self._read[file]

    def portable_name(self, file: str) -> str:
        """A file's name without anything of this machine: from the project's root, or from where packages
        are installed.
        """
        if not file:
            return ""
        path = Path(file).resolve()
        parts = PurePath(path).parts
        for packages in _PACKAGES:
            if packages in parts:
                last = len(parts) - 1 - parts[::-1].index(packages)
                return posixpath.join(*parts[last + 1 :])
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        return path.name

    def contains_line(self, name: str, text: str) -> bool:
        """Return whether the project's file of this name has a line with this text."""
        file = self.root / name
        if not name or not file.is_relative_to(self.root) or ".." in PurePath(name).parts:
            return False
        return any(_normalize_blanks(line) == text for line in self.lines_of_file(str(file)))


def read_lines(path: Path) -> list[str]:
    """The lines of a Python source file; none where it is not a regular file, too large or not text."""
    try:
        if not path.is_file() or path.stat().st_size > READ_MAX:
            return []
        with tokenize.open(path) as stream:
            # Not splitlines: a form feed ends no line for Python.
            return stream.read().removesuffix("\n").split("\n")
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return []


def _normalize_blanks(line: str) -> str:
    return " ".join(line.split())

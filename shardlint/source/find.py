"""Which files to check: paths given, directories walked, `.gitignore` and `exclude` honoured."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shardlint.source.lazy import dataclass
from shardlint.source.other_formats import is_markdown_notebook, other_kind
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import CONFIGURATION_BYTES, read_regular
from shardlint.source.tree import Below, Stamp, Tree

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# Directories no one means when they say "check this project".
ALWAYS_EXCLUDED = frozenset(
    ".bzr .direnv .eggs .git .hg .ipynb_checkpoints .matrix .mypy_cache .nox .pyenv .pytest_cache .ruff_cache .svn"
    " .tox .venv .vscode __pycache__ __pypackages__ _build buck-out node_modules site-packages venv".split()
)


class SelectedFile(NamedTuple):
    """A file to check."""

    shown: str
    """Its path as it was named, or lies below what was named."""
    real: str
    """Its absolute path, links followed: what identifies it."""
    stamp: Stamp | None = None
    """Size and time of change, where it was met in a folder."""

    @property
    def shown_path(self) -> Path:
        """Its path as people are shown it."""
        return Path(self.shown)


@dataclass
class FileSelection:
    """The files to check, in a stable order, each once, and what is not to be checked, with the reason."""

    met: list[SelectedFile] = field(default_factory=list)
    excluded: list[tuple[Path, str]] = field(default_factory=list)
    """Files that were named and that the settings leave out."""
    refused: list[tuple[Path, str]] = field(default_factory=list)
    """Files that were named and are not Python."""
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    """Folders and files that were met and cannot be read."""
    missing: list[Path] = field(default_factory=list)
    left_out: bool = False
    """Whether the settings leave out something in the folders that were walked."""

    @property
    def file_paths(self) -> list[Path]:
        """The paths of the files."""
        return [met.shown_path for met in self.met]


def find_python_files(
    paths: Sequence[Path], exclude: Sequence[str] = (), root: Path | None = None, tree: Tree | None = None
) -> FileSelection:
    """Find the Python files below `paths`.

    A file that is named is checked whatever `.gitignore` says, unless `exclude` (patterns as in `.gitignore`, relative
    to `root`) names it: pre-commit passes names, and an exclusion must hold there too; or its suffix is one of
    something else than Python. A directory named `x.py` is walked like any other. A path that is not there is reported
    in `missing`.
    """
    found = FileSelection()
    excluded = _Ignore(list(exclude)) if exclude else None
    base = os.path.realpath(root or Path.cwd()) if excluded is not None else ""
    seen: set[str] = set()
    for path in paths:
        if os.path.isdir(path):
            top = os.path.realpath(path)
            walk = _Walk(tree or Tree(), excluded, base)
            walk.walk_folder(str(path), top, _inherited_ignores(Path(top)))
            named = walk.found
            found.skipped += walk.shut
            found.left_out = found.left_out or walk.left_out
        elif not os.path.exists(path):
            found.missing.append(path)
            continue
        else:
            real = os.path.realpath(path)
            if excluded is not None and _spec_matches(excluded, base, real, False):
                found.excluded.append((path, "excluded by the settings"))
                continue
            other = other_kind(str(path))
            if other is not None and os.path.isfile(path) and not is_markdown_notebook(str(path)):
                found.refused.append((path, other))
                continue
            named = [SelectedFile(str(path), real)]
        if len(paths) == 1:
            found.met = named  # a walk meets nothing twice
            continue
        for met in named:
            if met.shown not in seen:
                seen.add(met.shown)
                found.met.append(met)
    return found


def is_path_matched(patterns: Sequence[str], path: Path, base: Path) -> bool:
    """Return whether patterns as in `.gitignore`, relative to `base`, match a file."""
    return _spec_matches(_Ignore(list(patterns)), str(base), str(path), False)


def survey_folder(top: Path, tree: Tree | None = None) -> Below:
    """Every Python file below `top` by its absolute path, in order, and the folders they were looked for in.

    What `.gitignore` files from the repository root down say is ignored.
    """
    real = os.path.realpath(top)
    tree = tree or Tree()
    if real not in tree.walked:
        walk = _Walk(tree)
        walk.walk_folder(real, real, _inherited_ignores(Path(real)))
        return walk.collect_below()
    return tree.walked[real]()


# `*a*a*a*b` asks for years of trying on a long name of a's. Where another star follows, the first place that has the
# text after a star is as good as any later one, and none need be tried twice; so it is with folders between `**`.
_STAR, _BELOW = "[^/]*", "(?:/.+)?"
_STARS = compile_lazily(r"(?:\[\^/\]\*)+")
_STAR_AND_TEXT = compile_lazily(
    r"\[\^/\]\*((?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\](?![*+])|[^\\\[\]().*+?^$|/])+)(?=\[\^/\]\*)"
)
_ANY_AND_FOLDERS = compile_lazily(r"\(\?:(\.\+/|/\.\+)\)\?(.+?)(?=\(\?:/\.\+\)\?)", re.DOTALL)


class _Ignore:
    """The patterns of one file. Each path that a pattern names holds some text of it: most are ruled out by that, and
    never compiled.
    """

    def __init__(self, lines: list[str]) -> None:
        # `a/**` names what is in a folder, not the folder; pathspec has it name both, so `!a/b.py` could take nothing
        # back.
        self._lines = [
            line.rstrip()[:-1] if line.rstrip().endswith("/**") else line for line in lines if line.strip()
        ]
        self._words = [
            (word, index)
            for index, line in enumerate(self._lines)
            if not line.startswith("#")
            for word in _texts_of_pattern(line)
        ]
        self._single: dict[int, GitIgnoreSpec] = {}

    def is_path_ignored(self, path: str) -> bool | None:
        """Return whether the patterns ignore a path; None if none of them names it."""
        near = [index for word, index in self._words if word in path]
        if any(self._pattern_names_path(index, path) for index in near):
            return self._combined_spec.check_file(path).include
        return None

    def _pattern_names_path(self, index: int, path: str) -> bool:
        if index not in self._single:
            self._single[index] = _parse_spec([self._lines[index]])
        return self._single[index].check_file(path).include is not None

    @cached_property
    def _combined_spec(self) -> GitIgnoreSpec:
        return _parse_spec(self._lines)


_Ignores = list[tuple[str, _Ignore]]
_WILD = compile_lazily(r"[*?]")
_ALL = slice(None)


class _Walk:
    """One walk: what it found, and the folders it looked into."""

    def __init__(self, tree: Tree, excluded: _Ignore | None = None, base: str = "") -> None:
        self.tree = tree
        self.excluded = excluded
        self.base = base
        self.found: list[SelectedFile] = []
        self.folders: list[str] = []
        self.shut: list[tuple[Path, str]] = []
        self.left_out = False

    def walk_folder(self, shown: str, real: str, ignores: _Ignores) -> None:
        """Look into a folder and those in it."""
        folder = self.tree.folder_contents(real)
        if folder is None:
            self.shut.append((Path(shown), "the folder cannot be listed"))
            return
        unhindered = not ignores and self.excluded is None
        if ".gitignore" in folder.names and os.path.isfile(os.path.join(real, ".gitignore")):
            ignores = [*ignores, (real, _read_ignore(Path(real, ".gitignore")))]
        first, first_folder = len(self.found), len(self.folders)
        self.folders.append(real)
        prefix = real if real.endswith(os.sep) else real + os.sep
        before = "" if shown == "." else shown if shown.endswith(os.sep) else shown + os.sep
        free = not ignores and self.excluded is None
        for name, stamp in folder.inside.items():
            if stamp is None and name in ALWAYS_EXCLUDED:
                continue
            where = prefix + name
            if not free and self._is_left_out(where, stamp is None, ignores):
                continue
            if stamp is None:
                self.walk_folder(before + name, where, ignores)
                continue
            real_path = where
            if name in folder.links:
                real_path = os.path.realpath(where)
                if self._is_excluded(real_path, False):
                    continue
            self.found.append(SelectedFile(before + name, real_path, stamp))
        if unhindered:
            here = slice(first, len(self.found)), slice(first_folder, len(self.folders))
            self.tree.walked[real] = partial(self.collect_below, *here)

    def collect_below(self, met: slice = _ALL, folders: slice = _ALL) -> Below:
        """Return the files and folders found, or a part of them."""
        files = {found.real: found.stamp for found in self.found[met] if found.stamp is not None}
        return files, self.folders[folders]

    def _is_left_out(self, where: str, is_dir: bool, ignores: _Ignores) -> bool:
        return _is_ignored(ignores, where, is_dir) or self._is_excluded(where, is_dir)

    def _is_excluded(self, where: str, is_dir: bool) -> bool:
        if self.excluded is None or not _spec_matches(self.excluded, self.base, where, is_dir):
            return False
        self.left_out = True
        return True


def _is_ignored(ignores: _Ignores, path: str, is_dir: bool) -> bool:
    """Return the verdict of the innermost ignore file that names the path. It may revert an outer one."""
    for root, spec in reversed(ignores):
        verdict = _verdict_of_spec(spec, root, path, is_dir)
        if verdict is not None:
            return verdict
    return False


def _spec_matches(spec: _Ignore, root: str, path: str, is_dir: bool) -> bool:
    return _verdict_of_spec(spec, root, path, is_dir) is True


def _verdict_of_spec(spec: _Ignore, root: str, path: str, is_dir: bool) -> bool | None:
    """True: named by a pattern; False: taken back by one; None: no pattern speaks of it."""
    above = root if root.endswith(os.sep) else root + os.sep
    if not path.startswith(above) or path == above:
        return None
    relative = path[len(above) :].replace(os.sep, "/")
    return spec.is_path_ignored(relative + "/" if is_dir else relative)


def _inherited_ignores(top: Path) -> _Ignores:
    chain: list[Path] = []
    for folder in top.parents:
        chain.append(folder)
        if os.path.exists(folder / ".git"):
            break
    else:
        return []  # outside a repository only ignores below `top` count
    if os.path.exists(top / ".git"):
        return []
    return [
        (str(folder), _read_ignore(folder / ".gitignore"))
        for folder in reversed(chain)
        if os.path.isfile(folder / ".gitignore")
    ]


def _read_ignore(path: Path) -> _Ignore:
    try:
        return _Ignore(read_regular(path, CONFIGURATION_BYTES).decode("utf-8-sig", "surrogateescape").split("\n"))
    except OSError:
        return _Ignore([])


def _parse_spec(lines: list[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # imported late: most single-file runs meet no ignore file

    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error):
        spec = GitIgnoreSpec.from_lines([line for line in lines if _is_valid_pattern(line)])
    for pattern in spec.patterns:
        regex = getattr(pattern, "regex", None)
        if regex is not None and (regex.pattern.count(_STAR) > 2 or _BELOW in regex.pattern):
            pattern.regex = re.compile(_anchor_once(regex.pattern))
    return spec


def _texts_of_pattern(line: str) -> tuple[str, ...]:
    """Texts of which one stands in each path that a pattern names; that of a folder ends in a slash."""
    line = line.strip().lstrip("!")
    plain, _, rest = line.partition("[")
    if "\\" in plain:
        return (plain.partition("\\")[0].rpartition("*")[2].rpartition("?")[2].strip("/"),)
    found = max((part.lstrip("/") for part in _WILD.split(plain)), key=len)
    if rest.endswith("]") and rest[:-1].isalnum() and plain.endswith(found):
        return tuple(found + letter for letter in rest[:-1])  # *.py[cod]
    return (found,)


def _anchor_once(regex: str) -> str:
    regex = _STAR_AND_TEXT.sub(r"(?>[^/]*?\1)", _STARS.sub(_STAR, regex))
    return _ANY_AND_FOLDERS.sub(lambda any: f"(?>(?:{any[1].replace('+', '+?')})??{any[2]}(?=/))", regex)


def _is_valid_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True

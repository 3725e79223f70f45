"""Which files to check: paths given, directories walked, `.gitignore` and `exclude` honoured."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = (".py", ".pyi")

# Directories no one means when they say "check this project".
ALWAYS_EXCLUDED = frozenset(
    ".bzr .direnv .eggs .git .hg .ipynb_checkpoints .matrix .mypy_cache .nox .pyenv .pytest_cache .ruff_cache .svn"
    " .tox .venv .vscode __pycache__ __pypackages__ _build buck-out node_modules site-packages venv".split()
)


@dataclass
class Found:
    """The files to check, in a stable order, and what was named but left out."""

    files: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)


def find(paths: Sequence[Path], exclude: Sequence[str] = (), root: Path | None = None) -> Found:
    """Find the Python files below `paths`.

    A file that is named is checked whatever its suffix and whatever `.gitignore` says, unless `exclude` (patterns
    as in `.gitignore`, relative to `root`) names it: pre-commit passes names, and an exclusion must hold there too.
    A directory named `x.py` is walked like any other. A path that is not there is reported in `missing`.
    """
    found = Found()
    excluded = _spec(list(exclude)) if exclude else None
    base = (root or Path.cwd()).resolve()
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            for file in walk(path, excluded, base):
                if file not in seen:
                    seen.add(file)
                    found.files.append(file)
        elif not path.exists():
            found.missing.append(path)
        elif excluded is not None and _matches(excluded, base, path.resolve(), False):
            found.skipped.append((path, "excluded by the settings"))
        elif path not in seen:
            seen.add(path)
            found.files.append(path)
    return found


def matches(patterns: Sequence[str], path: Path, base: Path) -> bool:
    """Whether patterns as in `.gitignore`, relative to `base`, name a file."""
    return _matches(_spec(list(patterns)), base, path, False)


def walk(top: Path, excluded: GitIgnoreSpec | None = None, base: Path | None = None) -> Iterator[Path]:
    """Every Python file below `top`, sorted, ignoring what `.gitignore` files from the repository root down say."""
    inherited = _inherited_ignores(top.resolve())
    yield from _walk(str(top), top.resolve(), inherited, excluded, base or top.resolve())


# `*a*a*a*b` asks for years of trying on a long name of a's. Where another star follows, the first place that has the
# text after a star is as good as any later one, and none need be tried twice.
_STAR = "[^/]*"
_STAR_AND_TEXT = re.compile(r"\[\^/\]\*((?:\\.|\w|-)+)(?=\[\^/\]\*)")

_Ignores = list[tuple[Path, "GitIgnoreSpec"]]


def _walk(
    shown: str, real: Path, ignores: _Ignores, excluded: GitIgnoreSpec | None, base: Path
) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(shown), key=lambda entry: entry.name)
    except OSError:
        return  # a directory that vanished or is forbidden has no files for us
    own = next((entry for entry in entries if entry.name == ".gitignore"), None)
    if own is not None and _is_file(own):
        ignores = [*ignores, (real, _read_ignore(Path(own.path)))]
    for entry in entries:
        try:
            is_dir = entry.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if is_dir:
            if entry.name in ALWAYS_EXCLUDED:
                continue
        elif not entry.name.endswith(SUFFIXES) or not _is_file(entry):
            continue
        where = real / entry.name
        if _ignored(ignores, where, is_dir):
            continue
        if excluded is not None and _matches(excluded, base, where, is_dir):
            continue
        if is_dir:
            yield from _walk(entry.path, where, ignores, excluded, base)
        else:
            yield Path(entry.path)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a symlink loop
        return False


def _ignored(ignores: _Ignores, path: Path, is_dir: bool) -> bool:
    """What the innermost file that speaks of the path says: it may take back what one further out ignores."""
    for root, spec in reversed(ignores):
        verdict = _verdict(spec, root, path, is_dir)
        if verdict is not None:
            return verdict
    return False


def _matches(spec: GitIgnoreSpec, root: Path, path: Path, is_dir: bool) -> bool:
    return _verdict(spec, root, path, is_dir) is True


def _verdict(spec: GitIgnoreSpec, root: Path, path: Path, is_dir: bool) -> bool | None:
    """True: named by a pattern; False: taken back by one; None: no pattern speaks of it."""
    try:
        relative = path.relative_to(root).as_posix()
    except ValueError:
        return None
    if relative == ".":
        return None
    return spec.check_file(relative + "/" if is_dir else relative).include


def _inherited_ignores(top: Path) -> _Ignores:
    chain: list[Path] = []
    for folder in top.parents:
        chain.append(folder)
        if (folder / ".git").exists():
            break
    else:
        return []  # outside a repository only ignores below `top` count
    if (top / ".git").exists():
        return []
    return [
        (folder, _read_ignore(folder / ".gitignore"))
        for folder in reversed(chain)
        if (folder / ".gitignore").is_file()
    ]


def _read_ignore(path: Path) -> GitIgnoreSpec:
    try:
        return _spec(path.read_text("utf-8", "replace").splitlines())
    except OSError:
        return _spec([])


def _spec(lines: list[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # imported late: most single-file runs meet no ignore file

    # `a/**` names what is in a folder, not the folder; pathspec has it name both, so `!a/b.py` could take nothing back.
    lines = [line.rstrip()[:-1] if line.rstrip().endswith("/**") else line for line in lines]
    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except ValueError:
        spec = GitIgnoreSpec.from_lines([line for line in lines if _valid(line)])
    for pattern in spec.patterns:
        regex = getattr(pattern, "regex", None)
        if regex is not None and regex.pattern.count(_STAR) > 2:
            pattern.regex = re.compile(_STAR_AND_TEXT.sub(r"(?>[^/]*?\1)", regex.pattern))
    return spec


def _valid(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True

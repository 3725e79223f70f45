"""A project as it was at a revision: which files changed since, and which findings were there already. Asks git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.settings import BadSettings

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
    return [path for path in differing(revision, folder) if path.is_file()]


def differing(revision: str, folder: Path) -> list[Path]:
    """The same, with those that are no longer there."""
    top = top_of(folder)
    base = _git(top, "merge-base", revision, "HEAD", fails=True).strip() or _commit(top, revision)
    shown = _git(top, "diff", "--name-only", "-z", "--no-renames", base, "--", str(folder.resolve()))
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z", "--", str(folder.resolve()))
    names = dict.fromkeys(name for name in (shown + new).split("\0") if name)
    return [top / name for name in names]


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
    listed = _git(top, "ls-tree", "-r", "-z", commit, "--", *([] if below == "." else [below]))
    blobs: list[tuple[str, str]] = []
    for line in listed.split("\0"):
        about, _, name = line.partition("\t")
        if name.endswith(_SUFFIXES) and about.split()[1:2] == ["blob"] and not about.startswith("12"):
            blobs.append((about.split()[2], name))
    asked = "".join(f"{blob}\n" for blob, _ in blobs).encode()
    said = _run(top, ("cat-file", "--batch"), asked).stdout
    at = 0
    for _, name in blobs:
        end = said.index(b"\n", at)
        size = int(said[at:end].rpartition(b" ")[2])
        file = there / os.path.relpath(name, below)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(said[end + 1 : end + 1 + size])
        at = end + size + 2
        yield file.relative_to(there).as_posix()


def top_of(folder: Path) -> Path:
    """The top of the working tree that a folder is in. Raises `BadSettings` where it is in none."""
    said = _git(folder, "rev-parse", "--show-toplevel").strip()
    return Path(os.path.realpath(said))


def _commit(top: Path, revision: str) -> str:
    """The commit a revision stands for; empty where nothing was committed yet. Raises `BadSettings` for no revision."""
    found = _git(
        top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", fails=True
    )
    if not found.strip() and revision != _NO_COMMIT:
        raise BadSettings(f"git knows no revision {revision!r} here; fetch it (in CI with its whole history)")
    return found.strip()


def _git(folder: Path, *arguments: str, fails: bool = False) -> str:
    done = _run(folder, arguments)
    if done.returncode and not fails:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise BadSettings(f"{folder}: git cannot say what changed: {said[-1] if said else 'it failed'}")
    return "" if done.returncode else os.fsdecode(done.stdout)


def _run(folder: Path, arguments: Sequence[str], input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    # A hook has variables of git's around it that mean the commit being made, which is what is wanted; but no prompts.
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            input=input,
            capture_output=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except OSError as error:
        raise BadSettings(f"git cannot be run: {error.strerror or error}") from None

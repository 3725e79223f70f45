"""Fixes held against the fixtures of their project: run as the project is, and as the fixes make it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import FrameType
from typing import Self

from shardlint.output.printable import make_printable
from shardlint.rewrite.interactive_fixes import Unit, attempt_units
from shardlint.rewrite.project_fixes import AppliedFix, Attempt
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import read_text
from shardlint.source.text import MAX_BYTES, Source, read_bytes
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.fixture_files import fixture_files_below
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.regressions import fixtures_not_run, worse_fixtures
from shardlint.verify.report import Result
from shardlint.verify.runner import Runner

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".hg", ".venv", "venv", ".tox", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"
)
_AT_ONCE = 4
_MOVING = ("SL315",)
_SHOWN = 3
_UNDER_WITH = compile_lazily(r"""\bcontext\s*=\s*["']with["']""")
_Texts = Mapping[Path, Source]


@dataclass
class _Copy:
    """A project elsewhere, where programs may be other ones and run. `before` is what its fixtures told as it is."""

    root: Path
    folder: Path
    runner: Runner | None
    """Started in the folder, as its programs are then; None where there is nothing to run."""
    written: dict[Path, bytes] = field(default_factory=dict)
    before: list[Result] = field(default_factory=list)

    def verify_texts(self, texts: _Texts, only: frozenset[str] = frozenset(), moved: bool = False) -> list[Result]:
        """Return the results of the fixtures (those of `only`, `FILE::NAME`, if there are some) with these texts.

        `moved`: the texts enter meshes by `jax.set_mesh` that were entered by `with mesh:`.
        """
        if self.runner is None:
            return []
        self._write_texts(texts)
        with contextlib.chdir(self.folder):
            files: dict[Path, list[str]] = {file: [] for file in fixture_files_below(Path(), governing=True)}
            if only:
                names = [one.rpartition("::")[::2] for one in only]
                files = {file: [name for of, name in names if of == str(file)] for file in files}
                files = {file: found for file, found in files.items() if found}
            if not files:
                return []
            with contextlib.suppress(_NoFixture):
                return _run_fixtures(self.runner, Request(files, sketch=True, moved=moved))
        return []

    def _write_texts(self, texts: _Texts) -> None:
        for path, data in self.written.items():
            path.write_bytes(data)
        self.written.clear()
        for path, source in texts.items():
            if path.is_relative_to(self.root):
                here = self.folder / path.relative_to(self.root)
                self.written[here] = read_bytes(here)
                here.write_bytes(source.encode_file())


class _NoFixture(Exception):
    """Files speak of fixtures, and have none."""


def _run_fixtures(runner: Runner, request: Request) -> list[Result]:
    try:
        return verify_fixtures(runner, request)
    except CannotRun as error:
        if "no fixture" in str(error):
            raise _NoFixture from error
        raise


class Proving:
    """A gate, and a context manager: fixes that make a fixture worse are refused, the first that does it at a time.

    `python` is the interpreter to run them with; None: this one. Raises `CannotRun` where fixtures cannot be run.
    """

    def __init__(self, tell: Callable[[str], None], python: str | None = None) -> None:
        self._tell, self._python = tell, python or sys.executable
        self._copies: dict[Path, _Copy] = {}
        self._told_of: set[tuple[Path, Path]] = set()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        before = os.environ.get("PYTHONDONTWRITEBYTECODE")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a file may change twice in a second
        self._stack.callback(_restore_environment, before)
        if threading.current_thread() is threading.main_thread():
            ended = signal.signal(signal.SIGTERM, _exit_on_signal)  # so that the copies go too
            self._stack.callback(signal.signal, signal.SIGTERM, ended)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def __call__(self, attempt: Attempt) -> Iterator[tuple[AppliedFix, str]]:
        """The fixes of the first change that makes a fixture worse."""
        if not any(work.is_changed for work in attempt.works.values()):
            return
        copy = self._copy_of_project(attempt.root)
        if not copy.before:
            return
        moved = _moves_contexts(attempt)
        if moved:
            self._tell_of_contexts(copy)
        found = worse_fixtures(copy.before, copy.verify_texts(attempt.changed_texts(), moved=moved))
        if found:
            unit, said = self._find_culprit(attempt, copy, found)
            yield from ((made, said) for made in unit.made)

    def _tell_of_contexts(self, copy: _Copy) -> None:
        """Say once which fixtures do not move by themselves."""
        with contextlib.chdir(copy.folder):
            named = [
                file
                for file in fixture_files_below(Path(), governing=True)
                if _UNDER_WITH.search(read_text(file, MAX_BYTES))
            ]
        for file in named:
            if (copy.folder, file) not in self._told_of:
                self._told_of.add((copy.folder, file))
                self._tell(make_printable(
                    f"{file}: fixtures with context=\"with\" ran under jax.set_mesh, as the fixed project "
                    'does; write context="set_mesh" there'
                ))  # fmt: skip

    def _copy_of_project(self, root: Path) -> _Copy:
        if root not in self._copies:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="shardlint-fix-")))
            there = folder.resolve() / root.name
            shutil.copytree(root, there, symlinks=True, ignore=_LEFT_OUT)
            with contextlib.chdir(there):
                runner = None
                if any(True for _ in fixture_files_below(Path(), governing=True)):
                    runner = self._stack.enter_context(
                        Runner(self._python, at_once=min(os.cpu_count() or 1, _AT_ONCE))
                    )
            copy = _Copy(root.resolve(), there, runner)
            copy.before = copy.verify_texts({})
            if not copy.before:
                self._tell(make_printable(f"{root} has no fixtures, so nothing was verified"))
            for name, why in fixtures_not_run(copy.before).items():
                self._tell(make_printable(f"{name} cannot run before the fixes, so it was not verified: {why}"))
            self._copies[root] = copy
        return self._copies[root]

    def _find_culprit(self, attempt: Attempt, copy: _Copy, found: dict[str, list[str]]) -> tuple[Unit, str]:
        """The last of the fewest changes, from the first on, with which a fixture is worse; and how."""
        every = attempt_units(attempt)
        only = frozenset(name for name in found if "::" in name)
        before = [one for one in copy.before if one.fixture in only] if only else copy.before
        good, bad = 0, len(every)
        while bad - good > 1:
            middle = (good + bad) // 2
            some = _attempt_without(attempt, every[middle:])
            told = worse_fixtures(before, copy.verify_texts(some.changed_texts(), only, _moves_contexts(some)))
            good, bad, found = (good, middle, told) if told else (middle, bad, found)
        said = [f"{name}: {one}" for name, what in found.items() for one in what]
        return every[bad - 1], f"shardlint verify: {'; '.join(said[:_SHOWN])}"


def _moves_contexts(attempt: Attempt) -> bool:
    """Return whether an attempt moves mesh contexts. Then the contexts that fixtures declare move too."""
    return any(made.finding.rule.code in _MOVING for work in attempt.works.values() for made in work.made)


def _attempt_without(attempt: Attempt, without: Sequence[Unit]) -> Attempt:
    """All changes but some, made."""
    some = Attempt(
        attempt.outcomes, attempt.options, attempt.unsafe, str(attempt.root), attempt.places, attempt.beside
    )
    some.refused = attempt.refused.copy_refusals()
    for made in (one for unit in without for one in unit.made):
        some.refused.refuse_fix(made, "to see the failures")
    some.apply_fixes()
    return some


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _restore_environment(before: str | None) -> None:
    if before is None:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    else:
        os.environ["PYTHONDONTWRITEBYTECODE"] = before

"""Goldens: what a program did when somebody last looked, kept beside its fixture and held against every later run.

`proj/fx.py::step` has its golden at `proj/fx.golden/step.toml`; `shardlint verify --update` writes it. It holds one
run a mesh, level and backend: the spec and bytes of every array, and the bytes each source line moves over which
mesh axes. A line is known by its text, so that edits elsewhere in the file change nothing. Temporaries are left
out, for they change with every release of the compiler.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardlint.source.files import replace_file
from shardlint.verify.golden.drift import compare_runs, record_program
from shardlint.verify.golden.file import BadGolden, Golden, GoldenProgram, golden_text, read_golden
from shardlint.verify.report import FAIL, PASS, Failure, Result
from shardlint.verify.spec import sizes_text

__all__ = ["Goldens", "compare_with_goldens", "golden_path", "read_goldens"]

Goldens = Mapping[Path, Golden | BadGolden]
"""What golden files held before any program ran."""

STAMPED = ("jax", "jaxlib")


def golden_path(fixture: str) -> Path:
    """Where the golden of `FILE::NAME` is, whether or not there is one."""
    file, _, name = fixture.rpartition("::")
    # Fixtures from settings have names of any kind; those of variables pass as they are.
    safe = re.sub(r"[^\w.\-]", lambda match: f"%{ord(match[0]):02x}", name).lstrip(".") or "%"
    return Path(file).with_suffix(".golden") / f"{safe}.toml"


def read_goldens(files: Iterable[Path]) -> Goldens:
    """The goldens beside files with fixtures. To be called before anything of theirs runs, which could change them."""
    found: dict[Path, Golden | BadGolden] = {}
    for folder in dict.fromkeys(golden_path(f"{file}::x").parent for file in files):
        for path in sorted(folder.glob("*.toml")):
            golden = _read_golden(path)
            if golden is not None:
                found[path] = golden
    return found


def _read_golden(path: Path) -> Golden | BadGolden | None:
    try:
        return read_golden(path)
    except BadGolden as error:
        return error


def compare_with_goldens(
    results: Sequence[Result],
    releases: Mapping[str, str],
    *,
    update: bool = False,
    whole: bool = False,
    goldens: Goldens | None = None,
) -> list[str]:
    """Hold every result that has a program against its golden, or write that (`update`).

    `goldens` are those that were there before the programs ran (None: those there now).

    A drift is added to its result as failures of kind `golden`, which make it a FAIL. Only what was run is
    compared or replaced. `whole` says that every mesh of every fixture in the fixtures' files was asked for: then
    what a golden has of others is told, and dropped by an update. Returns a sentence for each golden that was
    written or is at odds with its fixture. Raises `OSError` where one cannot be written.
    """
    stamp = {name: releases[name] for name in STAMPED if name in releases}
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.fixture:
            groups.setdefault(result.fixture, []).append(result)
    said: list[str] = []
    for fixture, group in groups.items():
        path = golden_path(fixture)
        before = _read_golden(path) if goldens is None else goldens.get(path)
        one = _Holding(fixture, path, stamp, group, whole, before)
        try:
            said += one.update_golden() if update else one.compare_results()
        except OSError as error:  # it may name a temporary file, or none
            raise OSError(error.errno, error.strerror, str(one.path)) from None
    if whole:
        said += _orphaned_goldens(groups)
    return said


def _orphaned_goldens(fixtures: Mapping[str, object]) -> Iterator[str]:
    known = {golden_path(fixture) for fixture in fixtures}
    for folder in dict.fromkeys(path.parent for path in known):
        if folder.is_dir():
            for path in sorted(folder.glob("*.toml")):
                if path not in known:
                    yield f"{path} belongs to no fixture; remove it, or give a fixture its name"


@dataclass
class _Holding:
    """One fixture, its results, and its golden."""

    fixture: str
    path: Path
    stamp: dict[str, str]
    results: list[Result]
    whole: bool
    before: Golden | BadGolden | None

    def compare_results(self) -> list[str]:
        """Add the drifts from the golden, if there is one, to the results."""
        golden = self.before
        if isinstance(golden, BadGolden):
            for result in self._compiled_results():
                _fail_result(result, [Failure("golden", f"{golden}; --update rewrites it")])
            return []
        now = _read_golden(self.path)
        changed = []
        if str(now) != str(golden):
            changed = [f"{self.path} changed while the programs ran; they were compared with its old content"]
        if golden is None:
            return changed
        for result in self._compiled_results():
            this = self._keep_run(result)
            kept = golden.find_run(this.run_key())
            if kept is None:
                result.notes.append(f"{self.path} has no {this.run_name()}; --update adds it")
                continue
            drifts, notes = compare_runs(kept, this, golden.tolerance, self.path, self._fixture_folder())
            result.notes += notes
            _fail_result(result, drifts)
        return changed + [
            f"{self.path}: {run.run_name()} is on a mesh that the fixture does not have; --update removes it"
            for run in self._runs_no_longer_declared(golden)
        ]

    def update_golden(self) -> list[str]:
        """Put the programs of results that pass in place of the golden's."""
        said = [
            f"{self.path}: {self._keep_run(result).run_name()} was not updated, because it fails"
            for result in self._compiled_results()
            if result.status == FAIL
        ]
        fresh = [self._keep_run(result) for result in self._compiled_results() if result.status == PASS]
        with _lock_folder(self.path.parent.parent):
            try:
                old = read_golden(self.path)
            except BadGolden:
                old = None
            old = old or Golden(self.fixture.rpartition("::")[2])
            gone = {run.run_key() for run in self._runs_no_longer_declared(old)}
            if not fresh and not gone:
                return said
            # In the old order, so that a diff shows what changed and nothing else.
            runs = {run.run_key(): run for run in old.runs if run.run_key() not in gone}
            runs |= {run.run_key(): run for run in fresh}
            if not runs:
                self.path.unlink()
                return [*said, f"removed {self.path}: the fixture has none of its meshes"]
            data = golden_text(replace(old, runs=list(runs.values()))).encode()
            if self.path.is_file() and self.path.read_bytes() == data:
                return [*said, f"{self.path} is up to date"]
            self.path.parent.mkdir(exist_ok=True)
            replace_file(self.path, data)
        left = len(runs) - len(fresh)
        return [
            *said,
            f"wrote {self.path}: {_count_runs(len(fresh))}" + (f", {left} unchanged" if left else ""),
        ]

    def _compiled_results(self) -> list[Result]:
        return [one for one in self.results if one.program is not None and one.status in (PASS, FAIL)]

    def _keep_run(self, result: Result) -> GoldenProgram:
        assert result.program is not None
        return record_program(result.program, result.level, self._fixture_folder(), self.stamp)

    def _fixture_folder(self) -> Path:
        return Path(self.fixture.rpartition("::")[0]).parent

    def _runs_no_longer_declared(self, golden: Golden) -> list[GoldenProgram]:
        """Runs of the golden on meshes the fixture no longer has."""
        meshes = {sizes_text(result.mesh) for result in self.results if result.mesh}
        return [run for run in golden.runs if self.whole and meshes and run.mesh not in meshes]


def _fail_result(result: Result, failures: Sequence[Failure]) -> None:
    if failures:
        result.status = FAIL
        result.failures += failures


def _count_runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Alone among processes that update goldens beside one another, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

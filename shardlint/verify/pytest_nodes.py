"""Collection nodes of the pytest plugin: files with fixtures, and a test for each fixture, mesh and level.

No user code runs in pytest's own process: files are read by child processes, which do the tests too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from shardlint.config.settings import BadSettings
from shardlint.source.files import cache_folder
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.fixture import parse_bytes
from shardlint.verify.fixture_files import fixture_files_below, makes_fixtures
from shardlint.verify.golden import Goldens, compare_with_goldens, read_goldens
from shardlint.verify.levels import LEVELS
from shardlint.verify.options import time_limit
from shardlint.verify.outcome import Job
from shardlint.verify.plan import Request, check_self, collect_declarations, fixture_jobs, run_jobs
from shardlint.verify.report import FAIL, SKIP, Failure, Result, result_text
from shardlint.verify.runner import MEMORY, SECONDS, Runner
from shardlint.verify.settings_fixtures import has_fixtures, read_fixtures
from shardlint.verify.spec import sizes_text

_LISTED: pytest.StashKey[set[Path]] = pytest.StashKey()
_VERIFIER: pytest.StashKey[Verifier] = pytest.StashKey()


def configure_plugin(config: pytest.Config) -> None:
    """Read the options, and have the files collected that `shardlint_fixtures` lists or `--shardlint` finds, unless
    paths were given.

    Raises `UsageError`.
    """
    levels, seconds = config.getoption("shardlint_level"), config.getoption("shardlint_timeout")
    for level in levels:
        if level not in LEVELS:
            raise pytest.UsageError(f"--shardlint-level is {level!r}; write one of {', '.join(LEVELS)}")
    try:
        time_limit(SECONDS if seconds is None else seconds)
    except ValueError as error:
        raise pytest.UsageError(f"--shardlint-timeout: {error}") from None
    listed: set[Path] = set()
    found: list[Path] = []
    for pattern in config.getini("shardlint_fixtures"):
        named = config.rootpath / pattern
        paths = [named] if named.exists() else sorted(config.rootpath.glob(pattern))
        if not paths:
            raise pytest.UsageError(f"shardlint_fixtures: {pattern} matches no file below {config.rootpath}")
        for path in paths:
            found += fixture_files_below(path) if path.is_dir() else [path]
            listed.update(found)
    if config.getoption("shardlint"):
        try:
            found += fixture_files_below(config.rootpath)
        except BadSettings as error:
            raise pytest.UsageError(str(error)) from None
    config.stash[_LISTED] = {path.resolve() for path in listed}
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        # What lies below the paths that are collected anyway is met there.
        tops = [Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args]
        config.args += [
            str(path)
            for path in dict.fromkeys(path.resolve() for path in found)
            if not any(path.is_relative_to(top) for top in tops)
        ]


def collect_file(path: Path, source: bytes, parent: pytest.Collector, others: list[Any]) -> list[Any]:
    """The collectors of a file: those other plugins have for it, and ours where its fixtures are wanted.

    pytest's own goes where the file has nothing for it, so that pytest does not import the file.
    """
    if not _is_wanted(path, source, parent):
        return others
    if path.suffix == ".py" and not _has_tests(source, parent.config):
        others = [other for other in others if not isinstance(other, pytest.Module)]
    return [*others, FixtureFile.from_parent(parent, path=path)]


def _is_wanted(path: Path, source: bytes, parent: pytest.Collector) -> bool:
    config = parent.config
    asked = parent.session.isinitpath(path) or config.getoption("shardlint")
    if path.resolve() in config.stash.get(_LISTED, ()):
        return True
    if path.suffix == ".toml":
        return bool(asked) and _declares_fixtures(path)
    patterns = config.getini("python_files")
    return bool(asked or any(_path_fits_pattern(path, pattern) for pattern in patterns)) and makes_fixtures(
        source
    )


def _declares_fixtures(path: Path) -> bool:
    try:
        return has_fixtures(path)
    except BadSettings:
        return True  # and our collector tells what is wrong with it


def _path_fits_pattern(path: Path, pattern: str) -> bool:
    return fnmatchcase(path.name, pattern) if "/" not in pattern else path.match(pattern)


def _has_tests(source: bytes, config: pytest.Config) -> bool:
    """Return whether a module may hold tests for pytest itself. If that cannot be determined, it may."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return False  # our collector tells of it
    names = [*config.getini("python_functions"), *config.getini("python_classes")]
    for node in ast.walk(module):
        found: list[str] = []
        if isinstance(node, ast.ClassDef):
            if any("Test" in ast.unparse(base) for base in node.bases):  # unittest's go by any name
                return True
            found = [node.name]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = [node.name]
        elif isinstance(node, ast.ImportFrom):
            found = [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign) and not _is_fixture(node.value):
            found = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if any(name == "*" or any(_is_named(name, one) for one in names) for name in found):
            return True
    return False


def _is_fixture(node: ast.AST) -> bool:
    """Return whether an expression is `Fixture(...)`, by its last name."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", "")) == "Fixture"


def _is_named(name: str, pattern: str) -> bool:
    """As pytest reads `python_functions`: a prefix, or a glob where it has the signs of one."""
    return name.startswith(pattern) or (any(sign in pattern for sign in "*?[") and fnmatchcase(name, pattern))


class Verifier:
    """The child processes of one pytest process; each worker of pytest-xdist is one, and has its own."""

    def __init__(self, config: pytest.Config) -> None:
        self.update = bool(config.getoption("shardlint_update"))
        self.request = Request(levels=config.getoption("shardlint_level"))
        seconds = config.getoption("shardlint_timeout") or SECONDS
        cache = None if config.getoption("shardlint_no_cache") else cache_folder("verify")
        self.runner = Runner(seconds=seconds, memory=parse_bytes(MEMORY), cache=cache)
        self.runner.__enter__()
        config.add_cleanup(lambda: self.runner.__exit__(None, None, None))
        config.pluginmanager.register(_Reports(), "shardlint-reports")
        self.failed: str | None = None
        self.goldens: Goldens = {}

    @classmethod
    def verifier_for(cls, config: pytest.Config) -> Verifier:
        """This process's own. Raises `CannotRun` without jax."""
        if _VERIFIER not in config.stash:
            config.stash[_VERIFIER] = cls(config)
        return config.stash[_VERIFIER]

    def test_self(self) -> None:
        """Have known faults caught, once. Raises `CannotRun` each time when one was missed."""
        if self.failed is None:
            self.failed = ""
            try:
                check_self(self.runner)
            except CannotRun as error:
                self.failed = str(error)
        if self.failed:
            raise CannotRun(self.failed)


@dataclass
class _Program:
    """A job, and its result at each level that was run."""

    job: Job
    results: dict[str, Result] = field(default_factory=dict)

    def remaining_levels(self) -> list[str]:
        return sorted({*self.job["levels"], *self.job["skips"]}, key=LEVELS.index)

    def run_levels(self, verifier: Verifier, levels: Collection[str]) -> None:
        job = {
            **self.job,
            "levels": [level for level in self.job["levels"] if level in levels],
            "skips": {level: why for level, why in self.job["skips"].items() if level in levels},
        }
        (results,) = run_jobs(verifier.runner, [job], verifier.request)
        goldens = verifier.goldens
        said = compare_with_goldens(results, verifier.runner.releases, update=verifier.update, goldens=goldens)
        for result in results:
            result.notes += said
        self.results |= {result.level: result for result in results}


class FixtureFile(pytest.File):
    """A Python file or settings file with fixtures."""

    def collect(self) -> Iterator[pytest.Item]:
        """The tests of its fixtures. Raises `CollectError` where they cannot be told."""
        path = self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path
        try:
            if path.suffix == ".toml":
                read_fixtures(path)
            verifier = Verifier.verifier_for(self.config)
            verifier.goldens = {**read_goldens([path]), **verifier.goldens}
            ((listed, broken),) = collect_declarations(verifier.runner, [path])
        except (BadSettings, CannotRun) as error:
            raise self.CollectError(str(error)) from None
        if broken is not None:
            raise self.CollectError(result_text(broken))
        for one in listed:
            if one["error"]:
                failure = Result(one["label"], "", FAIL, failures=[Failure("fixture", one["error"])])
                yield FixtureItem.from_parent(self, name=one["name"], program=_Program({}, {"": failure}))
                continue
            programs = [
                _Program(job)
                for mesh in one["meshes"]
                for job in fixture_jobs(path, one, mesh, verifier.request, verifier.runner.seconds)
            ]
            count = sum(len(program.remaining_levels()) for program in programs)
            for program in programs:
                for level in program.remaining_levels():
                    name = _item_name(one["name"], program.job, level)
                    of = (f"{self.nodeid}::{one['name']}", count)
                    yield FixtureItem.from_parent(self, name=name, program=program, level=level, of=of)


def _item_name(fixture: str, job: Job, level: str) -> str:
    which = f"-{job['topology']}" if "topology" in job else ""
    return f"{fixture}[{sizes_text(job['mesh'])}-{level}{which}]"


class FixtureItem(pytest.Item):
    """A fixture on one mesh at one level. `of` is the fixture's own id, and how many tests it has."""

    def __init__(
        self,
        name: str,
        parent: pytest.Collector,
        *,
        program: _Program,
        level: str = "",
        of: tuple[str, int] = ("", 0),
        **more: Any,
    ) -> None:
        # Its id as text: from that, pytest 9.2 and later know what the brackets are, which `--lf` compares.
        super().__init__(name, parent, nodeid=f"{parent.nodeid}::{name}", **more)
        self.program, self.level, self.of = program, level, of
        self.add_marker("shardlint")

    def setup(self) -> None:
        """Have the verifier show first that it catches faults."""
        Verifier.verifier_for(self.config).test_self()

    def runtest(self) -> None:
        """Skip, fail with the report, or keep it beside a test that passes."""
        result = self._find_result()
        if result.status == SKIP:
            pytest.skip(result.reason)
        if result.status == FAIL:
            raise _Failed(result_text(result))
        self.add_report_section("call", "shardlint", result_text(result))

    def _find_result(self) -> Result:
        """Its result. One process goes through all levels that are asked for, where they all are to be run here."""
        results = self.program.results
        if self.level not in results:
            mine = [self]
            if not hasattr(self.config, "workerinput"):
                items = [item for item in self.session.items if isinstance(item, FixtureItem)]
                mine = [item for item in items if item.program is self.program]
            self.program.run_levels(Verifier.verifier_for(self.config), [item.level for item in mine])
        if self.level in results:
            return results[self.level]
        before = next((level for level, result in results.items() if result.status == FAIL), "before it")
        return Result(self.name, self.level, SKIP, reason=f"not reached: level {before} failed")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *more: Any) -> Any:
        """The report of `shardlint verify`."""
        if isinstance(excinfo.value, _Failed | CannotRun):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *more)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it is from, for messages."""
        return self.path, None, self.name


class _Failed(Exception):
    """A fixture that does not hold; the message is the report."""


class _Reports:
    """Puts into the report of each test which fixture it is of, for who sees nothing but reports."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome: Any = yield
        if isinstance(item, FixtureItem):
            report = outcome.get_result()
            if item.of[0]:
                report.shardlint = item.of
            if report.skipped and isinstance(report.longrepr, tuple):
                report.longrepr = (str(item.path), None, report.longrepr[2])

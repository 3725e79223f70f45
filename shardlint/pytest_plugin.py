"""The pytest plugin: fixtures of `shardlint.verify` as tests, one for each mesh and level.

Every pytest run of an environment that has shardlint loads this module, so it imports nothing; what it does for
projects with fixtures is in `verify.pytest_nodes`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pluggy import Result

_NAMES = (b"shardlint", b"Fixture")
_SETTINGS = ("pyproject.toml", "shardlint.toml")
_MOST_BYTES = 8_000_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and the ini setting."""
    group = parser.getgroup("shardlint", "sharding fixtures (shardlint verify)")
    group.addoption(
        "--shardlint",
        action="store_true",
        help="also collect fixtures in files that are not tests, and those of [[tool.shardlint.verify]]",
    )
    group.addoption(
        "--shardlint-level",
        metavar="LEVEL",
        action="append",
        default=[],
        help="only this level; repeatable; without, all that each fixture declares",
    )
    group.addoption(
        "--shardlint-timeout", metavar="SECONDS", type=float, help="wall clock of a fixture on a mesh"
    )
    group.addoption("--shardlint-update", action="store_true", help="write the goldens of fixtures that pass")
    group.addoption(
        "--shardlint-no-cache", action="store_true", help="have everything compiled again, and keep nothing"
    )
    group.addoption(
        "--shardlint-run",
        action="store_true",
        help="run the session under `shardlint run`, and report what its programs do to shardings, by test",
    )
    group.addoption(
        "--shardlint-run-strict", action="store_true", help="the same, and fail where something is found"
    )
    parser.addini(
        "shardlint_fixtures",
        "files (pyproject.toml too) and folders whose fixtures are always collected; globs, from the root",
        type="linelist",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Start the session again under `shardlint run`, where that is asked for."""
    strict = config.getoption("shardlint_run_strict")
    if not (strict or config.getoption("shardlint_run")) or "SHARDLINT_RUN_FOLDER" in os.environ:
        return None
    import subprocess
    import sys

    # The watcher and the compiler's flags must stand before anything imports jax.
    pytest_again = [sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]
    options = ["--strict"] if strict else []
    command = [sys.executable, "-m", "shardlint", "run", *options, "--", *pytest_again]
    return subprocess.call(command, cwd=config.invocation_params.dir)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that every fixture has, and read what is asked for."""
    config.addinivalue_line("markers", "shardlint: a sharding fixture, on one mesh at one level")
    config.pluginmanager.register(_Everywhere(), "shardlint-everywhere")
    asked = config.getoption("shardlint") or config.getoption("shardlint_level")
    if asked or config.getoption("shardlint_timeout") is not None or config.getini("shardlint_fixtures"):
        from shardlint.verify.pytest_nodes import configure_plugin

        configure_plugin(config)


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
    """Under `shardlint run -- pytest`, put down what fails a test, or the import of its file."""
    if call.excinfo is not None and "SHARDLINT_RUN_RAISED" in os.environ:
        from shardlint.run.raised.tests import put_down

        put_down(call.excinfo.value, node.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Collect a file's fixtures, and where it has nothing else keep pytest from importing it."""
    outcome: Result[list[Any]] = yield  # type: ignore[assignment]  # what pluggy sends a wrapper
    config, source = parent.config, b""
    listed = config.getini("shardlint_fixtures")
    if file_path.suffix == ".py":
        try:
            readable = file_path.is_file() and file_path.stat().st_size <= _MOST_BYTES
            source = file_path.read_bytes() if readable else b""
        except OSError:
            return
        if not (listed or all(name in source for name in _NAMES)):
            return
    else:
        asked = listed or config.getoption("shardlint") or parent.session.isinitpath(file_path)
        if file_path.name not in _SETTINGS or not asked:
            return
    from shardlint.verify.pytest_nodes import collect_file

    outcome.force_result(collect_file(file_path, source, parent, outcome.get_result()))


class _Everywhere:
    """Fails a session in which a fixture was skipped at every mesh and level: that verified nothing.

    It goes by what every report carries, so that it can tell where pytest-xdist runs the tests elsewhere.
    """

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, str]] = {}
        self.totals: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a fixture's test."""
        of = getattr(report, "shardlint", None)
        if of is not None and (report.when == "call" or not report.passed):
            self.totals[of[0]] = of[1]
            self.seen.setdefault(of[0], {})[report.nodeid] = report.outcome

    def fixtures_all_skipped(self) -> list[str]:
        """Fixtures all of whose tests were run and skipped."""
        return [
            fixture
            for fixture, outcomes in self.seen.items()
            if len(outcomes) == self.totals[fixture] and set(outcomes.values()) == {"skipped"}
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Have the session fail."""
        if session.exitstatus == pytest.ExitCode.OK and self.fixtures_all_skipped():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why."""
        for fixture in self.fixtures_all_skipped():
            terminalreporter.write_line(
                f"FAILED {fixture} - checks nothing: it was skipped everywhere", red=True
            )

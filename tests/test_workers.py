"""Several processes find what one finds, and a lost one loses nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from shardlint import workers
from shardlint.check import check
from shardlint.checker import Checker
from shardlint.outcome import Options, Outcome, Report
from shardlint.settings import BadSettings
from tests.conftest import Write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")

BAD = """
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P
    from places import by_row

    @jax.jit
    def step(x):
        return jax.device_put(x, by_row)
    """
PLACES = """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    by_row = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    """


@pytest.fixture
def project(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(workers, "_FILES", 4)
    monkeypatch.setattr(workers, "_processors", lambda: 2)
    files: dict[str, str | bytes] = {
        f"step_{index:02}.py": BAD if index % 3 else "x = 1\n" for index in range(20)
    }
    return write({"places.py": PLACES, "torn.py": "def f(:\n  import jax\njax.device_put(\n", **files})


def told(report: Report) -> list[tuple[str, str, int, str]]:
    return [
        (str(one.path), finding.rule.code, finding.start, finding.message)
        for one in report.reports
        for finding in one.findings
    ]


def test_many_find_what_one_finds(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = check([project], Options())
    monkeypatch.setattr(workers, "worth_it", lambda files: False)
    one = check([project], Options())
    assert told(many) == told(one)
    assert (many.files, many.skipped, many.failed) == (one.files, one.skipped, one.failed)
    assert len(told(one)) == 14, "13 steps, and the file that does not parse"


def test_few_files_are_checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_processors", lambda: 2)
    assert not workers.worth_it([Path("a.py")] * 399)
    assert workers.worth_it([Path("a.py")] * 400)
    monkeypatch.setattr(workers, "_processors", lambda: 1)
    assert not workers.worth_it([Path("a.py")] * 4000)


def test_a_killed_process_loses_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()
    checked = []

    real = Checker.check_file

    def once_too_often(checker: Checker, path: Path, data: bytes | None = None) -> Outcome:
        if os.getpid() != here and path.name == "step_10.py":
            os.kill(os.getpid(), signal.SIGKILL)
        checked.append(path)
        return real(checker, path, data)

    monkeypatch.setattr(Checker, "check_file", once_too_often)
    report = check([project], Options())
    assert checked, "this process does what the lost one had to do"
    assert report.files == 22
    assert len(told(report)) == 14


def test_settings_that_cannot_be_read_end_the_run(project: Path) -> None:
    (project / "inner").mkdir()
    (project / "inner" / "a.py").write_text("import jax\n")
    (project / "inner" / "shardlint.toml").write_text("select = 5\n")
    with pytest.raises(BadSettings, match="select"):
        check([project], Options())

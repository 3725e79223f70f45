"""Several processes find what one finds, and a lost one loses nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shardlint.config.settings import BadSettings
from shardlint.engine import workers
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options, Outcome, Report
from shardlint.engine.run import check_paths
from shardlint.model import program
from shardlint.model import project as project_module
from shardlint.source.text import Source
from shardlint.syntax import FileFacts
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
    monkeypatch.setattr(workers, "_count_processors", lambda: 2)
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
    many = check_paths([project], Options())
    monkeypatch.setattr(workers, "worth_it", lambda files: False)
    one = check_paths([project], Options())
    assert told(many) == told(one)
    assert (many.files, many.skipped, many.failed) == (one.files, one.skipped, one.failed)
    assert len(told(one)) == 14, "13 steps, and the file that does not parse"


def test_few_files_are_checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_count_processors", lambda: 2)
    assert not workers.worth_it([Path("a.py")] * 399)
    assert workers.worth_it([Path("a.py")] * 400)
    monkeypatch.setattr(workers, "_count_processors", lambda: 1)
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
    report = check_paths([project], Options())
    assert checked, "this process does what the lost one had to do"
    assert report.files == 22
    assert len(told(report)) == 14


def test_settings_that_cannot_be_read_end_the_run(project: Path) -> None:
    (project / "inner").mkdir()
    (project / "inner" / "a.py").write_text("import jax\n")
    (project / "inner" / "shardlint.toml").write_text("select = 5\n")
    with pytest.raises(BadSettings, match="select"):
        check_paths([project], Options())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_others_end_with_the_process_that_gives_out_the_work(tmp_path: Path, number: int) -> None:
    # A worker says its number and would then be busy for minutes.
    code = """if True:
        import os, sys, time
        from pathlib import Path
        from shardlint.engine import workers
        from shardlint.engine.run import check_paths
        from shardlint.engine.one_file import Checker
        from shardlint.engine.results import Options
        workers._FILES, workers._count_processors = 4, lambda: 2
        here, real = os.getpid(), Checker.check_file
        def check_file(*given):
            if os.getpid() != here:
                os.write(1, b"%d\\n" % os.getpid())
                time.sleep(300)
            return real(*given)
        Checker.check_file = check_file
        check_paths([Path(sys.argv[1])], Options())
        """
    for index in range(8):
        (tmp_path / f"{index}.py").write_text("x = 1\n")
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    begun = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(number)
    assert parent.wait(60) == -number
    assert parent.stdout.read() == "", "read to its end: nobody holds it any more"
    parent.stdout.close()
    until = time.monotonic() + 60
    while (
        left := [worker for worker in begun if Path(f"/proc/{worker}/fd/1").exists()]
    ) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left


@pytest.mark.parametrize("limit", [12, 16, 20])
def test_where_no_process_can_be_started_the_work_is_done_here(project: Path, limit: int) -> None:
    code = f"""if True:
        import resource, sys
        from pathlib import Path
        from shardlint.engine import workers
        from shardlint.engine.run import check_paths
        from shardlint.engine.results import Options
        workers._FILES, workers._count_processors = 4, lambda: 8
        resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
        print(check_paths([Path(sys.argv[1])], Options()).finding_count)
        """
    done = subprocess.run([sys.executable, "-c", code, project], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("14\n", "")


def test_a_process_that_cannot_be_forked_is_done_without(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, children = os.fork, []

    def fork() -> int:
        if children:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        children.append(real())
        return children[0]

    monkeypatch.setattr(os, "fork", fork)
    assert len(told(check_paths([project], Options()))) == 14
    assert not multiprocessing.active_children(), "the one that was begun is ended"


def _parsed(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """Each file that is parsed is written down, also by processes that are forked."""
    real = project_module.read_facts

    def read_facts(source: Source, path: Path) -> FileFacts:
        with log.open("a") as lines:
            lines.write(f"{path.name}\n")
        return real(source, path)

    monkeypatch.setattr(project_module, "read_facts", read_facts)


def test_what_all_need_is_parsed_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("log") / "parsed"
    _parsed(monkeypatch, log)
    assert len(told(check_paths([project], Options()))) == 14
    assert log.read_text().splitlines().count("places.py") == 1


def test_a_project_around_another_is_parsed_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 'outer'\n")
    inner = project / "step_05"  # between two of the others
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\nname = 'inner'\n")
    (inner / "a.py").write_text("import jax\nx = jax.device_put(1)\n")
    log = tmp_path_factory.mktemp("log") / "parsed"
    _parsed(monkeypatch, log)
    monkeypatch.setattr(workers, "worth_it", lambda files: False)
    monkeypatch.setattr(program, "_KEPT_OF_ALL", 0)
    assert len(told(check_paths([project], Options()))) == 14
    assert log.read_text().splitlines().count("places.py") == 1

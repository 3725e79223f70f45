"""Tests of cached passes, replayed only while no dependency has changed, and always marked as cached."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shardlint.cli.verify import verify
from shardlint.verify.kept_outcomes import Keeper
from shardlint.verify.outcome import Outcome
from tests.programs import skip_without

skip_without("jax")
pytestmark = pytest.mark.longer

FIXTURE = """\
import json
from pathlib import Path
import jax
import numpy as np
from shardlint.verify import Fixture, P, arg
import steps

def rows():
    return np.full((8, 4), json.loads(Path(__file__).with_name("scale.json").read_text()))

step = Fixture(jax.jit(steps.step), meshes=[{"data": 4}], args=[arg(rows, spec=P("data"))], out={"": P("data")},
               reference="single_device")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text("")
    (folder / "fx.py").write_text(FIXTURE)
    (folder / "steps.py").write_text("from helpers import twice\n\ndef step(x):\n    return twice(x)\n")
    (folder / "helpers.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / "scale.json").write_text("3")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield folder


def told(*options: str) -> dict[str, Any]:
    done = CliRunner().invoke(verify, ["fx.py", "--output-format", "json", *options])
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def was_run(report: dict[str, Any]) -> bool:
    """Return whether every result was computed now. Some of them alone must not be."""
    kept = {bool(result["kept"]) for result in report["results"]}
    assert len(kept) == 1
    assert kept == {not report["self_test"]}, "whoever runs something tries the checks first"
    return kept == {False}


def test_the_second_time_nothing_is_run(project: Path) -> None:
    first = told()
    assert first["passed"] == 2 and was_run(first)
    second = told()
    assert not was_run(second)
    assert second["releases"] == first["releases"] and second["passed"] == 2
    assert "no program and no self-test ran" in second["kept"][0]
    same = ("level", "status", "checked", "program", "notes", "failures", "rerun")
    assert [[one[key] for key in same] for one in second["results"]] == [
        [one[key] for key in same] for one in first["results"]
    ]
    text = CliRunner().invoke(verify, ["fx.py"]).stdout
    assert text.count("kept from 20") == 2


def test_no_jax_is_imported_for_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told()
    monkeypatch.setattr("shardlint.verify.children.start_child", pytest.fail)
    assert not was_run(told())


@pytest.mark.parametrize("option", ["--fresh", "--no-cache"])
def test_unless_asked_to(project: Path, option: str) -> None:
    told()
    assert was_run(told(option))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda folder: (folder / "fx.py").write_text(FIXTURE + "# more\n"), ""),
        (lambda folder: (folder / "helpers.py").write_text("def twice(x):\n    return x + x\n"), "helpers.py"),
        (lambda folder: (folder / "scale.json").write_text("4"), "scale.json"),
        (lambda folder: (folder / "steps").mkdir(), str),  # it is found before steps.py
    ],
)
def test_what_it_rests_on_has_changed(project: Path, change: Callable[[Path], Any], what: Any) -> None:
    told()
    assert not was_run(told())
    change(project)
    report = told()
    assert was_run(report)
    if what:
        here = f"imported from, {project}" if what is str else what
        assert any("this changed" in said and here in said for said in report["kept"])
    shutil.rmtree(project / "steps", ignore_errors=True)


def test_a_golden_has_changed(project: Path) -> None:
    assert told("--update")["passed"] == 2
    told()  # with the golden there
    assert not was_run(told())
    golden = project / "fx.golden" / "step.toml"
    golden.write_text(golden.read_text().replace("P('data')", "P()"))
    for _ in range(2):
        report = told()
        assert was_run(report) and report["failed"] == 1, "and what fails is run each time"


def test_the_environment_has_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(project / "fx.golden", ignore_errors=True)
    told()
    assert not was_run(told())
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    report = told()
    assert was_run(report) and any("environment variable" in said for said in report["kept"])
    monkeypatch.delenv("JAX_ENABLE_X64")
    monkeypatch.setenv("WINDOWID", "7")
    told()
    assert not was_run(told())


def test_what_fails_is_run_each_time(project: Path) -> None:
    (project / "fx.py").write_text(FIXTURE.replace('P("data")},', 'P("data", None)}, forbid=["any over data"],'))
    (project / "helpers.py").write_text("def twice(x):\n    return x - x.sum()\n")
    for _ in range(2):
        report = told()
        assert report["failed"] and not any(result["kept"] for result in report["results"])
    (project / "fx.py").write_text(FIXTURE)
    (project / "helpers.py").write_text("def twice(x):\n    return 2 * x\n")


MADE = {
    "clock": "np.full((8, 4), time.time())",
    "date": "np.full((8, 4), calendar.year())",
    "global_rows": "np.random.rand(8, 4)",
    "rows": "np.random.default_rng().normal(size=(8, 4))",
    "name": "np.full((8, 4), 1 + uuid.uuid4().int % 7)",
    "process": "np.full((8, 4), len(subprocess.run(['true']).args))",
    "seeded": "np.random.seed(1) or np.random.rand(8, 4)",
    "rows_seeded": "np.random.default_rng(3).normal(size=(8, 4))",
    "duration": "np.full((8, 4), time.perf_counter() > 0)",
}


def test_what_another_run_may_find_otherwise(project: Path) -> None:
    text = FIXTURE.partition("def rows")[0] + "import subprocess, sys, time, uuid\n"
    for name, makes in MADE.items():
        text += f"def {name}():\n"
        text += "    import calendar_here as calendar\n" if name == "date" else ""
        text += f"    return {makes}\n"
        text += f"f_{name} = Fixture(jax.jit(steps.step), meshes=[{{'data': 4}}], args=[arg({name})], reference='single_device')\n"
    (project / "many.py").write_text(text)
    (project / "calendar_here.py").write_text(
        "import datetime\n\ndef year():\n    return datetime.datetime.now().year\n"
    )
    for turn in range(2):
        done = CliRunner().invoke(verify, ["many.py", "--level", "execute", "--output-format", "json"])
        report = json.loads(done.stdout)
        assert report["passed"] == len(MADE)
        kept = {result["fixture"].rpartition("f_")[2] for result in report["results"] if result["kept"]}
        assert kept == ({"seeded", "rows_seeded", "duration"} if turn else set())
    why = sorted(said.removeprefix("not kept: ") for said in report["kept"] if "not kept" in said)
    assert len(why) == 3, "not all of them are told"
    assert all("many.py:" in said or said.startswith(("the global", "calendar_here")) for said in why)


# What is installed, without any process: the notes of one, made by hand.


class Installed:
    """A job that was kept, resting on packages in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        (self.site / "jax").mkdir(parents=True)
        (self.site / "jax" / "version.py").write_text("0.12.0")
        (self.site / "jax-0.12.0.dist-info").mkdir()
        (folder / "fx.py").write_text("")
        self.job = {"task": "fixture", "file": str(folder / "fx.py"), "name": "step", "mesh": {"data": 2}}
        reads = {
            "files": [str(self.site / "jax" / "version.py")],
            "folders": [],
            "names": ["jax", "optional"],
            "path": [str(folder), str(self.site)],
            "packages": [],
            "libraries": [str(self.site) + "/"],
            "not_kept": [],
        }
        self.reads: dict[str, Any] = reads

    def keeper(self, **options: Any) -> Keeper:
        return Keeper(self.folder / "cache", sys.executable, secret="x", **options)

    def keep(self) -> None:
        outcome = Outcome(self.job, [{"result": {"level": "compile"}}, {"done": True}])
        self.keeper().keep_outcome(self.job, outcome, [self.reads], {"jax": "0.12.0"})

    def recalls(self) -> bool:
        return self.keeper().recall_outcome(self.job) is not None


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    found = Installed(tmp_path)
    found.keep()
    assert found.recalls()
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda site: (site / "jax" / "version.py").write_text("0.13.0, of which nobody knows"),
        lambda site: (site / "jax" / "version.py").unlink(),
        lambda site: (site / "jax-0.12.0.dist-info").rename(site / "jax-0.13.0.dist-info"),
        lambda site: (site / "plugin-1.dist-info").mkdir(),
        lambda site: (site / "more.pth").write_text("/elsewhere"),
        lambda site: (site / "optional").mkdir(),
        lambda site: (site.parent / "jax.py").write_text(""),
        lambda site: shutil.rmtree(site),
    ],
)
def test_what_is_installed_has_changed(installed: Installed, change: Callable[[Path], Any]) -> None:
    change(installed.site)
    assert not installed.recalls()


def test_what_does_not_count(installed: Installed) -> None:
    (installed.site / "other").mkdir()
    (installed.folder / "notes.md").write_text("")
    (installed.folder / "scratch.py").write_text("")
    assert installed.recalls()


def test_another_job_is_another(installed: Installed) -> None:
    installed.job |= {"mesh": {"data": 4}}
    assert not installed.recalls()


def test_what_was_not_noted_is_not_kept(tmp_path: Path) -> None:
    for spoil in ({"files": None}, {"not_kept": ["x"]}):
        one = Installed(tmp_path / str(len(list(tmp_path.iterdir()))))
        one.reads |= spoil
        one.keep()
        assert not one.recalls()


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    one = Installed(tmp_path)
    keeper = one.keeper()
    (tmp_path / "fx.py").write_text("# while it ran\n")
    keeper.keep_outcome(one.job, Outcome(one.job, [{"done": True}]), [one.reads], {})
    assert "changed while its program ran" in " ".join(keeper.not_kept)
    assert not one.recalls()


def test_a_part_that_is_gone(installed: Installed) -> None:
    files = sorted((installed.folder / "cache").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    files[0].unlink()  # the common part was written first
    assert not installed.recalls()


def test_notes_are_taken_in_a_process_of_their_own(tmp_path: Path) -> None:
    """An audit hook stays for good, so it is tried elsewhere: what is opened to be written is not read."""
    code = """
    import json, os, sys
    from shardlint.verify.inside.reads import begin_noting
    told = begin_noting((sys.argv[1] + "/own",))
    os.makedirs("own"), os.makedirs("data")
    open("own/x", "w").close(); open("own/x").close()
    open("written", "w").close()
    open("read", "a+").close()
    try:
        open("absent")
    except OSError:
        pass
    try:
        import nothing_of_this_name
    except ImportError:
        pass
    os.listdir("data"); os.listdir("own"); open("/proc/self/status").close()
    reads = told()
    print(json.dumps([[os.path.basename(file) for file in reads["files"] if file.startswith(sys.argv[1])],
                      [os.path.basename(folder) for folder in reads["folders"]], "nothing_of_this_name" in reads["names"],
                      reads["not_kept"]]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [["absent", "read"], ["data"], True, []]

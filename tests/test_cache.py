"""Tests of cached findings of earlier runs, used only if they are still valid."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.cache import project_cache
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options, Outcome, Report
from shardlint.engine.run import check_paths
from shardlint.output import json_
from shardlint.rules_api.registry import UnknownRule
from shardlint.source import store
from tests.conftest import Write

STEP = """
    import jax
    from places import by_row
    from helpers import put

    @jax.jit
    def step(x):
        return put(jax.device_put(x, by_row))
    """
PLACES = """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    by_row = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    """
HELPERS = """
    import jax

    def put(x):
        return x

    def placed(x):
        return jax.device_put(x, jax.devices()[0])
    """
CALLER = """
    import jax
    from helpers import placed

    @jax.jit
    def run(x):
        return placed(x)
    """
OPTIONS = Options()


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "memory"
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the files that are checked, and not remembered."""
    names: list[str] = []
    real = Checker.check_file

    def noted(checker: Checker, path: Path, data: bytes | None = None) -> Outcome:
        names.append(path.name)
        return real(checker, path, data)

    monkeypatch.setattr(Checker, "check_file", noted)
    return names


@pytest.fixture
def project(write: Write, memory: Path) -> Path:
    root = write(
        {
            "step.py": STEP,
            "places.py": PLACES,
            "helpers.py": HELPERS,
            "caller.py": CALLER,
            "idle.py": "x = 1\n",
        }
    )
    (root / "setup.cfg").touch()
    return root


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had been changed for a while: what is quite new is known by its content only."""
    monkeypatch.setattr(project_cache, "_TICK", -10_000_000_000)


def told(report: Report) -> str:
    return json_.dump_report(report)


def again(root: Path, checked: list[str], options: Options = OPTIONS) -> list[str]:
    """The files that a remembering run checks; it says what one that remembers nothing does."""
    checked.clear()
    remembered = told(check_paths([root], options, cached=True))
    names = sorted(set(checked))
    assert remembered == told(check_paths([root], options)), "the same is said"
    return names


def test_a_second_run_checks_nothing(project: Path, checked: list[str]) -> None:
    assert again(project, checked) == ["caller.py", "helpers.py", "places.py", "step.py"]
    assert again(project, checked) == []
    report = check_paths([project], OPTIONS, cached=True)
    assert {finding.rule.code for file in report.reports for finding in file.findings} >= {"SL201"}


def test_a_changed_file_costs_what_rests_on_it(project: Path, checked: list[str]) -> None:
    again(project, checked)
    (project / "places.py").write_text((project / "places.py").read_text() + "\nz = 1\n")
    assert again(project, checked) == ["places.py", "step.py"]
    (project / "idle.py").write_text("x = 2\n")
    assert again(project, checked) == []
    (project / "caller.py").write_text("x = 1\n")
    assert "helpers.py" in again(project, checked), "who calls it is asked anew"


def test_a_comment_costs_no_other_file(project: Path, checked: list[str]) -> None:
    again(project, checked)
    (project / "places.py").write_text((project / "places.py").read_text() + "\n\n# by row\n")
    assert again(project, checked) == ["places.py"]
    text = (project / "places.py").read_text()
    (project / "places.py").write_text(text.replace("import jax\n", "import jax  # all of it\n\n", 1))
    assert again(project, checked) == ["places.py"], "lines moved, and nothing tells of them"
    (project / "places.py").write_text(text.replace('P("data")', 'P("#data")'))
    assert again(project, checked) == ["places.py", "step.py"], "a # in a string is code"


def test_who_asks_for_the_process_is_looked_up_by_its_lines(
    write: Write, memory: Path, checked: list[str]
) -> None:
    """Which names of a project ask for the process is told by the lines that say so, and rests on nothing else."""
    ask = "import jax\n\n\ndef first():\n    return jax.process_index() == 0\n\n\ndef other():\n    return 1\n"
    save = "import roles\n\n\ndef save(x, path):\n    if roles.first():\n        multihost_utils.process_allgather(x)\n"
    head = "from jax.experimental import multihost_utils\n"
    gather = head + "\n\ndef gather(x, flag):\n    if flag.on():\n        multihost_utils.process_allgather(x)\n"
    root = write({"roles.py": ask, "saving.py": head + save, "gather.py": f"{gather}\n\nimport roles\n"})
    (root / "setup.cfg").touch()
    again(root, checked)
    (root / "roles.py").write_text(ask.replace("return 1", "return 2"))
    assert again(root, checked) == ["roles.py"]
    (root / "roles.py").write_text(ask.replace("    return jax", "    mine = 3\n    return jax"))
    assert "gather.py" not in again(root, checked), "the same names ask"
    (root / "roles.py").write_text(ask.replace("return 1", "return jax.process_index()"))
    assert "saving.py" in again(root, checked), "one more asks"
    (root / "roles.py").write_text(ask)
    assert "saving.py" in again(root, checked), "one less asks"
    (root / "roles.py").write_text(ask.replace("jax.process_index() == 0", "True"))
    assert "saving.py" in again(root, checked), "nobody asks"


def test_findings_that_name_a_line_move_with_it(project: Path, checked: list[str]) -> None:
    again(project, checked)
    text = (project / "caller.py").read_text()
    assert "caller.py:" in told(check_paths([project], OPTIONS)), "the finding in helpers.py names the call"
    (project / "caller.py").write_text(f"# One line more\n{text}")
    assert again(project, checked) == ["caller.py", "helpers.py"]


def test_a_new_file_may_be_what_an_import_means(project: Path, checked: list[str]) -> None:
    (project / "places.py").rename(project / "elsewhere.py")
    again(project, checked)
    assert again(project, checked) == []
    (project / "elsewhere.py").rename(project / "places.py")
    assert "step.py" in again(project, checked)


def test_a_vanished_file_takes_what_rests_on_it(project: Path, checked: list[str]) -> None:
    again(project, checked)
    (project / "places.py").unlink()
    assert "step.py" in again(project, checked)


def test_a_touched_file_is_known_by_its_content(project: Path, checked: list[str]) -> None:
    again(project, checked)
    os.utime(project / "places.py")
    assert again(project, checked) == []


def test_other_content_of_the_same_size_and_time_is_noticed(project: Path, checked: list[str]) -> None:
    again(project, checked)
    path = project / "step.py"
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace("device_put(x, by_row)", "device_get(x, by_row)"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again(project, checked)
    other = project / "other"
    other.write_text(text)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert again(project, checked) == ["step.py"]


def test_pins_of_the_same_size_and_time_are_noticed(project: Path, checked: list[str]) -> None:
    path = project / "requirements.txt"
    path.write_text("jax==0.8.0\n")
    again(project, checked)
    before = path.stat()
    path.write_text("jax==0.7.0\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "step.py" in again(project, checked)


def test_a_file_changed_within_a_tick_is_noticed(
    project: Path, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_cache, "_TICK", 2_000_000_000)
    again(project, checked)
    path = project / "step.py"
    before = path.stat()
    path.write_text(path.read_text().replace("device_put(x, by_row)", "device_get(x, by_row)"))
    again(project, checked)
    path.write_text(path.read_text().replace("device_get(x, by_row)", "device_put(x, by_row)"))
    os.utime(path, ns=(before.st_atime_ns, path.stat().st_mtime_ns))
    again(project, checked)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shardlint.toml", 'ignore = ["SL201"]\n'),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["jax==0.4.30"]\n'),
        ("requirements.txt", "jax==0.4.30\n"),
        ("requirements/base.txt", "jax==0.4.30\n"),
        ("requirements.in", "jax==0.4.30\n"),
        ("requirements/base.in", "jax==0.4.30\n"),
        ("Pipfile", "[packages]\njax = '==0.4.30'\n"),
        ("Pipfile.lock", '{"default": {"jax": {"version": "==0.4.30"}}}'),
        ("pixi.toml", "[dependencies]\njax = '==0.4.30'\n"),
        ("pixi.lock", "- kind: conda\n  name: jax\n  version: 0.4.30\n"),
        ("conda/environment.yml", "- jax=0.4.30\n"),
        ("uv.lock", '[[package]]\nname = "jax"\nversion = "0.4.30"\n'),
    ],
)
def test_settings_and_releases_count(project: Path, checked: list[str], name: str, text: str) -> None:
    again(project, checked)
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text)
    assert "step.py" in again(project, checked)


@pytest.mark.parametrize(
    "options",
    [
        Options(select=("SL2",)),
        Options(certainty=Certainty.POSSIBLE),
        Options(targets={"jax": "0.4.30"}),
        Options(harm=("silent",)),
    ],
)
def test_options_count(project: Path, checked: list[str], options: Options) -> None:
    again(project, checked)
    assert "step.py" in again(project, checked, options)
    assert again(project, checked, options) == []
    assert again(project, checked) == []


def test_other_rules_and_another_shardlint_count(
    project: Path, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    again(project, checked)
    monkeypatch.setattr(store, "__version__", "99")
    assert "step.py" in again(project, checked)


def test_a_rule_that_is_not_there_is_told_also_where_nothing_is_checked(write: Write, memory: Path) -> None:
    root = write({"idle.py": "x = 1\n"})
    check_paths([root], Options(), cached=True)
    for _ in range(2):
        with pytest.raises(UnknownRule):
            check_paths([root], Options(select=("SL99999",)), cached=True)


def test_what_cannot_be_parsed_is_remembered(project: Path, checked: list[str]) -> None:
    (project / "torn.py").write_text("import jax\njax.device_put(1\n")
    (project / "odd.py").write_bytes(b"import jax\n# coding: nothing\n\xff\njax.device_put(1)\n")
    again(project, checked)
    assert again(project, checked) == []


def test_one_file_of_a_commit(project: Path, checked: list[str]) -> None:
    assert again(project / "step.py", checked) == ["step.py"]
    assert again(project / "step.py", checked) == []
    (project / "places.py").write_text("by_row = None\n")
    assert again(project / "step.py", checked) == ["step.py"], "what it rests on is not in the commit"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"\xff" + data,
        lambda data: b"[" * 100_000,
        lambda data: b"[1, 2]",
        lambda data: json.dumps(dict.fromkeys(json.loads(data[24:]), 5)).encode(),
        lambda data: data[:24] + json.dumps({key: {"x": [1]} for key in json.loads(data[24:])}).encode(),
        lambda data: data.replace(b'"silent"', b'"loud"'),
        lambda data: data.replace(b'"needs":[', b'"needs":[5,'),
    ],
)
def test_a_torn_or_strange_memory_is_as_good_as_none(
    project: Path, memory: Path, checked: list[str], spoil: object
) -> None:
    again(project, checked)
    assert callable(spoil)
    for path in memory.rglob("*.json"):
        path.write_bytes(spoil(path.read_bytes()))
    again(project, checked)
    again(project, checked)


@pytest.mark.parametrize("value", [[], ["file"], ["holding", "(?P<"], "\0", "\udcff", -1, 10**30, None])
def test_any_value_may_be_wrong_where_a_file_has_changed(
    project: Path, memory: Path, checked: list[str], value: object
) -> None:
    again(project, checked)
    for path in memory.rglob("*/*.json"):
        data = path.read_bytes()
        about = json.loads(data[24:])
        for key, old in about.items():
            if old:
                about[key] = {**old, "99": value} if isinstance(old, dict) else [value, *old[1:]]
        path.write_bytes(data[:24] + json.dumps(about).encode())
    (project / "helpers.py").write_text((project / "helpers.py").read_text() + "# x\n")
    assert "step.py" in again(project, checked), "none of it is believed"


def test_any_byte_may_be_wrong(project: Path, memory: Path, checked: list[str]) -> None:
    again(project, checked)
    chance = random.Random(3)
    for _ in range(60):
        path = chance.choice(sorted(memory.rglob("*.json")))
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice(b'"[]{},:0 9\\')
        path.write_bytes(bytes(data))
        (project / "helpers.py").write_text((project / "helpers.py").read_text() + "# x\n")
        check_paths([project], OPTIONS, cached=True)  # whatever it says, it ends, and runs nothing


def test_no_place_for_a_memory_is_no_mistake(
    project: Path, memory: Path, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.write_text("a file is here\n")
    assert again(project, checked)
    assert again(project, checked)
    assert memory.read_text() == "a file is here\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_what_somebody_else_wrote_is_not_believed(project: Path, memory: Path, checked: list[str]) -> None:
    again(project, checked)
    for path in memory.rglob("*.json"):
        os.chown(path, 12345, -1)
    assert "step.py" in again(project, checked)


@pytest.mark.longer
def test_two_runs_at_once_on_one_memory(project: Path, memory: Path) -> None:
    for number in range(30):
        (project / f"step_{number}.py").write_text((project / "step.py").read_text())
    command = [
        sys.executable,
        "-m",
        "shardlint",
        "check",
        "--select=SL2",
        "--output-format=json",
        str(project),
    ]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [1] * 4
    assert len(said) == 1
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout in said


def test_nothing_is_kept_in_the_project(project: Path, checked: list[str]) -> None:
    before = sorted(project.rglob("*"))
    again(project, checked)
    assert sorted(project.rglob("*")) == before


def test_without_a_memory(project: Path, memory: Path) -> None:
    command = [sys.executable, "-m", "shardlint", "check", "--no-cache", str(project)]
    assert subprocess.run(command, stdout=subprocess.PIPE).returncode == 1
    assert not memory.exists()


def test_random_changes_are_noticed(project: Path, checked: list[str]) -> None:
    """Files change, come and go at random; what is remembered and what is found anew stay the same."""
    chance = random.Random(11)
    texts = [
        (project / name).read_text()
        for name in ("step.py", "places.py", "helpers.py", "caller.py", "idle.py")
    ]
    names = [*("step places helpers caller idle extra".split()), "package/__init__", "package/helpers"]
    again(project, checked)
    for _ in range(40):
        path = project / f"{chance.choice(names)}.py"
        match chance.randrange(6):
            case 0 if path.exists():
                path.unlink()
            case 4 if path.exists():
                path.write_text(f"# moved\n{path.read_text()}")
            case 5 if path.exists():
                path.write_text(path.read_text().replace("\n    ", "  # why\n\n    ", 2))
            case 1 if path.exists():
                path.write_text(path.read_text().replace("helpers", "package.helpers", 1))
            case _:
                path.parent.mkdir(exist_ok=True)
                path.write_text(chance.choice(texts))
        again(project, checked)


def _folders(memory: Path) -> list[Path]:
    """Folders as other releases leave them, the first longest ago."""
    folders = [memory / f"{number:024x}" for number in range(8)]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        (folder / f"{'0' * 24}.json").touch()
        os.utime(folder, (number + 1, number + 1))
    return folders


def test_of_what_other_releases_kept_the_newest_few_stay(project: Path, memory: Path) -> None:
    folders = _folders(memory)
    check_paths([project], OPTIONS, cached=True)
    assert [folder.exists() for folder in folders] == [False] * 4 + [True] * 4


def test_files_that_are_not_ours_are_never_let_go(project: Path, memory: Path, tmp_path: Path) -> None:
    folders = _folders(memory)
    (folders[0] / "thesis.txt").write_text("years of work")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / f"{'1' * 24}.json").write_text("mine")
    (memory / f"{'f' * 24}").symlink_to(tmp_path / "docs")
    for folder in (folders[0], tmp_path / "docs"):
        os.utime(folder, (1, 1))
    check_paths([project], OPTIONS, cached=True)
    assert [path.name for path in folders[0].iterdir()] == ["thesis.txt"]
    assert not folders[1].exists(), "what comes after is let go"
    assert (tmp_path / "docs" / f"{'1' * 24}.json").read_text() == "mine"


def test_a_tag_that_is_a_link_makes_no_file(project: Path, memory: Path, tmp_path: Path) -> None:
    memory.mkdir()
    (memory / "CACHEDIR.TAG").symlink_to(tmp_path / "made")
    check_paths([project], OPTIONS, cached=True)
    assert not (tmp_path / "made").exists()
    assert list(memory.rglob("*/*.json")), "and what was found is kept"


@pytest.mark.skipif(os.name != "posix", reason="POSIX files")
def test_a_pipe_that_is_named_is_read_once(project: Path, memory: Path) -> None:
    os.mkfifo(project / "pipe.py")
    writer = subprocess.Popen(["cp", project / "step.py", project / "pipe.py"])
    command = [sys.executable, "-m", "shardlint", "check", "--select=SL2", str(project / "pipe.py")]
    assert subprocess.run(command, stdout=subprocess.PIPE, timeout=120).returncode == 1
    assert writer.wait(120) == 0


@pytest.mark.longer
def test_what_is_known_of_many_projects_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:024x}.json" for number in range(1_500)]  # 45 projects have as many
    for name in names:
        store.Store(str(tmp_path)).save_data(name, {"name": name})
    assert all(store.Store(str(tmp_path)).load_data(name) == {"name": name} for name in names)
    monkeypatch.setattr(store, "_MOST_FILES", 1_000)
    store.Store(str(tmp_path)).save_data(names[0], {"name": "again"})
    kept = [name for name in names if store.Store(str(tmp_path)).load_data(name)]
    assert len(kept) in (750, 751)
    assert store.Store(str(tmp_path)).load_data(names[0]) == {"name": "again"}

"""Tests of explanations of exceptions: one for a program with a mistake, none for its correct twin or an unrelated
error.

A program of data/raised has `# at` at the line the explanation is for, `# says: PATTERN` of it, and after `# ok:` the
line its right twin has instead. A function of data/raising has the pattern as its docstring, and `# at` or its last line.
"""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from shardlint.run.raised.exception_report import ExplainedException, explain_exceptions, explanation_lines
from shardlint.run.raised.record import decode_exception

pytestmark = pytest.mark.longer

HERE = Path(__file__).parent
PROGRAMS = HERE / "data" / "raised"
STARTUP = HERE.parents[1] / "shardlint" / "run" / "startup" / "exception_record.py"
FUNCTION = re.compile(r'^def (\w+)\(\):\n    """(.*)"""\n((?:    .*\n|\n(?!\n))*)', re.MULTILINE)
RAISING = {
    f"{path.stem}-{found[1]}": (path, found)
    for path in sorted((HERE / "data" / "raising").glob("*.py"))
    for found in FUNCTION.finditer(path.read_text())
}
BAD = sorted(path.stem for path in PROGRAMS.glob("*.py"))
UNRELATED = sorted(path.stem for path in (PROGRAMS / "unrelated").glob("*.py"))
PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)


def twin(source: str) -> str:
    """The program without its mistake."""
    found = [re.sub(r"^(\s*).*# ok: (.*)$", r"\1\2", line) for line in source.splitlines()]
    return "\n".join(found) + "\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raised")
    programs = []
    for path in (*PROGRAMS.glob("*.py"), *(PROGRAMS / "unrelated").glob("*.py")):
        programs.append(folder / path.name)
        programs[-1].write_text(path.read_text())
    (folder / "raising").mkdir()
    for path in sorted((HERE / "data" / "raising").glob("*.py")):
        programs.append(folder / "raising" / path.name)
        programs[-1].write_text(path.read_text())
    for name in BAD:
        programs.append(folder / f"{name}_ok.py")
        programs[-1].write_text(twin((PROGRAMS / f"{name}.py").read_text()))
    flags = "--xla_force_host_platform_device_count=8"
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
    words = [PYTHON, str(HERE / "raise_all.py"), str(STARTUP), str(folder), *map(str, programs)]
    subprocess.run(words, env=env, check=True, timeout=600, capture_output=True)
    return folder


ENDINGS = """
import sys, threading
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))

def wrong():
    NamedSharding(mesh, P("date"))  # the line

how = sys.argv[1]
if how == "thread":
    thread = threading.Thread(target=wrong)
    thread.start()
    thread.join()
elif how == "caught":
    try:
        wrong()
    except ValueError:
        sys.exit(1)
elif how == "interrupted":
    try:
        wrong()
    finally:
        raise KeyboardInterrupt
elif how == "hook":
    sys.excepthook = lambda *given: None
    wrong()
"""


@pytest.mark.parametrize(("how", "code"), [("thread", 0), ("caught", 1), ("interrupted", None), ("hook", 1)])
def test_what_ends_a_program(tmp_path: Path, how: str, code: int | None) -> None:
    (tmp_path / "train.py").write_text(ENDINGS)
    words = ["run", "--report", "run.json", "--", PYTHON, "train.py", how]
    ended = subprocess.run(
        [sys.executable, "-m", "shardlint", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert code is None or ended.returncode == code
    report = json.loads((tmp_path / "run.json").read_text())["raised"]
    if how in ("caught", "interrupted"):
        assert report == []
        assert "explained" not in ended.stderr
        return
    (one,) = report
    assert (one["kind"], one["code"], one["line"], one["code_line"]) == ("axis-not-in-mesh", "SL301", 9, 9)
    assert one["thread"] == (how == "thread")
    # Under the traceback, where there is one.
    assert ended.stderr.index("ValueError at train.py:9 in wrong, explained:") >= ended.stderr.find(
        "Traceback"
    )
    assert 'Write "data"' in ended.stderr


CAUGHT = """
import logging, traceback
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("data",))
x = jnp.ones((8, 2))
compiled = jax.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
compiled(x)
for call in (lambda: compiled(x), lambda: jax.device_put(jnp.ones(3), NamedSharding(mesh, P("data")))):
    try:
        call()
    except Exception:
        traceback.print_exc()
        logging.exception("logged")
jax.pmap(lambda x, y: x + y)(x[:], jnp.float32(1))
"""


@pytest.mark.parametrize("command", [["run"], ["verify", "--init"]])
def test_the_traceback_has_no_frame_of_shardlint(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "train.py").write_text(CAUGHT)
    ended = subprocess.run(
        [sys.executable, "-m", "shardlint", *command, "--", PYTHON, "train.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.stderr.count("Traceback") >= 5
    assert str(Path("shardlint", "run")) not in ended.stderr


def test_the_traceback_of_a_test_has_no_frame_of_shardlint(tmp_path: Path) -> None:
    text = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

def test_put():
    jax.device_put(jnp.ones(3), NamedSharding(jax.make_mesh((8,), ("data",)), P("data")))
"""
    (tmp_path / "test_put.py").write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "shardlint", "run", "--", PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "test_put.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "test_put.py:6:" in ended.stdout
    assert str(Path("shardlint", "run")) not in ended.stdout


def test_reports_hold_the_explanation_of_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ENDINGS)
    words = ["run", "--report", "run.json", "--report", "run.html", "--", PYTHON, "train.py", "hook"]
    ended = subprocess.run(
        [sys.executable, "-m", "shardlint", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    (one,) = json.loads((tmp_path / "run.json").read_text())["raised"]
    assert "\n".join(one["text"]) in ended.stderr
    assert one["message"] in ended.stderr and one["message"]
    assert 'rite "data"' in one["help"]
    page = (tmp_path / "run.html").read_text()
    assert "ValueError at train.py:9 in wrong, explained:" in page and "SL301" in page


GATHERS = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("model",), axis_types=(jax.sharding.AxisType.Auto,))
w = jax.device_put(jnp.ones((64, 64)), NamedSharding(mesh, P(None, "model")))
step = jax.jit(lambda w: jax.lax.sort(w @ w, dimension=1).reshape(-1), out_shardings=NamedSharding(mesh, P()))
step(w)
"""


def test_the_report_holds_no_internal_keys(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GATHERS)
    words = ["run", "--large", "1", "--report", "run.json", "--report", "run.html", "--", PYTHON, "train.py"]
    subprocess.run([sys.executable, "-m", "shardlint", *words], cwd=tmp_path, capture_output=True, timeout=120)
    for name in ("run.json", "run.html"):
        text = (tmp_path / name).read_text()
        assert "all-gather" in text
        assert "|'model'" not in text and "|&#x27;model" not in text


TESTS = """
import jax, numpy as np, pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def build(axis):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    return NamedSharding(mesh, P(axis))

@pytest.mark.parametrize("axis", ["data", "model", "modle"])
def test_axis(axis):
    build(axis)

def test_axis_again():
    build("model")

def test_other():
    assert build("data") is None

def test_raises():
    with pytest.raises(ValueError):
        build("never")

@pytest.mark.xfail
def test_expected():
    build("nowhere")
"""


def test_tests_that_fail_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_axes.py").write_text(TESTS)
    words = [
        "run",
        "--report",
        "run.json",
        "--",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "shardlint", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1
    report = json.loads((tmp_path / "run.json").read_text())["raised"]
    assert [(one["tests"], one["line"]) for one in report] == [
        (["test_axes.py::test_axis[model]", "test_axes.py::test_axis_again"], 7),
        (["test_axes.py::test_axis[modle]"], 7),
    ]
    assert (
        "test_axes.py::test_axis[model] and 1 more: ValueError at test_axes.py:7 in build, explained:"
        in ended.stderr
    )


def told(folder: Path, name: str) -> list[ExplainedException]:
    return explain_exceptions([decode_exception(json.loads((folder / f"{name}.json").read_text()))])


@pytest.mark.parametrize("name", BAD)
def test_explained(ran: Path, name: str) -> None:
    source = (ran / f"{name}.py").read_text()
    wanted = re.search(r"# says: (.*)", source)
    at = next(number for number, line in enumerate(source.splitlines(), 1) if "# at" in line)
    assert wanted is not None
    (one,) = told(ran, name)
    said = "\n".join(explanation_lines([one]))
    assert re.search(wanted[1], said, re.DOTALL), said
    assert one.user_frame.line == at, said


@pytest.mark.parametrize("name", UNRELATED)
def test_nothing_is_said_of_what_has_another_reason(ran: Path, name: str) -> None:
    assert not told(ran, name), "\n".join(explanation_lines(told(ran, name)))


@pytest.mark.parametrize("name", BAD)
def test_the_right_twin_runs(ran: Path, name: str) -> None:
    ended = json.loads((ran / "ended").read_text())
    assert ended[str(ran / f"{name}_ok.py")] == ""


@pytest.mark.parametrize("name", RAISING)
def test_what_the_call_got_is_told(ran: Path, name: str) -> None:
    path, function = RAISING[name]
    wanted = ast.literal_eval(f'"""{function[2]}"""')
    explanations = told(ran, name)
    said = "\n".join(explanation_lines(explanations))
    assert re.search(wanted, said, re.DOTALL), said
    marked = [at for at, line in enumerate(function[0].splitlines()) if line.endswith("# at")]
    first = path.read_text()[: function.start()].count("\n") + 1
    at = marked[0] if marked else len(function[0].rstrip().splitlines()) - 1
    frame = explanations[0].user_frame
    assert frame.line <= first + at <= frame.end or not marked, said


def test_every_raise_statement_about_layouts_is_explained() -> None:
    names = runpy.run_path(str(HERE.parents[1] / "scripts" / "raising_sites.py"), run_name="sites")
    sites = [site for package in names["PACKAGES"] for site in names["raising_sites"](package)]
    assert len(sites) > 100
    assert not [(site.file, site.text[:80]) for site in sites if not names["is_explained"](site)]

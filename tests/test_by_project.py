"""SL315: which blocks move, what keeps the others, and the one line that a report says of a project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.cli.main import main
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.output import json_, text
from shardlint.rules_api.rule import Finding

Write = Callable[..., Path]
HEAD = """\
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()), ("data",))


"""
TARGET = {"jax": "0.12.0"}
NOT_HOST = "may be called inside jit, where jax.set_mesh raises"


def found(root: Path) -> list[Finding]:
    report = check_paths([root], Options(select=("SL315",), targets=TARGET))
    return [finding for file in report.reports for finding in file.findings]


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    with MESH:\n        x = jax.device_put(x, NamedSharding(MESH, P('data')))\n"
        "        jax.block_until_ready(x)\n",
        "def f(x):\n    start = time.time()\n    with MESH:\n        return x, start\n",
        "def helper(x):\n    return jax.jit(lambda x: x)(x)\n\n\ndef f(x):\n    with MESH:\n        return helper(x)\n",
        "def step(x):\n    return x\n\n\ndef f(x):\n    run = jax.jit(step)\n    with MESH:\n        return run(x)\n",
        "def make():\n    return Mesh(np.array(jax.devices()), ('x',))\n\n\n"
        "def f(x):\n    mesh = make()\n    with mesh:\n        return x\n",
        "def f(x, run):\n    with Mesh(np.array(jax.devices()), ('x',)):\n        return run(x)\n",
        "def main(run):\n    with MESH:\n        return run()\n",
        "class Trainer:\n    def _fit(self):\n        with MESH:\n            return 1\n\n\n"
        "def main():\n    t = Trainer()\n    t._fit()\n\n\nmain()\n",
        "def f(step, x):\n    with MESH:\n        return step.lower(x).compile()\n",
    ],
    ids=[
        "waits",
        "clock",
        "helper jits",
        "jits",
        "mesh of a function",
        "mesh in the header",
        "main",
        "method",
        "compiles",
    ],
)
def test_host_code_moves(write: Write, code: str) -> None:
    (finding,) = found(write({"x.py": HEAD + code, "pyproject.toml": ""}))
    assert finding.fix is not None, finding.help


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def f(x):\n    with MESH:\n        return x + 1\n", NOT_HOST),
        ("class M:\n    def __call__(self, x):\n        with MESH:\n            return x + 1\n", NOT_HOST),
        (
            "def f(x):\n    with MESH:\n        return x + 1\n\n\ng = jax.jit(f)\n",
            "raises inside jit",
        ),
        (
            "def f(x):\n    mesh = jax.make_mesh((8,), ('x',))\n    with mesh:\n        return x\n",
            "has axes that are not Auto",
        ),
    ],
)
def test_other_code_stays(write: Write, code: str, why: str) -> None:
    (finding,) = found(write({"x.py": HEAD + code, "pyproject.toml": ""}))
    assert finding.fix is None
    assert why in finding.help
    assert finding.obstacles is not None and len(finding.obstacles) == 1
    assert finding.obstacles[0].startswith("x.py:")


def test_which_mesh_need_not_be_known_where_all_have_auto_axes(write: Write) -> None:
    code = "from jax.sharding import Mesh\n\n\ndef main(mesh: Mesh, run):\n    with mesh:\n        return run()\n"
    (finding,) = found(write({"a/x.py": code, "a/pyproject.toml": ""}).joinpath("a"))
    assert finding.fix is None and "shardlint does not see where" in finding.help
    meshes = "import x\n" + HEAD + "x.main(MESH, print)\n"
    (finding, *_) = found(write({"b/x.py": code, "b/y.py": meshes, "b/pyproject.toml": ""}).joinpath("b"))
    assert finding.fix is not None, finding.help


def test_an_annotated_field_is_a_mesh(write: Write) -> None:
    code = "class T:\n    mesh: Mesh\n\n    def run(self):\n        with self.mesh:\n            return time.time()\n"
    (finding,) = found(write({"x.py": HEAD + code, "pyproject.toml": ""}))
    assert finding.fix is not None, finding.help


SAID = {
    "field of a base": "class B:\n    mesh: Mesh\n\n\nclass T(B):\n    def run(self):\n        with self.mesh:\n            time.time()\n",
    "property": "class T:\n    @property\n    def mesh(self) -> Mesh:\n        return REG['a']\n\n    def run(self):\n        with self.mesh:\n            time.time()\n",
    "property of what is held": "class M:\n    mesh: Mesh\n\n\nclass T:\n    def __init__(self, model: M):\n        self.model = model\n\n    @property\n    def mesh(self):\n        return self.model.mesh\n\n    def run(self):\n        with self.mesh:\n            time.time()\n",
    "field of an object": "class C:\n    mesh: 'Mesh'\n\n\ndef main(cfg: C):\n    with cfg.mesh:\n        time.time()\n",
    "name in __init__": "class T:\n    def __init__(self, reg):\n        self.mesh: Mesh = reg['a']\n\n    def run(self):\n        with self.mesh:\n            time.time()\n",
    "method": "class T:\n    def get_mesh(self) -> Mesh:\n        return REG['a']\n\n    def run(self):\n        with self.get_mesh():\n            time.time()\n",
    "function": "def get(n) -> Mesh:\n    return REG[n]\n\n\ndef main():\n    found = get(1)\n    with found:\n        time.time()\n",
    "part of a result": "def get(n) -> tuple[Mesh, int]:\n    return REG[n]\n\n\ndef main():\n    m, n = get(1)\n    with m:\n        time.time()\n",
    "name": "def main():\n    m: Mesh = REG[1]\n    with m:\n        time.time()\n",
    "may be None": "def main(m: Mesh | None = None):\n    if m is None:\n        m = MESH\n    with m:\n        time.time()\n",
    "callers": "def run(mesh):\n    with mesh:\n        time.time()\n\n\ndef main():\n    run(MESH)\n",
    "callers of callers": "class T:\n    def __init__(self, mesh):\n        self.mesh = mesh\n\n    def run(self):\n        with self.mesh:\n            time.time()\n\n\ndef build(mesh):\n    return T(mesh)\n\n\ndef main():\n    build(mesh=MESH)\n",
}  # fmt: skip
NOT_SAID = {
    "no annotation": "class T:\n    @property\n    def mesh(self):\n        return REG['a']\n\n    def run(self):\n        with self.mesh:\n            time.time()\n",
    "several": "def main(*meshes: Mesh):\n    with meshes:\n        time.time()\n",
    "another class": "class Mesh:\n    pass\n\n\ndef main(mesh: Mesh):\n    with mesh:\n        time.time()\n",
    "one of two": "def main(a):\n    mesh: Mesh = REG[1]\n    if a:\n        mesh = REG[2]()\n    with mesh:\n        time.time()\n",
    "or another manager": "import contextlib\n\n\ndef main(mesh: Mesh | None):\n    if mesh is None:\n        mesh = contextlib.nullcontext()\n    with mesh:\n        time.time()\n",
    "another caller": "def run(mesh):\n    with mesh:\n        time.time()\n\n\ndef main(other):\n    run(MESH)\n    run(other)\n",
    "another name": "def run(manager):\n    with manager:\n        time.time()\n\n\ndef main():\n    run(MESH)\n",
    "another part": "def get(n) -> tuple[Mesh, int]:\n    return REG[n]\n\n\ndef main():\n    n, m = get(1)\n    with m:\n        time.time()\n",
    "a tuple": "def get(n) -> tuple[Mesh, int]:\n    return REG[n]\n\n\ndef main():\n    with get(1):\n        time.time()\n",
    "a coroutine": "async def get(n) -> Mesh:\n    return REG[n]\n\n\ndef main():\n    with get(1):\n        time.time()\n",
    "a subclass's own": "class B:\n    mesh: Mesh\n\n\nclass T(B):\n    def __init__(self):\n        self.mesh = REG['a']\n\n    def run(self):\n        with self.mesh:\n            time.time()\n",
}  # fmt: skip


@pytest.mark.parametrize("code", SAID.values(), ids=SAID)
def test_what_the_text_says_is_a_mesh(write: Write, code: str) -> None:
    (finding,) = found(write({"x.py": HEAD + "REG = load()\n" + code, "pyproject.toml": ""}))
    assert finding.fix is not None, finding.help


@pytest.mark.parametrize("code", NOT_SAID.values(), ids=NOT_SAID)
def test_what_it_does_not_say(write: Write, code: str) -> None:
    assert not found(write({"x.py": HEAD + "REG = load()\n" + code, "pyproject.toml": ""}))


SHARDED = "import contextlib\n\n\n@contextlib.contextmanager\ndef sharded():\n    start = time.time()\n    with MESH as mesh:\n        yield mesh, start\n\n\n"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def main(x):\n    with sharded():\n        return jax.jit(lambda a: a)(x)\n", ""),
        ("def main(x):\n    with sharded() as entered:\n        return put(x)\n\n\n"
         "def put(x):\n    return jax.device_put(x, jax.devices()[0])\n", "commits an array to one device"),
        ("def main(stack):\n    stack.enter_context(sharded())\n", "to unknown code"),
        ("", "to unknown code"),
    ],
    ids=["harmless", "one device", "not a with", "no user"],
)  # fmt: skip
def test_what_a_generator_yields_to_runs_in_its_block(write: Write, code: str, why: str) -> None:
    (finding,) = found(write({"x.py": HEAD + SHARDED + code, "pyproject.toml": ""}))
    assert (finding.fix is None) == bool(why) and why in finding.help, finding.help


FIXTURE = "import pytest\n\n\n@pytest.fixture{}\ndef entered():\n    with MESH as mesh:\n        yield mesh\n\n\n"


@pytest.mark.parametrize(
    ("name", "options", "test", "why"),
    [
        ("test_x.py", "", "def test_it(entered):\n    assert jax.jit(abs)(1)\n", ""),
        ("test_x.py", "", "def test_it(entered):\n    jax.device_put(1, jax.devices()[0])\n", "commits an array to one device"),
        ("test_x.py", "", "def test_it():\n    jax.device_put(1, jax.devices()[0])\n", ""),
        ("test_x.py", "", "@pytest.fixture\ndef two(entered):\n    return 2\n\n\n"
         "def test_it(two):\n    jax.device_put(1, jax.devices()[0])\n", "commits an array to one device"),
        ("test_x.py", "(autouse=True)", "def test_it():\n    pass\n", "to unknown code"),
        ("test_x.py", "", "@pytest.mark.usefixtures('entered')\ndef test_it():\n    pass\n", "to unknown code"),
        ("conftest.py", "", "", "to unknown code"),
    ],
)  # fmt: skip
def test_tests_run_in_the_block_of_a_fixture(write: Write, name: str, options: str, test: str, why: str) -> None:
    (finding,) = found(write({name: HEAD + FIXTURE.format(options) + test, "pyproject.toml": ""}))
    assert (finding.fix is None) == bool(why) and why in finding.help, finding.help


def test_an_abstract_mesh_is_never_entered(write: Write) -> None:
    code = (
        "def shape(sizes, types):\n    return jax.sharding.AbstractMesh(sizes, ('x',), axis_types=types)\n\n\n"
        "def main(mesh: Mesh):\n    with mesh:\n        time.time()\n"
    )
    (finding,) = found(write({"x.py": HEAD + code, "pyproject.toml": ""}))
    assert finding.fix is not None, finding.help


def test_either_of_two_meshes(write: Write) -> None:
    code = "OTHER = Mesh(np.array(jax.devices()), ('x',))\n\n\ndef main(a):\n    m = OTHER if a else MESH\n    with m:\n        print()\n"
    (finding,) = found(write({"x.py": HEAD + code, "pyproject.toml": ""}))
    assert finding.fix is not None, finding.help


MANY = "".join(f"def main_{n}(run):\n    with MESH:\n        return run()\n\n\n" for n in range(3))
SOME = "".join(f"def f{n}(run):\n    t = time.time()\n    with MESH:\n        return run(), t\n\n\n" for n in range(2))


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr("sys.argv", ["shardlint", *arguments, "--target", "jax=0.12.0"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr()
    return out.out + out.err


def test_one_line_a_project(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"x.py": HEAD + MANY + SOME, "pyproject.toml": ""})
    line = "in 5 places in 1 file; `shardlint fix --unsafe-fixes` moves 2; obstacles: 3"
    for _ in range(2):  # also what is remembered
        out = said(capsys, monkeypatch, "check", str(root))
        assert out.count("legacy-mesh-context") == 1 and line in out
        assert "`--select SL315` shows each place" in out and "5 findings" in out
    asked = said(capsys, monkeypatch, "check", "--select", "SL315", str(root))
    assert asked.count("legacy-mesh-context") == 5
    fixed = said(capsys, monkeypatch, "fix", "--diff", "--unsafe-fixes", str(root))
    assert fixed.count("+    with jax.set_mesh(MESH):") == 2
    assert fixed.count("legacy-mesh-context") == 3
    concise = said(capsys, monkeypatch, "check", "--output-format", "concise", str(root))
    assert concise.count("legacy-mesh-context") == 5
    report = check_paths([root], Options(targets=TARGET))
    assert len(json_.report_document(report)["findings"]) == 5
    assert sum("legacy-mesh" in part for part in text.full_report(report)) == 1


def test_few_are_told_in_their_places(write: Write) -> None:
    report = check_paths([write({"x.py": HEAD + SOME, "pyproject.toml": ""})], Options(targets=TARGET))
    assert sum("legacy-mesh" in part for part in text.full_report(report)) == 2


def test_all_obstacles_of_a_joint_move(write: Write) -> None:
    """The help names the first few; the list is whole, and told once for all files."""
    head = HEAD + "from jax.interpreters.pxla import thread_resources\nimport a\n\n\n"
    reads = "".join(f"def main{n}():\n    return thread_resources.env.physical_mesh.devices\n\n\n" for n in range(5))
    block = "\n\ndef main():\n    with MESH:\n        time.time()\n"
    root = write({"a.py": HEAD + block, "b.py": head + reads + block, "pyproject.toml": ""})
    findings = found(root)
    assert [finding.fix for finding in findings] == [None, None]
    assert "and 2 more" in findings[0].help
    report = check_paths([root], Options(select=("SL315",), targets=TARGET))
    whole = "\n".join(text.full_report(report, frozenset(("SL315",))))
    assert whole.count("b.py:") > 5 and "in 2 places in 2 files; `shardlint fix` moves none; obstacles: 5" in whole
    for finding in findings:
        assert finding.obstacles is not None and len(finding.obstacles) == 5
        assert all(one.startswith("b.py:") for one in finding.obstacles)


def test_a_reason_that_is_given_twice_is_told_once() -> None:
    """By the plan for the project, with the statement, and by the finding of the same place."""
    from shardlint.output.by_project import Group

    class One:
        obstacles = ("a.py:3: `with self.mesh:`: it is traced code", "a.py:3: it is traced code", "a.py:4: it is traced code")

    group = Group(".", [One()])  # type: ignore[list-item]
    assert group.fix_obstacles == ["a.py:3: `with self.mesh:`: it is traced code", "a.py:4: it is traced code"]


HALIAX = HEAD + """\
import haliax as hax

with MESH, hax.axis_mapping({"batch": "data"}):
    x = hax.shard(hax.ones(hax.Axis("batch", 8)))
"""


@pytest.mark.parametrize(
    ("requirement", "count"),
    [("haliax", 1), ("haliax>=1.4.dev348", 1), ("haliax==1.3", 0), ("haliax==1.4.dev348", 0)],
)
def test_a_block_with_haliax_moves_unless_haliax_may_be_older(write: Write, requirement: str, count: int) -> None:
    findings = found(write({"x.py": HALIAX, "requirements.txt": f"{requirement}\n"}))
    assert [one.fix is not None for one in findings] == [True] * count

"""The pytest plugin, in real runs of pytest and pytest-xdist."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify.fixture_files import makes_fixtures
from shardlint.verify.pytest_nodes import _has_tests
from tests.programs import skip_without

skip_without("jax")
pytestmark = pytest.mark.longer

REGISTERED = any(point.name == "shardlint" for point in importlib.metadata.entry_points(group="pytest11"))
# An environment whose editable install is older than the entry point.
PLUGIN = [] if REGISTERED else ["-p", "shardlint.pytest_plugin"]

FILES = {
    "pyproject.toml": """\
        [tool.pytest.ini_options]
        testpaths = ["tests"]
        addopts = "--strict-markers"

        [[tool.shardlint.verify]]
        name = "plain"
        fn = "proj.train:double"
        meshes = [{data = 2}]
        args = [{shape = [8], spec = "P('data')"}]
        out = {"" = "P('data')"}
        """,
    "proj/__init__.py": "",
    "proj/train.py": """\
        import jax


        @jax.jit
        def double(x):
            return x * 2
        """,
    "tests/test_sharding.py": """\
        import jax  # a file that has nothing but fixtures is not imported by pytest itself

        from shardlint.verify import Fixture, P, arg

        X = arg(shape=(8,), spec=P("data"))
        double = Fixture("proj.train:double", [{"data": 4, "model": 2}, {"data": 3}], [X], out={"": P("data")})
        wrong = Fixture("proj.train:double", [{"data": 2}], [X], out={"": P()}, reference="single_device")
        odd = Fixture("proj.train:double", [{"data": 3}], [X], out={"": P("data")})
        nowhere = Fixture("proj.train:double", ["all:8"], [arg(shape=(8,))], out={"": P()})
        """,
    "tests/test_plain.py": """\
        import sys

        from shardlint.verify import Fixture, P, arg

        mixed = Fixture(
            "proj.train:double", [{"data": 2}], [arg(shape=(8,), spec=P("data"))], out={"": P("data")}, execute=False
        )


        def test_nothing_is_imported():
            assert "shardlint.verify.inside" not in sys.modules
            assert "jax" not in sys.modules
            assert "libcst" not in sys.modules
        """,
    "proj/fixtures.py": """\
        from shardlint import verify

        beside = verify.Fixture(
            "proj.train:double", [{"data": 2}], [verify.arg(shape=(8,))], replicated_bytes_max="1KiB"
        )
        """,
}
IDS = [
    "tests/test_plain.py::test_nothing_is_imported",
    "tests/test_plain.py::mixed[data=2-compile]",
    "tests/test_sharding.py::double[data=4,model=2-compile]",
    "tests/test_sharding.py::double[data=4,model=2-execute]",
    "tests/test_sharding.py::double[data=3-compile]",
    "tests/test_sharding.py::double[data=3-execute]",
    "tests/test_sharding.py::wrong[data=2-compile]",
    "tests/test_sharding.py::wrong[data=2-execute]",
    "tests/test_sharding.py::odd[data=3-compile]",
    "tests/test_sharding.py::odd[data=3-execute]",
    "tests/test_sharding.py::nowhere",
]
MORE = [
    f"{fixture}[data=2-{level}]"
    for fixture in ("pyproject.toml::plain", "proj/fixtures.py::beside")
    for level in ("compile", "execute")
]

Pytest = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Pytest:
    """Run pytest in a project of these files (FILES without any)."""

    def invoke(*arguments: str, files: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        for name, text in (FILES if files is None else files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text), "utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pytest", *PLUGIN, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTEST_ADDOPTS": "", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    return invoke


def outcomes(output: str) -> dict[str, str]:
    """The outcome of each test, from the lines of `-v`, with xdist or without."""
    found = re.findall(r"^(\S+::.+?) (PASSED|FAILED|SKIPPED|ERROR)\b", output, re.MULTILINE)
    found += [
        (name, word)
        for word, name in re.findall(
            r"^\[gw\d\] .*?(PASSED|FAILED|SKIPPED|ERROR) (\S+)", output, re.MULTILINE
        )
    ]
    return dict(found)


def expected(ids: list[str]) -> dict[str, str]:
    skipped = ("double[data=3", "odd[")
    return {
        name: "FAILED"
        if "::wrong" in name or "::nowhere" in name
        else "SKIPPED"
        if any(part in name for part in skipped)
        else "PASSED"
        for name in ids
    }


def test_fixtures_are_tests(run: Pytest) -> None:
    done = run("-v", "-rs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert outcomes(done.stdout) == expected(IDS), done.stdout
    assert list(outcomes(done.stdout)) == IDS, "in the order of the file"
    assert "FAIL proj.train:double  mesh data=2  level execute" in done.stdout
    assert (
        "  out s32[8]  expected P()" in done.stdout
        or "  out f32[8]  expected P()  got P('data')" in done.stdout
    )
    assert (
        "  rerun: shardlint verify tests/test_sharding.py::wrong --mesh data=2 --level compile" in done.stdout
    )
    assert (
        "tests/test_sharding.py: args[0]: dimension 0 of size 8 is not divisible by data = 3" in done.stdout
    )
    assert "needs axis names, but no spec of the fixture names one" in done.stdout
    assert "FAILED tests/test_sharding.py::odd - checks nothing: it was skipped everywhere" in done.stdout
    assert "Traceback" not in done.stdout
    assert "pytest_nodes.py" not in done.stdout, "failures are the report, not our own lines"

    again = run("-v", "--lf", "-k", "compile")
    assert again.returncode == 1
    assert outcomes(again.stdout) == {"tests/test_sharding.py::wrong[data=2-compile]": "FAILED"}, again.stdout


def test_everything_under_xdist(run: Pytest) -> None:
    pytest.importorskip("xdist")
    done = run("-v", "-n", "2", "--shardlint")
    assert done.returncode == 1, done.stdout + done.stderr
    assert outcomes(done.stdout) == expected([*IDS, *MORE]), done.stdout
    assert "FAIL proj.train:double  mesh data=2  level execute" in done.stdout
    assert "FAILED tests/test_sharding.py::odd - checks nothing: it was skipped everywhere" in done.stdout


def test_files_the_settings_of_pytest_name(run: Pytest) -> None:
    files = {
        **FILES,
        "pyproject.toml": FILES["pyproject.toml"].replace(
            "addopts", 'shardlint_fixtures = ["proj/fix*.py"]\n        addopts'
        ),
    }
    done = run("-q", "--collect-only", files=files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "::" in line] == [*IDS, *MORE[2:]]


def test_a_failed_self_test_is_an_error(run: Pytest, tmp_path: Path) -> None:
    conftest = """\
        from pathlib import Path

        from shardlint.verify import pytest_nodes
        from shardlint.verify.cannot_run import CannotRun

        def missed(runner):
            with Path("asked").open("a") as file:
                file.write("once ")
            raise CannotRun("the self-test failed, so no result of this run can be trusted:\\n  a fault was missed")

        pytest_nodes.check_self = missed
        """
    files = {**FILES, "conftest.py": conftest}
    asked = ("pyproject.toml::plain", "tests/test_sharding.py::odd")
    done = run("-v", *asked, "--shardlint-level", "compile", "-m", "shardlint", files=files)
    assert done.returncode == 1, done.stdout + done.stderr
    ids = ["pyproject.toml::plain[data=2-compile]", "tests/test_sharding.py::odd[data=3-compile]"]
    assert outcomes(done.stdout) == dict.fromkeys(ids, "ERROR")
    assert "self-test failed, so no result of this run can be trusted" in done.stdout
    assert (tmp_path / "asked").read_text() == "once "
    assert "skipped everywhere" not in done.stdout, "it was not run"


def test_broken_files_are_errors_of_collection(run: Pytest) -> None:
    files = {
        "pyproject.toml": "[[tool.shardlint.verify]]\nname = 'x'\nfn = 'double'\nmeshes = [{data = 2}]\n",
        "test_raises.py": "from shardlint.verify import Fixture\n\nstep = Fixture(fn='a:b', meshes=[])\n",
        "test_syntax.py": "from shardlint.verify import Fixture\nstep = Fixture(\n",
        "test_good.py": "def test_good():\n    pass\n",
    }
    done = run("--shardlint", files=files)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "pyproject.toml: tool.shardlint.verify[0] (x): fn is 'double'; write a reference such as" in (
        done.stdout + done.stderr
    )
    files["pyproject.toml"] = ""
    done = run("--continue-on-collection-errors", files=files)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed, 2 errors" in done.stdout
    assert "raised TypeError: Fixture meshes must be a list such as" in done.stdout
    assert "at test_raises.py:3 in <module>" in done.stdout
    assert "SyntaxError" in done.stdout
    assert "test_syntax.py, line 2" in done.stdout
    assert "_nodes.py" not in done.stdout


def test_wrong_options(run: Pytest) -> None:
    done = run("--shardlint-level", "most")
    assert done.returncode == 4
    assert "--shardlint-level is 'most'; write one of trace, compile, execute" in done.stderr
    for seconds in ("0", "nan", "inf"):
        done = run("--shardlint-timeout", seconds)
        assert done.returncode == 4
        assert f"--shardlint-timeout: {seconds} is not a time limit; write seconds" in done.stderr
    done = run("-c", "other.ini", files={**FILES, "other.ini": "[pytest]\nshardlint_fixtures = nofile.py\n"})
    assert done.returncode == 4
    assert "shardlint_fixtures: nofile.py matches no file below" in done.stderr


def test_it_does_nothing_for_others(run: Pytest) -> None:
    files = {
        "test_one.py": """\
            import sys


            def test_one(request):
                loaded = [name for name in sys.modules if name.startswith("shardlint")]
                assert loaded in (["shardlint", "shardlint.pytest_plugin"], ["shardlint.pytest_plugin", "shardlint"]), loaded
                assert "jax" not in sys.modules and "libcst" not in sys.modules
            """,
        "test_mention.py": """\
            '''This one speaks of shardlint, and makes no fixture.'''


            def test_two():
                pass
            """,
        "pyproject.toml": "[tool.shardlint]\nselect = ['SL2']\n",
    }
    done = run("-q", "test_one.py", files=files)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run("-q", files=files)
    assert "1 passed" in done.stdout or "2 passed" in done.stdout, done.stdout
    if REGISTERED:
        done = run("-q", "-p", "no:shardlint", "--collect-only", files=FILES)
        assert done.stdout.splitlines()[0] == IDS[0]
        assert "double[" not in done.stdout


def test_loading_it_loads_nothing_else() -> None:
    code = """
    import sys, pytest, shardlint
    before = set(sys.modules)
    import shardlint.pytest_plugin
    print(*sorted(set(sys.modules) - before))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["shardlint.pytest_plugin"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from shardlint.verify import Fixture\na = Fixture('a:b', [])", True),
        ("from shardlint.verify import Fixture as F\nif x:\n    a = {'k': [F('a:b', [])]}", True),
        ("import shardlint.verify\na = shardlint.verify.Fixture('a:b', [])", True),
        ("import shardlint.verify as v\nfor x in y:\n    a = v.Fixture('a:b', [])", True),
        ("from shardlint import verify\na = verify.Fixture('a:b', [])", True),
        ("from shardlint.verify.fixture import Fixture\na = Fixture('a:b', [])", True),
        ("from shardlint.verify import Fixture\ndef test():\n    a = Fixture('a:b', [])", False),
        ("from shardlint.verify import Fixture\nclass A:\n    a = Fixture('a:b', [])", False),
        ("from shardlint.verify import Fixture\na = lambda: Fixture('a:b', [])", False),
        ("from shardlint.verify import P\nfrom other import Fixture\na = Fixture('a:b', [])", False),
        ("'shardlint.verify'\na = Fixture('a:b', [])", False),
        ("import shardlint.verify\n(", True),
        ("'shardlint'\n(", False),
        ("import shardlint.verify\n\0", True),
    ],
)
def test_which_files_make_fixtures(source: str, found: bool) -> None:
    assert makes_fixtures(source.encode()) is found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("a = Fixture(1)\nclass Model(eqx.Module):\n    pass\ndef helper():\n    pass", False),
        ("test_a = Fixture(1)\ntest_b = verify.Fixture(1)", False),
        ("def test_a():\n    pass", True),
        ("async def test_a():\n    pass", True),
        ("class TestA:\n    pass", True),
        ("class A(unittest.TestCase):\n    pass", True),
        ("class A(absltest.TestCase, metaclass=B):\n    pass", True),
        ("from other import test_a", True),
        ("from other import thing as test_a", True),
        ("from other import *", True),
        ("test_a = make()", True),
        ("if x:\n    def test_a():\n        pass", True),
    ],
)
def test_which_files_are_pytests_own_too(source: str, found: bool) -> None:
    class Config:
        def getini(self, name: str) -> list[str]:
            return {"python_functions": ["test"], "python_classes": ["Test"]}[name]

    config: Any = Config()
    assert _has_tests(source.encode(), config) is found


PROGRAM = """\
    import jax, jax.numpy as jnp, numpy as np, pytest
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("data",))


    @jax.jit
    def step(w, x):
        y = x @ w
        {constrain}
        return y


    @pytest.mark.parametrize("rows", [1024, 1536, 2048])
    def test_step(rows):
        w = jax.device_put(jnp.ones((512, 512)), NamedSharding(mesh, P()))
        assert step(w, jax.device_put(jnp.ones((rows, 512)), NamedSharding(mesh, P("data")))).shape


    def test_nothing():
        assert len(jax.devices()) == 8
    """
_LOST = 'jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data")))'


@pytest.mark.skipif(sys.platform == "win32", reason="`shardlint run` reports less there")
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_session_under_run_names_tests(run: Pytest, workers: tuple[str, ...]) -> None:
    files = {"pyproject.toml": "", "test_step.py": PROGRAM.format(constrain=_LOST)}
    done = run("-q", "--shardlint-run-strict", *workers, files=files)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "test_step.py:10: discarded in step (SL203)" in done.stderr
    named = re.search(r"^ +in: (.*) and 1 more$", done.stderr, re.MULTILINE)
    assert named and named[1].count("test_step.py::test_step[") == 2
    assert "test_nothing" not in done.stderr
    if not workers:
        assert run("-q", "--shardlint-run", files=files).returncode == 0


def test_a_session_under_run_without_mistakes(run: Pytest) -> None:
    files = {"pyproject.toml": "", "test_step.py": PROGRAM.format(constrain=f"y = {_LOST}")}
    done = run("-q", "--shardlint-run-strict", files=files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no findings; the program exited with 0" in done.stderr

"""Tests of regressions between two verifications, and of `fix --verify`, which reverts fixes that cause one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.verify.facts import Array, Collective, Line, Program
from shardlint.verify.regressions import worse_fixtures
from shardlint.verify.report import FAIL, PASS, Failure, Result
from tests.conftest import PACK
from tests.programs import skip_without

pytestmark = pytest.mark.longer

Write = Callable[..., Path]
MESH = {"data": 4}


def array(size: int, aliased: bool | None = None) -> Array:
    return Array("out", "out[0]", "0", "f32[8]", (8,), f"P{size}", size, 32, 32 // size, aliased=aliased)


def gather(function: str, size: int) -> Collective:
    return Collective("all-gather", ("data",), 4, "f32[8]", size, 1, Line("a.py", 3, function))


def told(
    status: str = PASS, failures: list[Failure] | None = None, level: str = "compile", **what: object
) -> Result:
    return Result("f", level, status, MESH, failures=failures or [], fixture="fx.py::f", **what)  # type: ignore[arg-type]


def program(*arrays: Array, moved: tuple[Collective, ...] = ()) -> Program:
    return Program(MESH, "cpu", arrays, moved)


RAISED = Failure("raised", "NameError")
WRONG = Failure("sharding", "", "out[0]")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param(told(), told(), "", id="same"),
        pytest.param(told(), told(FAIL, [WRONG]), "fails: out[0] on data=4", id="fails"),
        pytest.param(told(FAIL, [WRONG]), told(FAIL, [WRONG]), "", id="failed-before"),
        pytest.param(told(FAIL, [RAISED]), told(FAIL, [WRONG]), "", id="raised-before"),
        pytest.param(told(FAIL, [WRONG]), told(FAIL, [WRONG, RAISED]), "fails: NameError", id="raises-too"),
        pytest.param(
            told(program=program(array(8))), told(program=program(array(32))),
            "loses a sharding: out[0] is P32, and was P8", id="sharding",
        ),
        pytest.param(told(program=program(array(32))), told(program=program(array(8))), "", id="sharded-now"),
        pytest.param(
            told(program=program(array(8, True))), told(program=program(array(8, False))),
            "drops a donation: 0 buffers are reused, and 1 were", id="donation",
        ),
        pytest.param(
            told(program=program(moved=(gather("f", 8), gather("g", 64)))),
            told(program=program(moved=(gather("f", 16),))), "adds communication in f: 16 B, before 8 B", id="moved",
        ),
        pytest.param(
            told(program=program(moved=(gather("f", 8),))), told(program=program()), "", id="moves-less",
        ),
        pytest.param(
            told(sketch={"": ["float32", [4], 0, 1.0, 0.5, 0.2]}), told(sketch={"": ["float32", [4], 0, 1.0, 0.5000001, 0.2]}),
            "", id="rounding",
        ),
        pytest.param(
            told(sketch={"": ["float32", [4], 0, 1.0, 0.5, 0.2]}), told(sketch={"": ["float32", [4], 0, 1.0, 0.4, 0.2]}),
            "other numbers: out on data=4", id="numbers",
        ),
        pytest.param(
            told(sketch={"": ["int32", [4], 0, 9e9, 0.5, 0.2]}), told(sketch={"": ["int32", [4], 0, 9e9, 0.5, 0.1]}),
            "other numbers: out", id="integers",
        ),
        pytest.param(
            told(sketch={"a": ["float32", [1], 0, 1.0, 1.0, 1.0]}), told(sketch={"b": ["float32", [1], 0, 1.0, 1.0, 1.0]}),
            "other numbers: out a, out b", id="other-results",
        ),
    ],
)  # fmt: skip
def test_what_is_worse(before: Result, after: Result, said: str) -> None:
    found = worse_fixtures([before], [after])
    assert said in "; ".join(found.get("fx.py::f", []))
    assert bool(found) is bool(said)


def called(size: int, given_up: int = 1) -> Result:
    return told(level="execute", laid={"": ["out", f"P{size}", 32, 32 // size]}, given_up=given_up)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (called(8), called(8), []),
        (called(1), called(8), []),
        (called(8), called(1), ["loses a sharding: out is P1, and was P8 on data=4"]),
        (called(8), called(8, 0), ["drops a donation: 0 arrays are donated, and 1 were on data=4"]),
        (called(8, 0), called(8), []),
        (called(8), told(level="execute"), []),
    ],
)
def test_a_call_shows_layouts_and_donations(before: Result, after: Result, said: list[str]) -> None:
    assert worse_fixtures([before], [after]).get("fx.py::f", []) == said


def test_what_two_levels_see_is_said_once() -> None:
    before = [told(program=program(array(8, True))), called(8)]
    after = [told(program=program(array(8, False))), called(8, 0)]
    assert worse_fixtures(before, after) == {
        "fx.py::f": ["drops a donation: 0 buffers are reused, and 1 were on data=4"]
    }


def test_a_level_that_is_not_reached_is_worse() -> None:
    assert worse_fixtures([told()], []) == {"fx.py::f": ["level compile is not reached"]}
    assert worse_fixtures([], [told(FAIL, [WRONG])]) == {}, "there was nothing to compare with"


TRAIN = """\
import jax
import numpy as np


def step(x):
    return 2 * x + jax.numpy.zeros(8)


def scale(x):
    return x * np.square(3)
"""
FIXTURES = """\
from shardlint.verify import Fixture, P, arg

step = Fixture(fn="train:step", meshes=[{"data": 2}], args=[arg(shape=(8,), spec=P("data"))], out={"": P("data")})
scale = Fixture(fn="train:scale", meshes=[{"data": 2}], args=[arg(shape=(8,), spec=P("data"))], out={"": P("data")})
"""


def fixed(root: Path, *options: str, select: str = "XT1,XT2") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shardlint", "fix", "--unsafe-fixes", "--verify", f"--select={select}", *options]
    environment = {**os.environ, "PYTHONPATH": str(PACK)}
    return subprocess.run(
        [*command, str(root)], text=True, capture_output=True, timeout=500, check=False, env=environment
    )


def test_what_changes_numbers_is_taken_back_and_the_rest_stays(write: Write) -> None:
    skip_without("jax")
    root = write({"train.py": TRAIN, "fx.py": FIXTURES})
    shown = fixed(root, "--diff")
    assert (root / "train.py").read_text() == TRAIN
    assert "+    return x * (3) ** 2" in shown.stdout and "ones" not in shown.stdout
    ran = fixed(root)
    assert (root / "train.py").read_text() == TRAIN.replace("np.square(3)", "(3) ** 2"), ran.stderr + ran.stdout
    assert "not fixed: shardlint verify: fx.py::step: other numbers: out on data=2" in ran.stdout
    assert ran.returncode == 1
    assert sorted(path.name for path in root.iterdir()) == ["fx.py", "setup.cfg", "train.py"]


STEPS = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


def whole(x):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P()))  # shardlint: ignore[XT401] it is meant


@jax.jit
def spread(x):
    return jax.lax.with_sharding_constraint(2 * x, NamedSharding(mesh, P("data")))


@jax.jit
def waves(x):
    return jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(mesh, P("data")))  # shardlint: ignore[XT401] kept


add = jax.jit(lambda state, x: state + x, donate_argnums=0)


@jax.jit
def fine(x):
    return x * np.square(3)
"""
OF_STEPS = """\
from shardlint.verify import Fixture, P, arg

mesh = [{"data": 2}]
whole, split = arg(shape=(8,)), arg(shape=(8,), spec=P("data"))
spread = Fixture("steps:spread", mesh, [whole], reference="plain:spread", context="none")
waves = Fixture("steps:waves", mesh, [split], reference="plain:waves", context="none")
add = Fixture("steps:add", mesh, [split, split], reference="plain:add", context="none")
fine = Fixture("steps:fine", mesh, [split], out={"": P("data")}, context="none")
"""
PLAIN_STEPS = """\
import numpy as np


def spread(x):
    return 2 * x


def waves(x):
    return np.sin(x)


def add(state, x):
    return state + x
"""


def test_what_no_fixture_declares_is_compared_too(write: Write) -> None:
    """A fixture of numbers alone still says where results lay, what was moved, and what was donated."""
    skip_without("jax")
    root = write({"steps.py": STEPS, "plain.py": PLAIN_STEPS, "fx.py": OF_STEPS})
    ran = fixed(root, select="XT4,XT201")
    after = (root / "steps.py").read_text()
    assert after == STEPS.replace("np.square(3)", "(3) ** 2"), ran.stderr + ran.stdout
    assert "fx.py::spread: loses a sharding: out is P(), and was P('data') on data=2" in ran.stdout
    assert "fx.py::waves: adds communication in waves: " in ran.stdout
    assert "fx.py::add: drops a donation: 0 buffers are reused, and 1 were on data=2" in ran.stdout
    assert ran.stdout.count("drops a donation") == 1, "what both levels see is said once"


def test_without_fixtures_that_is_said(write: Write) -> None:
    root = write({"train.py": TRAIN})
    ran = fixed(root)
    assert ran.returncode == 0
    assert "has no fixtures, so nothing was verified" in ran.stderr
    assert "ones(8)" in (root / "train.py").read_text()


def test_fixtures_that_cannot_be_run_are_told(write: Write) -> None:
    skip_without("jax")
    root = write({"train.py": "import nothing_like_it\n" + TRAIN, "fx.py": FIXTURES})
    ran = fixed(root)
    assert "fx.py::step cannot run before the fixes, so it was not verified: raised" in ran.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_in_the_middle_it_leaves_nothing(write: Write, tmp_path: Path, number: signal.Signals) -> None:
    skip_without("jax")
    runs = tmp_path / "runs"
    slow = TRAIN + f"\n\nimport time\n\nopen({str(runs)!r}, 'w').close()\ntime.sleep(100)\n"
    root, own = write({"train.py": slow, "fx.py": FIXTURES}), tmp_path / "own"
    own.mkdir()
    command = [sys.executable, "-m", "shardlint", "fix", "--unsafe-fixes", "--verify", "--select=XT1", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(PACK), "TMPDIR": str(own)}
    with subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE) as ran:
        while not runs.exists():
            assert ran.poll() is None
            time.sleep(0.1)
        assert list(own.glob("shardlint-fix-*/*/fx.py"))
        ran.send_signal(number)
        ran.communicate(timeout=60)
    assert ran.returncode not in (0, 1)
    assert [path.name for path in own.iterdir() if path.name.startswith("shardlint")] == []
    assert (root / "train.py").read_text() == slow


@pytest.mark.skipif(os.name != "posix", reason="an interpreter that is a script")
def test_fixtures_are_run_by_the_python_that_is_given(write: Write, tmp_path: Path) -> None:
    """Its environment has what the project needs, and shardlint's own need not."""
    skip_without("jax")
    given, asked = tmp_path / "given", tmp_path / "asked"
    given.write_text(f'#!/bin/sh\ntouch "{asked}"\nexec "{sys.executable}" "$@"\n')
    given.chmod(0o755)
    root = write({"train.py": TRAIN, "fx.py": FIXTURES})
    ran = fixed(root, "--python", str(given))
    assert asked.exists(), ran.stderr
    assert "not fixed: shardlint verify: fx.py::step: other numbers" in ran.stdout, ran.stderr


def test_a_python_is_given_with_verify_alone(write: Write) -> None:
    root = write({"train.py": TRAIN})
    command = [sys.executable, "-m", "shardlint", "fix", "--python", sys.executable, str(root)]
    ran = subprocess.run(command, text=True, capture_output=True, check=False)
    assert ran.returncode == 2 and "--python needs --verify, whose fixtures it runs" in ran.stderr

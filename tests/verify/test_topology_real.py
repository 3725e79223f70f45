"""Level `topology` with the real compilers, where they are installed: `pip install "shardlint[tpu]"`, `[cuda]`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import Result
from shardlint.verify.runner import Runner
from shardlint.verify.topology import GIB

from .conftest import PRELUDE, kinds

pytestmark = pytest.mark.longer

ROOT = Path(__file__).resolve().parents[2]
TPU = importlib.util.find_spec("libtpu") is not None
CUDA = importlib.util.find_spec("jax_plugins") is not None and any(
    importlib.util.find_spec(f"jax_plugins.xla_cuda{major}") is not None for major in (12, 13)
)
needs_tpu = pytest.mark.skipif(not TPU, reason='needs libtpu: pip install "shardlint[tpu]"')
needs_cuda = pytest.mark.skipif(
    not CUDA, reason='needs the CUDA plugin of jax: pip install "shardlint[cuda]"'
)

STEP = (
    PRELUDE
    + """
def loss(p, x):
    return jnp.mean((jax.nn.gelu(x @ p["w1"]) @ p["w2"]) ** 2)

def init():
    return {"w1": np.ones((256, 512), np.float32), "w2": np.ones((512, 256), np.float32)}

def step(p, x):
    value, grads = jax.value_and_grad(loss)(p, x)
    return jax.tree_util.tree_map(lambda a, b: a - 0.1 * b, p, grads), value

jitted = jax.jit(step, donate_argnums=0)
ARGS = [arg(init, specs={"w1": P("data", "model"), "w2": P("model", "data")}), arg(shape=(64, 256), spec=P("data"))]
OUT = {"0/w1": P("data", "model"), "0/w2": P("model", "data")}
four = Fixture(jitted, [{"data": 2, "model": 2}], ARGS, OUT, donate=(0,), execute=False)
eight = Fixture(jitted, [{"data": 4, "model": 2}], ARGS, OUT, donate=(0,), execute=False)
sixteen = Fixture(jitted, [{"data": 8, "model": 2}], ARGS, OUT, execute=False)
twelve = Fixture(jitted, [{"data": 4, "model": 3}], [ARGS[1]], OUT, execute=False)
large = Fixture(lambda x: x * 2, [{"data": 4}], [arg(shape=(4 * 9 * 2**28,), spec=P("data"))], {"": P("data")}, execute=False)
large_gpu = Fixture(lambda x: x * 2, [{"data": 8}], [arg(shape=(8 * 10 * 2**30,), spec=P("data"))], {"": P("data")}, execute=False)
"""
)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner(
        os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable), seconds=120, memory=8 * GIB
    ) as started:
        yield started


def compiled_for(runner: Runner, folder: Path, name: str, *topologies: str) -> list[Result]:
    """The results of level `topology` of a fixture of `STEP`."""
    file = folder / "real.py"
    file.write_text(STEP)
    found = verify_fixtures(runner, Request({file: [name]}, topologies=topologies, levels=["topology"]))
    return [result for result in found if result.level == "topology"]


@needs_tpu
@pytest.mark.parametrize("topology", ["v5e:2x2", "v5p:2x2x1", "v6e:2x2"])
def test_a_step_compiles_for_each_tpu(runner: Runner, tmp_path: Path, topology: str) -> None:
    (result,) = compiled_for(runner, tmp_path, "four", topology)
    assert result.status == "pass", result.failures
    program = result.program
    assert program is not None
    assert program.alias_bytes == 2 * 256 * 512 * 4 // 4
    assert program.argument_bytes == program.alias_bytes + 32 * 256 * 4
    assert program.memory_bytes == program.peak_bytes > program.alias_bytes
    assert {one.axes for one in program.collectives} == {("data",), ("model",)}
    assert any(one.line.file.endswith("real.py") for one in program.collectives)


@needs_tpu
def test_what_a_tpu_cannot_hold_fails_with_the_compilers_figure(runner: Runner, tmp_path: Path) -> None:
    (result,) = compiled_for(runner, tmp_path, "large", "v5e:2x2")
    assert kinds(result) == ["memory"]
    assert result.failures[0].failure_text().startswith("needs 18.00 GiB of each device's memory, v5e has 15.75 GiB")


@needs_tpu
def test_what_the_torus_or_libtpu_refuses_is_told(runner: Runner, tmp_path: Path) -> None:
    (unlaid,) = compiled_for(runner, tmp_path, "sixteen", "v6e:4x4")
    assert unlaid.reason.startswith(
        "jax.make_mesh cannot place a 8x2 mesh on v6e:4x4: Failed to find assignment"
    )
    (unknown,) = compiled_for(runner, tmp_path, "twelve", "v5e:4x3")
    assert kinds(unknown) == ["fixture"]
    assert unknown.failures[0].message.startswith("libtpu knows no v5e:4x3")


@needs_tpu
def test_the_bundled_step_of_a_billion_parameters(runner: Runner) -> None:
    file = ROOT / "fixtures" / "examples" / "one_billion.py"
    results = verify_fixtures(runner, Request({file: ["fits", "too_large"]}))
    fits, too_large = [result for result in results if result.level == "topology"]
    assert fits.status == "pass", fits.failures
    assert fits.program is not None
    # Parameters and two moments in float32 over 16 chips, and a few bytes of tokens.
    assert 3 * 4 * 10**9 / 16 < fits.program.argument_bytes < 1.01 * 3 * 4 * 10**9 / 16
    assert 2 * GIB < fits.program.memory_bytes < 4 * GIB
    assert max(one.trips or 0 for one in fits.program.collectives) == 16
    assert kinds(too_large) == ["memory"]
    assert "and v5e has 15.75 GiB" in too_large.failures[0].message


@needs_cuda
def test_a_step_compiles_for_h100s(runner: Runner, tmp_path: Path) -> None:
    (result,) = compiled_for(runner, tmp_path, "eight", "h100:8")
    assert result.status == "pass", (result.failures, result.reason)
    program = result.program
    assert program is not None
    assert program.backend == "h100:8"
    assert program.alias_bytes == 2 * 256 * 512 * 4 // 8
    assert "reduce-scatter" in {one.kind for one in program.collectives}
    assert {one.axes for one in program.collectives} == {("data",), ("model",)}


@needs_cuda
def test_what_an_h100_has_not_fails_though_its_compiler_takes_it(runner: Runner, tmp_path: Path) -> None:
    (result,) = compiled_for(runner, tmp_path, "large_gpu", "h100:8")
    assert kinds(result) == ["memory"]
    assert result.failures[0].failure_text() == "needs 80.0 GiB of each device's memory, h100 has 79.1 GiB"

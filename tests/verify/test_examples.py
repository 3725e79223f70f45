"""The bundled examples: a step of 70 billion parameters, eight faults and their fixed twins, and real models."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shardlint.cli.verify import verify as command
from shardlint.verify import Fixture, levels
from shardlint.verify.facts import Collective
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import FAIL, PASS, Result
from shardlint.verify.runner import Runner

from .conftest import Verify

pytestmark = pytest.mark.longer

EXAMPLES = Path(__file__).parents[2] / "fixtures" / "examples"
PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
MIB, GIB = 2**20, 2**30
MEMORY = 2 * GIB
# A process begins with the most that its parent ever held, so a small one measures, not that of the tests.
_MEASURED = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[2:])
_, status, taken = os.wait4(child.pid, 0)
with open(sys.argv[1], "w") as out:
    json.dump([os.waitstatus_to_exitcode(status), taken.ru_maxrss * 1024], out)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="several processes are run on Linux only")


measured = pytest.mark.skipif(sys.platform != "linux", reason="what a child took is told in other units here")


def lines(file: str) -> list[str]:
    return (EXAMPLES / file).read_text(encoding="utf-8").splitlines()


def text_of(file: str, one: Collective) -> str:
    return lines(file)[one.line.line - 1]


def release_of(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(part) for part in report["releases"]["jax"].split(".")[:2])


@pytest.fixture(scope="module")
def seventy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, int, tuple[int, ...]]:
    """The result of the step of 70 billion parameters, the most memory that a process of it held, and jax's release."""
    folder = tmp_path_factory.mktemp("seventy")
    report, measured = folder / "report.json", folder / "measured.json"
    line = [sys.executable, "-c", _MEASURED, str(measured)]
    line += [sys.executable, "-m", "shardlint", "verify", "--no-cache", "--python", PYTHON]
    line += ["--output-format", "json", str(EXAMPLES / "seventy_billion.py")]
    with report.open("wb") as out:
        subprocess.run(line, stdout=out, check=True)
    code, held = json.loads(measured.read_text())
    found = json.loads(report.read_text())
    (result,) = [Result.decode_result(one) for one in found["results"]]
    assert code == 0, result.failures
    return result, held, release_of(found)


@measured
def test_seventy_billion_parameters_on_512_devices(seventy: tuple[Result, int, tuple[int, ...]]) -> None:
    result, held, _ = seventy
    assert (result.status, result.level) == (PASS, "compile")
    assert result.mesh == {"fsdp": 64, "tensor": 8}
    program = result.program
    assert program is not None
    parameters = [
        one for one in program.arrays if one.role == "in" and one.where.startswith("args[0]['parameters']")
    ]
    assert 70e9 < sum(one.bytes_whole for one in parameters) / 4 < 71e9
    # Parameters and two moments, over all devices.
    assert program.argument_bytes < 1.01 * 3 * 4 * 70.6e9 / 512
    assert held < MEMORY


@measured
def test_each_gather_and_reduction_has_its_line_and_bytes(
    seventy: tuple[Result, int, tuple[int, ...]],
) -> None:
    result, _, release = seventy
    program = result.program
    assert program is not None
    assert {one.kind for one in program.collectives} == {"all-gather", "all-reduce"}
    moved: dict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
    for one in program.collectives:
        assert Path(one.line.file).name == "seventy_billion.py", one
        assert one.trips in (1, 80), one
        moved[one.kind, one.axes] += one.moved_bytes
    assert set(moved) == {("all-gather", ("fsdp",)), ("all-reduce", ("fsdp",)), ("all-reduce", ("tensor",))}
    # Every matrix of a layer in bfloat16, of which a device holds an eighth when it is gathered over fsdp: twice,
    # forward and backward. Its gradient is summed once. So are both tables, which are gathered once.
    matrices = {"query": 64 * 128, "key_value": 2 * 8 * 128, "attended": 64 * 128}
    matrices |= dict.fromkeys(["gate", "up", "down"], 28_672)
    layers = 80 * 2 * 8192 * sum(matrices.values()) // 8
    tables = 2 * 2 * 8192 * 128_256 // 8
    assert moved["all-gather", ("fsdp",)] == 2 * layers + tables
    scales = moved["all-reduce", ("fsdp",)] - layers - tables
    assert 0 <= scales < 4 * MIB

    def older(used: str) -> bool:
        """Some releases between 0.6 and 0.10 place what jax.checkpoint computes again at the scan around it."""
        return (0, 6) < release < (0, 10) and "jax.lax.scan(jax.checkpoint(layer)" in used

    gathered = [one for one in program.collectives if one.kind == "all-gather"]
    assert len(gathered) == 2 * len(matrices) + 2
    for one in gathered:
        # The line that uses it.
        name = re.findall(r"\['(\w+)'\]", one.of)[-1]
        used = text_of("seventy_billion.py", one)
        assert f'["{name}"]' in used or (name == "embedding" and "table[tokens]" in used) or older(used), one
    for one in program.collectives:
        if one.axes == ("tensor",) and one.bytes >= MIB:
            # What a tensor-parallel product leaves to be summed: one activation of two sequences.
            assert one.bytes == 2 * 4096 * 8192 * 2, one
            used = text_of("seventy_billion.py", one)
            assert re.search(r"einsum|table\[tokens\]", used) or older(used), one


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """Fixture -> its results, from the command as people run it, but with less patience for what hangs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "STALL_SECONDS", 3.0)
        line = ["--no-cache", "--python", PYTHON, "--output-format", "json"]
        done = CliRunner().invoke(command, [*line, str(EXAMPLES / "eight_faults.py")])
    assert done.exit_code == 1, done.output
    report = json.loads(done.stdout)
    found: dict[str, list[Result]] = defaultdict(list)
    for one in report["results"]:
        result = Result.decode_result(one)
        found[result.fixture.partition("::")[2]].append(result)
    if release_of(report) < (0, 6):
        for name in ("missing_psum", "same_key_on_each_shard"):  # jax.shard_map is not there
            del found[name], found[f"{name}_mended"]
    return found


FAULTS = {
    # fixture: level, kind, what the message names
    "replicated_gradient": ("compile", "sharding", "gradient of args[0]['up'] f32[32,64]"),
    "undonated_state": ("compile", "donation", "args[0]['momentum']['up'] f32[32,64]"),
    "missing_psum": ("execute", "replicas", "out['up'] f32[32,64]"),
    "same_key_on_each_shard": ("execute", "numbers", "out f64[16,32]"),
    "differing_data": ("processes", "replicas", "args[0]['mean'] f32[32]"),
    "lonely_collective": ("processes", "stopped", 'print("largest", largest(y))  # FAULT'),
    "wrong_axis": ("compile", "forbidden", 'parameters["up"]|parameters["down"]'),
    "optimizer_on_one_device": ("compile", "sharding", "out['up'] f32[32,64]"),
}


@linux
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_caught_where_it_can_be(faults: dict[str, list[Result]], name: str) -> None:
    if name not in faults:
        pytest.skip("this jax has no jax.shard_map")
    level, kind, named = FAULTS[name]
    first = next(result for result in faults[name] if result.status == FAIL)
    assert first.level == level
    told = [failure.failure_text() for failure in first.failures if failure.kind == kind]
    assert told, first.failures
    source = lines("eight_faults.py")
    if named.startswith(("args", "out", "gradient")):
        assert any(text.startswith(named) for text in told), told
    else:
        (text,) = told
        numbers = re.findall(r"eight_faults\.py:(\d+)", text)
        assert any(part in source[int(number) - 1] for number in numbers for part in named.split("|")), text


@linux
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_fixed_passes_the_same_levels(faults: dict[str, list[Result]], name: str) -> None:
    if name not in faults:
        pytest.skip("this jax has no jax.shard_map")
    fixed = faults[f"{name}_mended"]
    assert [result.level for result in fixed] == [result.level for result in faults[name]]
    assert FAIL not in {result.status for result in fixed}, fixed
    assert PASS in {result.status for result in fixed if result.level == FAULTS[name][0]}, fixed


@linux
def test_what_the_other_faults_say(faults: dict[str, list[Result]]) -> None:
    def message(name: str) -> str:
        first = next(result for result in faults[name] if result.status == FAIL)
        return "\n".join(failure.failure_text() for failure in first.failures)

    assert "caused by all-reduce 4.0 KiB over data at " in message("replicated_gradient")
    assert "process 1 is done with fn" in message("lonely_collective")
    assert "process 0 ran jit(max) at" in message("lonely_collective").replace("jit__max", "jit(max")
    assert "expected P('data', 'model')  got one device" in message("optimizer_on_one_device")
    assert "hint: it was compiled for one device" in message("optimizer_on_one_device")
    if "missing_psum" in faults:
        assert "differs from one device by 2.1 relative" in message("missing_psum")


# The library of a file, and of its fixtures those that differ most. `SHARDLINT_ALL_PROGRAMS=1` runs all of them.
MODELS = {
    "equinox_models.py": ("equinox", ("mlp_data", "mlp_fsdp", "transformer_tensor")),
    "nnx_model.py": ("flax", ("fsdp",)),
    "haliax_model.py": ("haliax", ("tensor",)),
}


@pytest.mark.parametrize("file", MODELS)
def test_numbers_of_real_models_are_those_of_one_device(runner: Runner, file: str) -> None:
    library, names = MODELS[file]
    if library not in runner.releases:
        pytest.skip(f"{library} is not installed")
    if library == "flax" and runner.releases["flax"].startswith("0.11."):
        pytest.skip("the example is for flax 0.12")
    every = bool(os.environ.get("SHARDLINT_ALL_PROGRAMS"))
    results = verify_fixtures(runner, Request({EXAMPLES / file: () if every else names}))
    assert not [result for result in results if result.status == FAIL], results
    executed = [result for result in results if result.level == "execute"]
    assert len(executed) >= len(names)
    assert {result.status for result in executed} == {PASS}
    for result in executed:
        (said,) = re.findall(r"largest difference from one device: (\S+)", "\n".join(result.notes))
        # The transformer of equinox before 0.12 computes in float32 whatever it is given.
        old = "transformer" in result.fixture and runner.releases["equinox"].startswith("0.11.")
        assert float(said) < (1e-6 if old else 1e-13), result.fixture
        assert old or "(tolerance 1e-10)" in "\n".join(result.notes)


def test_haliax_donates_in_an_order_of_its_own(verify: Verify, runner: Runner) -> None:
    if "haliax" not in runner.releases:
        pytest.skip("haliax is not installed")
    compiled, executed = verify(
        """
        import haliax as hax
        A = hax.Axis("a", 8)
        def train(x, state, extra):
            return {"state": state + x, "x": x, "extra": extra}
        step = hax.named_jit(train, axis_resources={"a": "data"}, donate_args=(False, True, True))
        made = arg(lambda: hax.ones(A), spec=P("data"))
        whole = arg(lambda: np.ones((3, 5), np.float32))
        fx = Fixture(step, [MESH], [made, made, whole], {"state/*": P("data"), "x/*": P("data")}, donate=(0, 1))
        """,
        "execute",
    )
    for result in (compiled, executed):
        (failure,) = result.failures
        assert (failure.kind, failure.where[:7]) == ("donation", "args[0]"), result
    assert compiled.how.startswith("compiled as it is (haliax.named_jit)")


def test_a_partial_has_the_name_of_its_function() -> None:
    for fn in (functools.partial(lines, file="a"), functools.partial(functools.partial(lines), "a")):
        assert Fixture(fn, [{"data": 2}]).function_label() == f"{__name__}:lines"

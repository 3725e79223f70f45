"""Tests of the child process of level `topology`, with XLA for the CPU as a stand-in for its compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify.report import Result
from tests.programs import skip_without

skip_without("jax", "equinox")
pytestmark = pytest.mark.longer

FIXTURES = """
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as JP

from shardlint.verify import Fixture, P, arg

MESH, TOPOLOGY = {"data": 2, "model": 2}, ["v5e:2x2"]
SPECS = {"w1": P("data", "model"), "w2": P("model", "data")}

def init():
    return {"w1": np.ones((16, 64), np.float32), "w2": np.ones((64, 16), np.float32)}

def placed(mesh):
    assert all(device.platform == "cpu" for device in mesh.devices.flat)
    return {name: jax.device_put(value, NamedSharding(mesh, JP("data", "model"))) for name, value in init().items()}

def loss(p, x):
    return jnp.mean((jax.nn.gelu(x @ p["w1"]) @ p["w2"]) ** 2)

def step(p, x):
    value, grads = jax.value_and_grad(loss)(p, x)
    return jax.tree_util.tree_map(lambda a, b: a - 0.1 * b, p, grads), value

def mlp():
    return eqx.nn.MLP(16, 16, 32, 1, key=jax.random.key(0))

@eqx.filter_jit(donate="all-except-first")
def train(x, model):
    grads = eqx.filter_grad(lambda model: jnp.mean(jax.vmap(model)(x) ** 2))(model)
    return eqx.apply_updates(model, grads)

def own(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[4:8]).reshape(2, 2), ("data", "model"))
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, JP("data")))

jitted = jax.jit(step, donate_argnums=0)
X = arg(shape=(8, 16), spec=P("data"))
ARGS = [arg(init, specs=SPECS), X]
good = Fixture(jitted, [MESH], ARGS, {"0/w1": P("data", "model")}, donate=(0,), topology=TOPOLOGY)
wrong = Fixture(jitted, [MESH], ARGS, {"0/w1": P()}, hbm_max=64, topology=TOPOLOGY)
claims = Fixture(jitted, [MESH], ARGS, forbid=["all_gather over data"], topology=TOPOLOGY)
only = Fixture(jitted, [MESH], ARGS, topology=TOPOLOGY)
made_on_a_mesh = Fixture(jitted, [MESH], [arg(placed), X], {"0/*": P("data", "model")}, topology=TOPOLOGY)
module = Fixture(train, [MESH], [X, arg(mlp)], {"layers/*/weight": P()}, donate=(1,), topology=TOPOLOGY)
plain = Fixture(lambda x, model: jax.vmap(model)(x), [MESH], [X, arg(mlp)], {"": P("data")}, topology=TOPOLOGY)
indivisible = Fixture(jitted, [MESH], [ARGS[0], arg(shape=(7, 16), spec=P("data"))], topology=TOPOLOGY)
other_mesh = Fixture(own, [MESH], [X], {"": P("data")}, topology=TOPOLOGY)
mismatch = Fixture(jitted, [{"data": 4, "model": 2}], ARGS, topology=TOPOLOGY)
missing = Fixture(jitted, [MESH], ARGS, topology=TOPOLOGY)
missing_gpu = Fixture(jitted, [MESH], ARGS, topology=["h100:4"])
refused = Fixture(jitted, [MESH], ARGS, topology=TOPOLOGY)
no_ptxas = Fixture(jitted, [MESH], ARGS, topology=["h100:4"])
unlaid = Fixture(jitted, [MESH], ARGS, topology=TOPOLOGY)
"""

# The first four devices stand in for the topology's; makers' simulated devices are the same four.
SCRIPT = """
import json, sys
from dataclasses import asdict
from pathlib import Path

from shardlint.verify.inside import accelerators, devices, load

devices.simulate_devices(8)
import jax
from shardlint.verify.inside import compiled, topology

found = load.fixtures_from(Path(sys.argv[1]))
describe, make_mesh, compile_function = accelerators.describe_topology, jax.make_mesh, compiled.compile_function

def fails(message):
    def fail(*args, **kwargs):
        raise (NotImplementedError if "assignment" in message else RuntimeError)(message)
    return fail

for name, fixture in found.items():
    accelerators.describe_topology = lambda topology: jax.devices()[: topology.device_count]
    jax.make_mesh, compiled.compile_function = make_mesh, compile_function
    if name.startswith("missing"):
        accelerators.describe_topology, accelerators.installed_compiler = describe, lambda platform: ""
    elif name == "refused":
        compiled.compile_function = fails("RESOURCE_EXHAUSTED: the total (83.30G) exceeds available HBM (15.75G).")
    elif name == "no_ptxas":
        compiled.compile_function = fails("UNAVAILABLE: No PTX compilation provider is available. Neither ...")
    elif name == "unlaid":
        jax.make_mesh = fails("Failed to find assignment for axis 1. The size of each axis ...")
    sent = []
    topology.run_topology(fixture, fixture.meshes[0], fixture.topology[0], sent.append)
    (result,) = sent
    print("\\nRESULT", json.dumps([name, asdict(result)]), flush=True)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    file = tmp_path_factory.mktemp("topology") / "declared.py"
    file.write_text(FIXTURES)
    command = [sys.executable, "-c", SCRIPT, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    sent: list[tuple[str, dict[str, Any]]] = [json.loads(line) for line in lines]
    return {name: Result.decode_result(data) for name, data in sent}


def texts(result: Result) -> str:
    return "\n".join(failure.failure_text() for failure in result.failures)


def test_a_sound_step_passes_and_the_report_says_what_compiled_it(results: dict[str, Result]) -> None:
    result = results["good"]
    assert (result.status, result.level, result.topology) == ("pass", "topology", "v5e:2x2")
    # The leaf of `out`, two donated arrays, the memory.
    assert result.checked == 4
    assert result.how.startswith("compiled as it is (jit) for v5e:2x2, under ")
    assert result.notes[0].startswith("needs ")
    assert result.program is not None
    assert result.program.backend == "v5e:2x2"
    assert {one.where for one in result.program.arrays} > {"args[0]['w1']", "out[0]['w1']"}
    assert ("data",) in {one.axes for one in result.program.collectives}
    assert result.program.products == ()


def test_a_wrong_sharding_and_too_much_memory_fail(results: dict[str, Result]) -> None:
    result = results["wrong"]
    assert [failure.kind for failure in result.failures] == ["sharding", "memory"]
    assert "out[0]['w1'] f32[16,64]  expected P()  got P('data', 'model')" in texts(result)
    assert "of each device's memory, hbm_max is 64 B" in texts(result)


def test_what_is_declared_of_collectives_is_held_against_the_finished_program(
    results: dict[str, Result],
) -> None:
    (failure,) = results["claims"].failures
    assert failure.kind == "forbidden"
    assert "declared.py:22" in failure.message


def test_that_it_fits_is_a_check_by_itself(results: dict[str, Result]) -> None:
    assert (results["only"].status, results["only"].checked) == ("pass", 1)


def test_makers_of_arguments_get_devices_that_can_hold_arrays(results: dict[str, Result]) -> None:
    assert results["made_on_a_mesh"].status == "pass", texts(results["made_on_a_mesh"])
    assert results["made_on_a_mesh"].checked == 3


def test_modules_are_compiled_inside_a_jit_of_their_arrays(results: dict[str, Result]) -> None:
    module, plain = results["module"], results["plain"]
    assert (module.status, plain.status) == ("pass", "pass"), texts(module) + texts(plain)
    assert module.how.startswith("compiled inside a jax.jit (equinox) for v5e:2x2")
    assert plain.how.startswith("a plain function, wrapped in jax.jit for v5e:2x2")
    # Two weights, four donated arrays, the memory.
    assert module.checked == 7
    assert module.program is not None
    assert "out.layers[0].weight" in {one.where for one in module.program.arrays}


def test_a_mesh_that_does_not_divide_is_skipped(results: dict[str, Result]) -> None:
    assert results["indivisible"].status == "skip"
    assert results["indivisible"].reason.startswith(
        "args[1]: dimension 0 of size 7 is not divisible by data = 2"
    )


def test_a_program_with_a_mesh_of_its_own_is_told_what_to_do(results: dict[str, Result]) -> None:
    assert results["other_mesh"].status == "fail"
    assert "the program makes its own mesh of this machine's devices" in texts(results["other_mesh"])


def test_a_mesh_of_another_size_is_skipped_and_both_are_named(results: dict[str, Result]) -> None:
    assert results["mismatch"].status == "skip"
    assert results["mismatch"].reason == "v5e:2x2 has 4 devices, mesh data=4,model=2 8"


def test_without_the_compiler_it_is_skipped_with_what_to_install(results: dict[str, Result]) -> None:
    for name, what, extra in (
        ("missing", "v5e:2x2 needs libtpu", "tpu"),
        ("missing_gpu", "h100:4 needs the CUDA plugin of jax", "cuda"),
    ):
        assert results[name].status == "skip"
        reason = f'{what}, which is not installed: pip install "shardlint[{extra}]"'
        assert results[name].reason == reason
    assert results["no_ptxas"].status == "skip"
    assert results["no_ptxas"].reason.startswith("h100:4 needs ptxas and nvlink")


def test_a_refusal_is_a_failure_with_the_compilers_figure(results: dict[str, Result]) -> None:
    (failure,) = results["refused"].failures
    assert failure.kind == "memory"
    assert failure.failure_text() == (
        "the compiler refuses the program: it needs 83.30 GiB of each device's memory, and v5e has 15.75 GiB"
    )


def test_a_mesh_that_cannot_be_laid_over_the_chips_is_skipped_with_the_reason(
    results: dict[str, Result],
) -> None:
    assert results["unlaid"].status == "skip"
    assert results["unlaid"].reason == (
        "jax.make_mesh cannot place a 2x2 mesh on v5e:2x2: Failed to find assignment for axis 1"
    )


def test_a_declared_topology_that_cannot_run_here_leaves_the_other_levels_standing(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-c", "import libtpu"], capture_output=True).returncode == 0:
        pytest.skip("libtpu is installed")
    file = tmp_path / "declared.py"
    file.write_text(FIXTURES)
    command = [sys.executable, "-m", "shardlint", "verify", f"{file}::good", "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    results = json.loads(done.stdout)["results"]
    assert [(one["level"], one["status"]) for one in results] == [
        ("compile", "pass"),
        ("execute", "pass"),
        ("topology", "skip"),
    ]
    assert results[2]["reason"].endswith('pip install "shardlint[tpu]"')
    assert done.returncode == 0

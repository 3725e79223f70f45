"""Level `trace`: what the types of a program for explicit axes prove without devices, and where it stays silent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shardlint.verify
from shardlint.verify.boot import BOOT
from shardlint.verify.fixture import Fixture
from shardlint.verify.runner import Runner
from tests.programs import skip_without

from .conftest import Verify, kinds

NEEDED = (0, 7, 2)
MODEL = """
def init():
    key = jax.random.key(0)
    return {"w1": jax.random.normal(key, (16, 64)), "w2": np.ones((64, 16), np.float32), "name": "mlp"}

def step(p, x):
    h = jnp.einsum("bd,df->bf", x, p["w1"])
    return {"h": h, "y": jnp.einsum("bf,fd->bd", h, p["w2"], out_sharding=JP("data", None))}

def ambiguous(p, x):
    h = x @ p["w1"]
    return h @ p["w2"]

SPECS = {"w1": P(None, "model"), "w2": P("model")}
X = arg(shape=(8192, 16), spec=P("data"))
ARGS = [arg(init, specs=SPECS), X]
OUT = {"h": P("data", "model"), "y": P("data")}
"""


@pytest.fixture(autouse=True)
def _explicit(runner: Runner) -> None:
    if tuple(map(int, runner.releases["jax"].split(".")[:3])) < NEEDED:
        pytest.skip("needs jax.sharding.use_abstract_mesh")


def test_a_sound_program_passes_on_a_mesh_no_machine_simulates(verify: Verify) -> None:
    (result,) = verify(
        MODEL + 'fx = Fixture(step, [{"data": 4096, "model": 16}], ARGS, OUT, axis_types="explicit")', "trace"
    )
    assert (result.level, result.status, result.checked) == ("trace", "pass", 2)
    assert "without devices" in result.how
    assert result.line.partition("fx.py:")[2].isdigit()


def test_the_levels_above_say_why_they_cannot(verify: Verify) -> None:
    traced, compiled, executed = verify(
        MODEL + 'fx = Fixture(step, [{"data": 4096, "model": 1}], ARGS, OUT, axis_types="explicit")',
        "execute",
    )
    assert traced.status == "pass"
    assert [compiled.status, executed.status] == ["skip", "skip"]
    assert compiled.reason == "4096 devices are too many: one process simulates at most 2048"


@pytest.mark.longer
def test_what_it_says_holds_where_there_are_devices(verify: Verify) -> None:
    results = verify(
        MODEL
        + """
fx = Fixture(step, [MESH, "all:4"], ARGS, OUT, axis_types="explicit", reference="single_device")
wrong = Fixture(step, [MESH], ARGS, {"h": P("model"), "y": P("data")}, axis_types="explicit")
""",
        "execute",
    )
    assert [result.level for result in results] == ["trace", "compile", "execute"] * 5
    assert [result.status for result in results] == ["pass"] * 12 + ["fail", "pass", "fail"]
    # The function is plain: where a jit around it puts its outputs decides nothing.
    assert "out['h']" in results[13].notes[0]
    for result in (results[12], results[14]):
        (failure,) = result.failures
        assert (failure.where, failure.expected) == ("out['h']", "P('model')")
        assert failure.actual == "P('data', 'model')"


def test_a_sharding_type_error_is_told_at_its_line(verify: Verify, tmp_path: Path) -> None:
    results = verify(
        MODEL + 'fx = Fixture(ambiguous, [MESH], ARGS, {"": P("data")}, axis_types="explicit")', "execute"
    )
    assert [(result.level, result.status) for result in results] == [
        ("trace", "fail"),
        ("compile", "skip"),
        ("execute", "skip"),
    ]
    message = results[0].failures[0].message
    line = 1 + (tmp_path / "fx.py").read_text().splitlines().index('    return h @ p["w2"]')
    assert message.startswith("raised ShardingTypeError: ")
    assert message.endswith(f"fx.py:{line} in ambiguous")
    assert results[1].reason == "level trace raised"


def test_auto_axes_are_never_held_to_explicit_rules(verify: Verify) -> None:
    source = MODEL + 'fx = Fixture(ambiguous, [MESH], ARGS, {"": P("data")})'
    (compiled,) = verify(source)
    assert (compiled.level, compiled.status) == ("compile", "pass")
    traced, empty = verify(source, "trace")
    assert traced.status == "skip"
    assert "axis_types='explicit'" in traced.reason
    assert kinds(empty) == ["empty"]


def test_replicated_outputs_and_those_no_glob_names(verify: Verify) -> None:
    source = """
    def f(x):
        return {"whole": jax.sharding.reshard(x, JP()), "split": x * 2}
    A = [arg(shape=(64, 16), spec=P("data"))]
    small = Fixture(f, [MESH], A, replicated_bytes_max="1KiB", axis_types="explicit")
    large = Fixture(f, [MESH], A, replicated_bytes_max="4KiB", axis_types="explicit")
    named = Fixture(f, [MESH], A, {"whale": P()}, axis_types="explicit")
    """
    small, large, named = verify(source, "trace")
    assert kinds(small) == ["replicated"]
    assert small.failures[0].where == "out['whole']"
    assert (large.status, large.checked) == ("pass", 2)
    assert kinds(named) == ["pattern", "empty"] or kinds(named) == ["pattern"]


def test_sizes_one_split_nothing_and_the_order_of_axes_counts(verify: Verify) -> None:
    source = """
    def f(x):
        return x * 2
    def fx(sizes, given, wanted):
        return Fixture(f, [sizes], [arg(shape=(16, 4), spec=given)], {"": wanted}, axis_types="explicit")
    one = fx({"data": 4, "model": 1}, P(("data", "model")), P("data"))
    same = fx({"data": 4, "model": 2}, P(("data", "model")), P(("data", "model"), None))
    swapped = fx({"data": 4, "model": 2}, P(("data", "model")), P(("model", "data")))
    """
    assert [result.status for result in verify(source, "trace")] == ["pass", "pass", "fail"]


def test_a_mesh_that_does_not_divide_is_skipped(verify: Verify) -> None:
    result, empty = verify(
        MODEL + 'fx = Fixture(step, [{"data": 3, "model": 2}], ARGS, OUT, axis_types="explicit")', "trace"
    )
    assert (result.status, empty.failures[0].kind) == ("skip", "empty")
    assert "args[1]" in result.reason
    assert "not divisible by data = 3" in result.reason


def test_a_factory_that_cannot_be_traced_is_run_and_the_report_says_so(verify: Verify) -> None:
    source = """
    def init():
        return float(jnp.ones(3).sum()) * jnp.ones((16, 4))
    def f(x):
        return x * 2
    fx = Fixture(f, [MESH], [arg(init, spec=P("data"))], {"": P("data")}, axis_types="explicit")
    """
    (result,) = verify(source, "trace")
    assert result.status == "pass"
    assert "was made on devices, because the function that makes it cannot be traced" in result.notes[0]


def test_what_needs_devices_is_left_to_the_level_that_has_them(verify: Verify) -> None:
    source = """
    def f(x, mesh):
        return jax.lax.with_sharding_constraint(x * mesh.devices.size, NamedSharding(mesh, JP("data")))
    fx = Fixture(f, [MESH], [X], {"": P("data")}, axis_types="explicit")
    with_mesh = Fixture(lambda x: x, [MESH], [X], {"": P("data")}, axis_types="explicit", context="with")
    numbers = Fixture(lambda x: x, [MESH], [X], axis_types="explicit", reference="single_device")
    """
    traced, compiled, *others = verify(source)
    assert (traced.status, compiled.status) == ("skip", "pass")
    assert traced.reason.startswith("cannot be traced without devices: raised ")
    assert [result.reason for result in others if result.level == "trace"] == [
        "`with mesh:` cannot be entered without devices",
        "the fixture declares nothing this level can check",
    ]


def test_modules_and_what_is_no_array_pass_through(verify: Verify) -> None:
    skip_without("equinox")
    source = """
    import equinox as eqx
    class Model(eqx.Module):
        w: jax.Array
        scale: float
        act: object = eqx.field(static=True)
    def init():
        return Model(jnp.ones((16, 64)), 2.0, jax.nn.relu)
    @eqx.filter_jit
    def step(model, x):
        y = model.act(x @ model.w) * model.scale
        return eqx.tree_at(lambda m: m.w, model, model.w * 2), y
    X = arg(shape=(8, 16), spec=P("data"))
    fx = Fixture(step, [MESH], [arg(init, spec=P(None, "model")), X],
                 {"0/w": P(None, "model"), "1": P("data", "model")}, axis_types="explicit")
    """
    (result,) = verify(source, "trace")
    assert (result.status, result.checked) == ("pass", 2), result


def test_no_device_is_touched(tmp_path: Path) -> None:
    """Nor is an argument ever made: it would take 4 TiB."""
    code = BOOT.split("from shardlint")[0] + (
        "import jax, jax.numpy as jnp\n"
        "from shardlint.verify import Fixture, P, arg\n"
        "from shardlint.verify.inside.trace import run_trace\n"
        "fx = Fixture(lambda x: x * 2, [{'data': 8}], [arg(lambda: jnp.ones((2**20, 2**20)), spec=P('data'))],"
        " {'': P('data')}, axis_types='explicit')\n"
        "results = []\n"
        "run_trace(fx, {'data': 2**16}, results.append)\n"
        "assert results[0].status == 'pass', results\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()\n"
    )
    package = Path(shardlint.verify.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code, str(package)], check=True, cwd=tmp_path)


def test_axis_types_are_two_words() -> None:
    with pytest.raises(ValueError, match="'auto' or 'explicit', not 'manual'"):
        Fixture(len, [{"data": 2}], axis_types="manual")


def test_out_shardings_of_a_jit_inside_count(verify: Verify) -> None:
    source = """
    def weights(mesh):
        return jax.jit(lambda: jnp.zeros((64, 128)), out_shardings=NamedSharding(mesh, JP("data", "model")))()
    def twice(mesh):
        return {"w": weights(mesh) * 2, "b": jnp.zeros(8)}
    OUT = {"": P("data", "model")}
    fx = Fixture(jax.jit(lambda w: w * 2), [MESH], [arg(weights)], OUT, axis_types="explicit")
    deep = Fixture(jax.jit(lambda p: p["w"] * 2), [MESH], [arg(twice)], OUT, axis_types="explicit")
    put = jax.jit(lambda x: x + 1, out_shardings=JP(None, "model"))
    asked = Fixture(put, [MESH], [X], {"": P(None, "model")}, axis_types="explicit")
    plain = Fixture(lambda x: put(x) * 2, [MESH], [X], {"": P(None, "model")}, axis_types="explicit")
    within = Fixture(jax.jit(lambda x: put(x) * 2), [MESH], [X], {"": P("data")}, axis_types="explicit")
    wrong = Fixture(put, [MESH], [X], {"": P("data")}, axis_types="explicit")
    """
    results = verify(source, "execute")
    found = [result.status for result in results]
    assert found[:9] == ["pass"] * 9, results
    assert found[9:12] == ["pass", "skip", "pass"], results  # a jit around a plain function goes by types
    assert found[12:15] == ["pass"] * 3, results
    assert found[15:] == ["fail"] * 3, results

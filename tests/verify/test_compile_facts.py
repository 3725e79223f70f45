"""Tests of level `compile`: communication, memory and gradients of a program, and their limits."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify.claims import Claim, check_budget, check_forbidden, check_memory
from shardlint.verify.facts import Collective, Line, Program, read_program
from shardlint.verify.fixture import Fixture
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import Result, Run, text_report
from shardlint.verify.runner import Runner
from shardlint.verify.texts import largest_moves

from .conftest import PRELUDE, Verify, kinds

MODEL = """
def mlp(w, x):
    h = jnp.einsum("bd,df->bf", x, w["up"])
    return x + jnp.einsum("bf,fd->bd", jax.nn.gelu(h), w["down"])

def loss(p, x):
    def layer(h, w):
        return mlp(w, h), None
    y, _ = jax.lax.scan(jax.checkpoint(layer), x, p)
    return jnp.mean(y * y)

def step(p, x):
    value, grads = jax.value_and_grad(loss)(p, x)
    return jax.tree_util.tree_map(lambda a, b: a - 0.1 * b, p, grads), value

def init():
    return {"up": jax.ShapeDtypeStruct((5, 32, 64), jnp.float32), "down": jax.ShapeDtypeStruct((5, 64, 32), jnp.float32)}

SPECS = {"up": P(None, "data", "model"), "down": P(None, "model", "data")}
ARGS = [arg(init, specs=SPECS), arg(shape=(16, 32), spec=P("data"))]
OUT = {"0/up": P(None, "data", "model"), "0/down": P(None, "model", "data"), "1": P()}
jitted = jax.jit(step, donate_argnums=0)
"""


def line_of(source: str, text: str) -> int:
    """The line of `text` in the file the fixture writes."""
    return (PRELUDE + source).splitlines().index(text) + 1


def test_a_step_s_facts(verify: Verify, runner: Runner) -> None:
    source = f"{MODEL}\nfx = Fixture(jitted, [MESH], ARGS, OUT, donate=(0,))"
    (result,) = verify(source)
    assert result.status == "pass", result
    program = result.program
    assert program is not None
    up = line_of(MODEL, '    h = jnp.einsum("bd,df->bf", x, w["up"])')
    gathers = [one for one in program.collectives if one.of == "args[0]['up']"]
    assert {(one.kind, one.axes, one.group, one.bytes, one.trips) for one in gathers} == {
        ("all-gather", ("data",), 4, 32 * 32 * 4, 5)
    }
    assert gathers[0].line.line == up
    assert gathers[0].line.file.endswith("fx.py")
    assert {one.of for one in program.collectives} == {"args[0]['up']", "args[0]['down']", ""}
    sums = [one for one in program.collectives if one.kind == "all-reduce" and one.trips == 5]
    assert {one.axes for one in sums} == {("data",), ("model",)}
    assert {one.parallelism for one in program.products} == {"hybrid"}
    assert program.products[0].line.line == up
    assert program.collectives[program.products[0].paid[0]].of == "args[0]['up']"
    arrays = {(one.role, one.where): one for one in program.arrays}
    taken = arrays["in", "args[0]['up']"]
    assert (taken.axes, taken.copies, taken.donated, taken.aliased) == (
        ((), ("data",), ("model",)),
        1,
        True,
        True,
    )
    assert (taken.bytes, taken.bytes_whole, taken.expected) == (
        5 * 32 * 64 // 2,
        5 * 32 * 64 * 4,
        str(taken.spec),
    )
    batch = arrays["in", "args[1]"]
    assert (batch.axes, batch.copies, batch.donated, batch.aliased) == ((("data",), ()), 2, False, False)
    value = arrays["out", "out[1]"]
    assert (value.axes, value.copies, value.expected, value.aliased) == ((), 8, "P()", None)
    assert program.argument_bytes == 2 * taken.bytes + batch.bytes
    assert program.alias_bytes == 2 * taken.bytes
    assert program.memory_bytes > program.argument_bytes
    # What a child sends is what a report reads.
    assert read_program(json.loads(json.dumps(dataclasses.asdict(program)))) == program
    text = text_report(Run([result], {}, [], []), colour=False)
    # Before jax 0.8 the compiler is not told of functions.
    assert f"fx.py:{up}{in_mlp(gathers[0])}, of args[0]['up']" in text
    assert f"{size(program)} per call on each device" in text


def in_mlp(one: Collective) -> str:
    return " in mlp" if one.line.function else ""


def size(program: Program) -> str:
    return largest_moves(program)[0].removesuffix(" per call on each device").removeprefix("moves ")


def test_limits_that_hold_and_limits_that_do_not(verify: Verify) -> None:
    source = (
        MODEL
        + """
held = Fixture(jitted, [MESH], ARGS, forbid=["all_to_all", "all_gather over model"],
               budget={"all_gather over data": "100KiB", "any": "1MiB"}, memory_max="1MiB")
broken = Fixture(jitted, [MESH], ARGS, forbid=["all_gather over data"],
                 budget={"all_reduce over model": 100}, memory_max="1KiB")
unknown = Fixture(jitted, [MESH], ARGS, forbid=["any over expert"])
one_device = Fixture(jitted, [{"data": 1, "model": 1}], ARGS, forbid=["any"])
"""
    )
    held, broken, unknown, one_device, nothing = verify(source)
    assert (held.status, held.checked) == ("pass", 5), held.failures
    assert kinds(broken) == ["forbidden", "budget", "memory"]
    forbidden, budget, memory = broken.failures
    up = line_of(MODEL, '    h = jnp.einsum("bd,df->bf", x, w["up"])')
    assert forbidden.message.startswith("forbidden 'all_gather over data': 5 found, moving 100.0 KiB per call")
    assert broken.program is not None
    where = f"fx.py:{up}{in_mlp(broken.program.collectives[0])}"
    assert f"{where}, of args[0]['up']:  h = jnp.einsum" in forbidden.message
    assert "4.0 KiB x 5 over data" in forbidden.message
    assert "per call, more than the budget for 'all_reduce over model', 100 B" in budget.failure_text()
    assert budget.bytes_actual is not None and budget.bytes_actual > 100
    assert "more than memory_max (1.0 KiB): arguments " in memory.message
    assert "args[0]['up'] f32[5,32,64]  P(None, 'data', 'model')" in memory.message
    assert unknown.failures[0].message == "'any over expert' names axis 'expert'; the mesh has data, model"
    assert one_device.reason == "forbid 'any' proves nothing: the mesh has one device"
    assert kinds(nothing) == ["empty"]


def test_gradients(verify: Verify) -> None:
    source = (
        MODEL
        + """
scanned = Fixture(loss, [MESH], ARGS, gradients={"0/up": P(None, "data", "model")})
def flat(p, x):
    return jnp.mean(mlp({"up": p["up"], "down": p["down"]}, x) ** 2), {"aux": 1}
FLAT = [arg(lambda: {"up": np.ones((32, 64), np.float32), "down": np.ones((64, 32), np.float32)},
            specs={"up": P("data", "model"), "down": P("model", "data")}), ARGS[1]]
lost = Fixture(flat, [MESH], FLAT, gradients={"0/up": P("data", "model")})
def constrained(p, x, mesh):
    held = {k: jax.lax.with_sharding_constraint(v, NamedSharding(mesh, s)) for (k, v), s in
            zip(sorted(p.items()), (JP("model", "data"), JP("data", "model")))}
    return flat(held, x)
kept = Fixture(constrained, [MESH], FLAT, gradients={"0/up": P("data", "model"), "0/down": P("model", "data")})
nothing = Fixture(flat, [MESH], FLAT, gradients={"0/upp": P("data")})
vector = Fixture(mlp, [MESH], FLAT, gradients={"0/up": P()})
"""
    )
    scanned, lost, kept, nothing, vector = verify(source)
    assert "caused by all-reduce 4.0 KiB x 5 over data at " in scanned.failures[0].message
    (failure,) = lost.failures
    assert (failure.kind, failure.where, failure.path) == ("sharding", "gradient of args[0]['up']", "0/up")
    first, caused, hint = failure.failure_text().splitlines()
    assert first.endswith("expected P('data', 'model')  got P(None, 'model')  1.0 KiB -> 4.0 KiB/device (4x)")
    assert caused.startswith("caused by all-reduce 4.0 KiB over data at ")
    assert caused.endswith(':  h = jnp.einsum("bd,df->bf", x, w["up"])')
    assert hint == (
        "hint: the compiler chose this sharding: pass out_shardings to jit, or constrain the value where it is computed"
    )
    assert lost.program is not None
    assert any(one.of == "args[0]['down']" for one in lost.program.collectives)
    assert lost.how.startswith("its gradients, by jax.jit(jax.grad(fn))")
    assert (kept.status, kept.checked) == ("pass", 2), kept.failures
    assert nothing.failures[0].failure_text().startswith("gradients: '0/upp' matches no leaf; nearest: '0/up'")
    assert vector.failures[0].message.startswith("fn has no gradients: it returns no scalar")


def test_an_output_s_failure_tells_what_put_it_there(verify: Verify) -> None:
    told, asked = verify(
        """
        def square(x, w):
            return jnp.einsum("bd,df->bf", x, w)
        ARGS = [arg(shape=(16, 8), spec=P(None, "data")), arg(shape=(8, 32), spec=P("data", "model"))]
        told = Fixture(square, [MESH], ARGS, {"": P("data", "model")})
        def fixed(mesh):
            return NamedSharding(mesh, JP())
        def whole(x, w, mesh):
            return jax.jit(square, out_shardings=fixed(mesh))(x, w)
        mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
        asked = Fixture(jax.jit(square, out_shardings=fixed(mesh)), [MESH], ARGS, replicated_bytes_max=100)
        """
    )
    message = told.failures[0].failure_text()
    assert "caused by all-reduce 1.0 KiB over data at " in message
    assert ':  return jnp.einsum("bd,df->bf", x, w)' in message
    assert "hint: the compiler chose this sharding" in message
    message = asked.failures[0].failure_text()
    assert "replicated: 2.0 KiB is more than replicated_bytes_max (100 B)" in message
    assert "hint: the function's own out_shardings set this sharding" in message


def test_the_largest_replicated_leaf_comes_first(verify: Verify) -> None:
    (result,) = verify(
        """
        def whole(x, mesh):
            held = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, JP()))
            return {"a": held * 2, "b": jnp.concatenate([held, held]), "c": held[:2]}
        fx = Fixture(whole, [MESH], [X], replicated_bytes_max=64)
        """
    )
    first, second = result.failures
    assert (first.where, second.where) == ("out['b']", "out['a']")
    assert first.message.splitlines()[0].endswith("(64 B); the largest of 2")


def test_what_nobody_asked_for_is_a_note(verify: Verify) -> None:
    again, padded, plain = verify(
        """
        def constrain(x, mesh, *spec):
            return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, JP(*spec)))
        def turned(x, mesh):
            y = constrain(jnp.sin(x), mesh, "data", "model", None)
            y = constrain(jnp.cos(y), mesh, None, "data", "model")
            return constrain(jnp.cos(y), mesh, ("data", "model"), None, None)
        again = Fixture(turned, [{"data": 2, "model": 4}], [arg(shape=(16, 16, 16), spec=P("data"))], memory_max="1MiB")
        padded = Fixture(lambda x, mesh: constrain(jnp.sin(x), mesh, "model") * 2, [{"model": 4}], [arg(shape=(6, 4))],
                         forbid=["all_to_all"])
        plain = Fixture(lambda x: x + 1, [MESH], [X], {"": P("data")})
        """
    )
    assert plain.notes == []
    assert plain.program is not None
    assert not plain.program.warned and not plain.program.collectives
    assert again.program is not None and padded.program is not None
    (warned,) = again.program.warned
    assert (warned.kind, warned.bytes) == ("rematerialised", 16**3 * 4)
    assert warned.line.file.endswith("fx.py")
    (note,) = again.notes
    assert note.startswith("involuntary rematerialisation at ")
    assert "P(None, 'data', 'model') to P(('data', 'model'))" in note
    (warned,) = padded.program.warned
    assert (warned.kind, warned.bytes) == ("indivisible", 2 * 4 * 4)
    assert "is padded from 6 to 8" in padded.notes[0]


def test_equinox_programs_have_their_arguments_names(verify: Verify) -> None:
    (result,) = verify(
        """
        import equinox as eqx
        class Net(eqx.Module):
            w: jax.Array
            act: object
        def forward(net, x):
            return net.act(x @ net.w)
        ARGS = [arg(lambda: Net(jnp.ones((32, 64)), jax.nn.relu), specs={"w": P("data", "model")}),
                arg(shape=(16, 32), spec=P("data"))]
        fx = Fixture(eqx.filter_jit(forward), [MESH], ARGS, {"": P("data", "model")}, forbid=["all_to_all"])
        """
    )
    assert result.status == "pass", result.failures
    assert result.program is not None
    assert [(one.kind, one.axes, one.of) for one in result.program.collectives] == [
        ("all-gather", ("data",), "args[0].w")
    ]
    assert result.program.products[0].free == ("data", "model")


@pytest.mark.longer
def test_limits_hold_for_programs_whose_outputs_have_no_paths(verify: Verify, runner: Runner) -> None:
    if "flax" not in runner.releases:
        pytest.skip("flax is not installed")
    (result,) = verify(
        """
        from flax import nnx
        class Net(nnx.Module):
            def __init__(self, rngs):
                self.linear = nnx.Linear(4, 16, rngs=rngs)
        def forward(net, x):
            return net.linear(x)
        ARGS = [arg(lambda: Net(nnx.Rngs(0)), specs={"linear/kernel": P(None, "model"), "**": P()}), X]
        fx = Fixture(nnx.jit(forward), [MESH], ARGS, {"": P("data", "model")}, forbid=["all_gather over data"])
        """
    )
    assert result.status == "pass", result.failures
    assert "out is checked at level execute" in result.notes[0]


DIE = """
import os
def die(x):
    def at_compile_time(sharding):
        os.write(2, b"last words\\n")
        os.abort()
    jax.debug.inspect_array_sharding(x, callback=at_compile_time)
    return x
fx = Fixture(die, [MESH], [X], {"": P("data")})
"""


@pytest.mark.longer
@pytest.mark.parametrize("fork", [True, False])
def test_last_words_of_a_compiler_that_dies_are_kept(
    fork: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fork and sys.platform != "linux":
        pytest.skip("children are forked on Linux only")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    file = tmp_path / "fx.py"
    file.write_text(PRELUDE + DIE)
    python = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
    with Runner(python, seconds=60, fork=fork) as runner:
        (result,) = verify_fixtures(runner, Request({file: []}, levels=["compile"]))
    assert "SIGABRT" in result.failures[0].message
    assert "last words" in result.output
    # Nor is anything left of its dumps.
    assert list(scratch.iterdir()) == []


def test_what_is_heard_is_passed_on() -> None:
    code = """
import os, sys
from shardlint.verify.inside import captured_stderr
for lead in (False, True):
    if lead:
        captured_stderr.lead_process_group()
    with captured_stderr.listen_to_stderr() as said:
        os.write(2, b"from C\\n")
        print("from Python", file=sys.stderr)
    assert said == ["from C\\nfrom Python\\n"], said
    try:
        with captured_stderr.listen_to_stderr():
            raise OSError("mine")
    except OSError as error:
        assert str(error) == "mine"
    else:
        raise AssertionError
assert captured_stderr.leftover_stderr(os.getpid()) == b""
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "from C\nfrom Python\n" * 2)


def collective(kind: str = "all-gather", axes: tuple[str, ...] = ("data",), size: int = 100) -> Collective:
    return Collective(kind, axes, 4, "f32[25]", size, 2, Line("/nowhere/a.py", 3, "f.<locals>.g"))


def test_claims() -> None:
    program = Program(
        {"data": 4, "model": 2},
        "cpu",
        collectives=(collective(), collective("all-reduce", ("data", "model"))),
    )
    assert check_forbidden(program, [Claim.parse_claim("all-gather over model"), Claim.parse_claim("all_to_all")]) == []
    (failure,) = check_forbidden(program, [Claim.parse_claim("any over data, model")])
    assert failure.message.splitlines()[1] == "all-reduce 100 B x 2 over data, model at /nowhere/a.py:3 in g"
    assert check_budget(program, {Claim.parse_claim("any"): 400}) == []
    assert check_budget(program, {Claim.parse_claim("any"): 399})[0].bytes_actual == 400
    assert check_memory(dataclasses.replace(program, argument_bytes=8, alias_bytes=3), 5) == []
    assert len(check_memory(dataclasses.replace(program, argument_bytes=8, alias_bytes=3), 4)) == 1
    unknown = dataclasses.replace(collective(), trips=None)
    (failure,) = check_budget(dataclasses.replace(program, collectives=(unknown,)), {Claim.parse_claim("any"): 1})
    assert "loops of unknown length counted once" in failure.message
    many = tuple(collective(size=count) for count in range(1, 9))
    apart = tuple(dataclasses.replace(one, line=Line("a.py", at)) for at, one in enumerate(many))
    lines = largest_moves(dataclasses.replace(program, collectives=apart))
    assert (len(lines), lines[0]) == (7, "moves 72 B per call on each device")
    assert lines[1].startswith("  16 B  all-gather 8 B x 2 over data at a.py:7")
    assert lines[-1] == "  12 B  at 3 more (all are in --output-format json)"
    assert largest_moves(Program({}, "cpu")) == []


@pytest.mark.parametrize(
    "declared",
    [
        {"forbid": ["all_gathers"]},
        {"forbid": ["all_gather on data"]},
        {"budget": {"all_gather": "much"}},
        {"budget": {"": 1}},
        {"memory_max": "1 apple"},
        {"hbm_max": "GiB"},
    ],
)
def test_claims_that_could_never_hold_are_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is not a"):
        Fixture(len, [{"data": 2}], **declared)  # type: ignore[arg-type]


def test_a_string_of_forbidden_collectives_is_refused() -> None:
    with pytest.raises(TypeError, match="forbid must be a list"):
        Fixture(len, [{"data": 2}], forbid="all_gather")


def test_each_claim_declares_something() -> None:
    assert Fixture(len, [{"data": 2}]).declares_nothing()
    declarations: list[dict[str, Any]] = [
        {"forbid": ["any"]},
        {"budget": {"any": 0}},
        {"memory_max": 0},
        {"hbm_max": 0},
        {"gradients": {"0": None}},
    ]
    for declared in declarations:
        assert not Fixture(len, [{"data": 2}], **declared).declares_nothing()


def test_results_without_a_program_print_as_before() -> None:
    assert "moves" not in text_report(Run([Result("x:y", "execute", "pass")], {}, [], []), colour=False)

"""Level `processes`: each fault of a program of several processes that one process cannot show, told by leaf or
line; and the comparisons it is made of.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify import levels
from shardlint.verify.fixture import Fixture
from shardlint.verify.inside import consistency, programs, stacks
from shardlint.verify.levels import jobs_for
from shardlint.verify.report import Result

from .conftest import Verify, kinds

pytestmark = pytest.mark.longer

linux = pytest.mark.skipif(sys.platform != "linux", reason="several processes are run on Linux only")

MODEL = """
import functools

def init():
    key = jax.random.key(0)
    return {"w1": jax.random.normal(key, (16, 64)), "w2": np.ones((64, 16), np.float32)}

def own():
    seed = np.random.default_rng(jax.process_index())
    return {**init(), "w2": seed.standard_normal((64, 16)).astype(np.float32)}

def plain(p, x):
    return (x @ p["w1"]) @ p["w2"]

step = jax.jit(plain)
total = jax.jit(lambda x: x.sum())
twice = jax.jit(lambda x: (2 * x).sum())
rows = jax.jit(lambda x: (x @ x.T).sum(0))

SPECS = {"w1": P(None, "model"), "w2": P("model")}
X = arg(shape=(16, 16), spec=P("data"))
ARGS = [arg(init, specs=SPECS), X]
Fixture = functools.partial(Fixture, meshes=[MESH], processes=2)
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "STALL_SECONDS", 3.0)


def processes(results: list[Result]) -> list[Result]:
    return [result for result in results if result.level == "processes"]


def line_of(tmp_path: Path, text: str) -> int:
    lines = (tmp_path / "fx.py").read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.strip() == text)


@linux
def test_sound_programs_pass_two_at_a_time(verify: Verify) -> None:
    source = """
    keys = arg(lambda: jax.random.split(jax.random.key(1), 16), spec=P("data"))
    jitted = Fixture(jax.jit(plain, donate_argnums=1), args=ARGS, out={"": P("data")}, donate=(1,))
    called = Fixture(plain, args=ARGS)
    def noisy(k, x):
        return x + jax.vmap(lambda one: jax.random.normal(one, (16,)))(k), total(x)
    random = Fixture(noisy, args=[keys, X], out={"1": P()})
    four = Fixture(step, args=ARGS, processes=4)
    """
    results = verify(MODEL + _dedent(source), None, names=("jitted",))
    assert [(result.level, result.status) for result in results if result.target == "fx:plain"] == [
        ("compile", "pass"),
        ("execute", "pass"),
        ("processes", "pass"),
    ]
    (jitted,) = processes(results)
    called, random, four = verify(MODEL + _dedent(source), names=("called", "random", "four"), only="processes")
    assert [one.status for one in (jitted, called, random, four)] == ["pass"] * 4, results
    assert jitted.how.startswith("run as 2 processes with 4 devices each, under ")
    # Three arrays in, one out, the program, the declared sharding, the donation.
    assert (jitted.checked, four.checked) == (7, 5)
    assert not jitted.notes
    assert "could not be compared before they ran" in called.notes[0]
    assert four.how.startswith("run as 4 processes with 2 devices each")


@linux
def test_data_that_differs_by_process_is_told_by_leaf(verify: Verify) -> None:
    source = """
    seeded = Fixture(step, args=[arg(own, specs=SPECS), X])
    shaped = Fixture(total, args=[arg(lambda: np.ones((8 * (1 + jax.process_index()), 4)), spec=P("data"))])
    def init_within(x, mesh):
        host = np.full((4, 4), jax.process_index(), np.float32)
        whole = NamedSharding(mesh, JP())
        return {"x": x, "w": jax.make_array_from_callback((4, 4), whole, lambda index: host[index])}
    within = Fixture(init_within, args=[X])
    """
    seeded, shaped, within = processes(verify(MODEL + _dedent(source), None))
    (failure,) = seeded.failures
    assert (failure.kind, failure.where, failure.array) == ("replicas", "args[0]['w2']", "f32[64,16]")
    assert "processes 0 and 1 have different values in the same shard [0:32, 0:16]" in failure.message
    (failure,) = shaped.failures
    assert failure.where == "args[0]"
    assert failure.message.startswith("process 0 has f32[8,4], and process 1 has f32[16,4]")
    (failure,) = within.failures
    assert (failure.kind, failure.where) == ("replicas", "out['w']")


@linux
def test_programs_that_differ_are_not_run(verify: Verify, tmp_path: Path) -> None:
    source = """
    @jax.jit
    def step(p, x):
        y = plain(p, x)
        if jax.process_index() == 0:
            y = y + jnp.cos(y.sum())
        return y
    branch = Fixture(step, args=ARGS)
    @jax.jit
    def seeded(x):
        noise = np.random.default_rng(jax.process_index()).standard_normal((16, 16))
        return x * noise
    constant = Fixture(seeded, args=[X])
    """
    branch, constant = processes(verify(MODEL + _dedent(source), None))
    line = line_of(tmp_path, "y = y + jnp.cos(y.sum())")
    assert kinds(branch) == kinds(constant) == ["program"]
    assert "they were not run" in branch.failures[0].message
    assert f"fx.py:{line})" in branch.failures[0].message
    line = line_of(tmp_path, "return x * noise")
    assert f"fx.py:{line})" in constant.failures[0].message


@linux
def test_a_collective_of_one_process_hangs_at_its_line(verify: Verify, tmp_path: Path) -> None:
    source = """
    def step(p, x):
        y = plain(p, x)
        if jax.process_index() == 0:
            print("loss", total(y))
        return y
    fx = Fixture(step, args=ARGS)
    """
    (result,) = processes(verify(MODEL + _dedent(source), None))
    line = line_of(tmp_path, 'print("loss", total(y))')
    told = result.failures[0].message.splitlines()
    assert told[0] == "hangs: no process did anything for 3 s"
    assert told[1].startswith("process 0 is running fn, at ")
    assert told[1].endswith(f"fx.py:{line} in step")
    assert told[2] == "process 1 is done with fn"
    assert f"fx.py:{line}, process 1 ran no other program" in told[3]
    assert result.seconds < 30


@linux
def test_collectives_in_another_order_are_told_by_line(verify: Verify, tmp_path: Path) -> None:
    source = """
    def nonsense(x):
        if jax.process_index() == 0:
            return [total(x), twice(x)]
        a = twice(x)
        return [total(x), a]
    alike = Fixture(nonsense, args=[X])
    def waits(x):
        if jax.process_index() == 0:
            a, b = rows(x), total(x)
        else:
            b = total(x)
            a = rows(x)
        return a, b
    other = Fixture(waits, args=[X])
    """
    alike, other = processes(verify(MODEL + _dedent(source), None))
    # Sums over the same devices find each other in the wrong order.
    first, second = line_of(tmp_path, "return [total(x), twice(x)]"), line_of(tmp_path, "a = twice(x)")
    assert kinds(alike) == ["replicas"] * 2
    for place in (f"fx.py:{first}", f"fx.py:{second}"):
        assert place in alike.failures[0].message
    first, second = line_of(tmp_path, "a, b = rows(x), total(x)"), line_of(tmp_path, "b = total(x)")
    assert other.status == "fail"
    for place in (f"fx.py:{first}", f"fx.py:{second}"):
        assert place in other.failures[0].message


@linux
def test_a_process_that_ends_or_raises_is_named(verify: Verify, tmp_path: Path) -> None:
    source = """
    import os, signal
    def dies(x):
        print("last words", flush=True)
        if jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        return total(x)
    def stops(x):
        if jax.process_index() == 1:
            raise ValueError("no data here")
        return total(x)
    dies, stops = Fixture(dies, args=[X]), Fixture(stops, args=[X])
    reads = Fixture(lambda x: np.asarray(x), args=[X])
    """
    dies, stops, reads = processes(verify(MODEL + _dedent(source), None))
    told = dies.failures[0].message.splitlines()
    assert told[0] == "process 1 crashed with SIGSEGV while running fn"
    assert told[1].endswith(f"fx.py:{line_of(tmp_path, 'return total(x)')} in dies")
    assert "process 1: last words" in dies.output
    line = line_of(tmp_path, 'raise ValueError("no data here")')
    assert stops.failures[0].message.splitlines()[0] == "process 1 raised ValueError: no data here"
    assert f"fx.py:{line} in stops" in stops.failures[0].message
    (failure,) = reads.failures
    assert failure.message.startswith("every process raised RuntimeError: ")
    assert "non-addressable" in failure.message


@linux
def test_programs_in_another_order_are_told_with_what_came_of_it(verify: Verify, tmp_path: Path) -> None:
    source = """
    def nonsense(x):
        if jax.process_index() == 0:
            return total(x)
        y = twice(x)
        raise ValueError("not what was expected")
    fx = Fixture(nonsense, args=[X])
    """
    (result,) = processes(verify(MODEL + _dedent(source), None))
    told = result.failures[0].message.splitlines()
    assert told[0] == "process 1 raised ValueError: not what was expected"
    assert told[-1].startswith("the first difference between their programs is program 1: process 0 ran jit")
    for place in ("return total(x)", "y = twice(x)"):
        assert f"fx.py:{line_of(tmp_path, place)}" in told[-1]


@linux
def test_what_compares_nothing_fails_and_what_proves_nothing_is_said(verify: Verify) -> None:
    source = """
    def back(x):
        return x
    alone = Fixture(back, args=[arg(shape=(8, 2), spec=P("d"))], meshes=[{"d": 2}])
    thin = Fixture(back, args=[arg(shape=(8, 2), spec=P("m"))], meshes=[{"d": 2, "m": 1}], out={"": P("m")})
    class Box:
        def __init__(self, held):
            self.held = held
    hidden = Fixture(Box, args=[arg(shape=(8, 2), spec=P())], meshes=[{"d": 2}])
    """
    alone, thin, hidden = processes(verify(MODEL + _dedent(source), None))
    assert (alone.status, kinds(alone), alone.checked) == ("fail", ["empty"], 0)
    assert thin.status == "pass", "both processes hold the same copy of the argument"
    assert "out '' proves nothing: every axis that P('m') names has size 1 on this mesh" in thin.notes
    assert (hidden.status, kinds(hidden)) == ("fail", ["opaque"])


@linux
def test_meshes_it_cannot_share_are_skipped(verify: Verify) -> None:
    source = """
    odd = Fixture(step, args=ARGS, processes=3)
    uneven = Fixture(step, args=ARGS, meshes=[{"data": 3, "model": 2}])
    """
    results = verify(MODEL + _dedent(source), None)
    odd, uneven = processes(results)
    assert odd.reason == "8 devices cannot be divided among 3 processes"
    assert (uneven.status, "not divisible by data = 3" in uneven.reason) == ("skip", True)


def listed(**fields: Any) -> dict[str, Any]:
    return {"axis_types": "auto", "processes": None, "topology": [], "execute": True, "reference": "", **fields}


def jobs(
    fixture: dict[str, Any], asked: Sequence[str] = (), processes: int | None = None, topologies: Any = ()
) -> list[tuple[str, list[str], Any]]:
    found = jobs_for(fixture, {"data": 8}, asked, processes, topologies, 60.0)
    return [(job["task"], job["levels"], job["skips"]) for job in found]


def test_what_is_declared_is_run_and_no_more() -> None:
    everything = listed(axis_types="explicit", processes=2, topology=["v5e:2x4"])
    simulated: tuple[str, list[str], Any] = ("fixture", ["trace", "compile", "execute"], {})
    assert jobs(listed()) == [("fixture", ["compile", "execute"], {})]
    assert jobs(everything) == [
        simulated,
        ("processes", ["processes"], {}),
        ("topology", ["topology"], {}),
    ]
    assert jobs(everything, ["processes"]) == [("processes", ["processes"], {})]
    assert jobs(everything, ["compile"]) == [("fixture", ["compile"], {})]
    assert jobs(everything, ["topology", "trace", "execute"]) == [
        ("fixture", ["trace", "execute"], {}),
        ("topology", ["topology"], {}),
    ]
    assert jobs(listed(), [], 4, ["v5e:4x4"])[1:] == [
        ("processes", ["processes"], {}),
        ("topology", ["topology"], {}),
    ]


def test_a_level_asked_for_by_name_is_never_passed_over_in_silence() -> None:
    for level, word in [("trace", "explicit"), ("processes", "--processes"), ("topology", "--topology")]:
        *_, (_, run, skips) = jobs(listed(), [level])
        assert level not in run
        assert word in skips[level]
    *_, (_, run, skips) = jobs(listed(execute=False), [], 2, ())
    assert (run, skips) == ([], {"processes": "the fixture says execute=False"})


def test_processes_are_two_or_more() -> None:
    for wrong in (1, 0, "2"):
        with pytest.raises(ValueError, match="2 or more"):
            Fixture(len, [{"data": 2}], processes=wrong)  # type: ignore[arg-type]


def held(where: str, *parts: tuple[str, int, str], array: str = "f32[4]") -> dict[str, Any]:
    return {"where": where, "path": where, "array": array, "spec": "P()", "parts": parts}


def test_agreement() -> None:
    one = held("out", ("[0:4]", 0, "a"), ("[0:4]", 1, "a"))
    assert consistency.compare_held_arrays([[one], [held("out", ("[0:4]", 2, "a"))]], "") == ([], 1)
    halves = [[held("out", ("[0:2]", 0, "a"))], [held("out", ("[2:4]", 1, "b"))]]
    assert consistency.compare_held_arrays(halves, "") == ([], 0)
    (failure,), count = consistency.compare_held_arrays([[one], [held("out", ("[0:4]", 2, "b"))]], "; why")
    assert failure.message == "processes 0 and 1 have different values in the same shard [0:4]; why"
    assert count == 1
    (failure,), _ = consistency.compare_held_arrays(
        [[held("out", ("[0:4]", 0, "a"), ("[0:4]", 1, "b"))], [one]], ""
    )
    assert failure.message.startswith("devices 0 and 1 of process 0 have")
    (failure,), _ = consistency.compare_held_arrays([[one], []], "")
    assert failure.message == "process 0 has it, and process 1 does not"


def test_the_first_difference_in_what_they_ran() -> None:
    same = [["jit(f)", "a.py:1"], ["jit(g)", "a.py:2"]]
    assert consistency.first_call_difference([same, list(same)]) == ""
    assert consistency.first_call_difference([same, same[:1]]).endswith(
        "is program 2: process 0 ran jit(g) at a.py:2, process 1 ran no other program"
    )


def test_failures_all_processes_tell_are_told_once() -> None:
    failure = {"kind": "sharding", "where": "out", "expected": "P('data')", "actual": "P()"}
    both = {"out": [], "failures": [failure], "count": 1}
    assert [one.message for one in consistency.compare_after_run([both, both], "")[0]] == [""]
    alone = {"out": [], "failures": [], "count": 1}
    assert [one.message for one in consistency.compare_after_run([alone, both], "")[0]] == [
        "(process 1 only)"
    ]


def test_the_line_of_a_program_that_differs(tmp_path: Path) -> None:
    text = "module {\n  %c = constant\n  %0 = add %c\n}\n"
    places = (
        '#loc1 = loc("x")\nmodule {\n  %c = constant loc(#loc)\n  %0 = add %c loc(#loc9)\n} loc(#loc)\n'
        '#loc2 = loc("/lib/site-packages/jax/numpy.py":7:0)\n#loc3 = loc("/home/me/train.py":12:4 to :9)\n'
        '#loc8 = loc(callsite(#loc2 at #loc3))\n#loc9 = loc("jit(f)/add"(#loc8))\n'
    )
    for name, words in (("program0", text), ("program1", text.replace("constant", "iota"))):
        (tmp_path / name).write_text(words)
        (tmp_path / f"{name}.places").write_text(places)
    found = programs.find_difference(tmp_path / "program0", tmp_path / "program1")
    assert found == ("%c = constant", "%c = iota", "/home/me/train.py:12", "/home/me/train.py:12")


def test_a_stack_is_read_from_the_users_side() -> None:
    dump = (
        'Thread 0x1 (most recent call first):\n  File "/x/site-packages/a.py", line 3 in wait\n\n'
        "Current thread 0x2 (most recent call first):\n"
        '  File "/x/site-packages/jax/api.py", line 9 in call\n'
        '  File "/home/me/train.py", line 12 in step\n  File "/home/me/main.py", line 1 in <module>\n'
    )
    assert stacks.users_line(dump) == "/home/me/train.py:12 in step"
    assert stacks.users_line(dump.replace("/home/me", "/x/site-packages")) == ""


def _dedent(text: str) -> str:
    return "\n".join(line[4:] for line in text.splitlines())


@linux
def test_each_process_is_an_interpreter_of_its_own(verify: Verify, tmp_path: Path) -> None:
    source = """
    import random
    NAMES = {"embedding", "attention", "feedforward", "norm", "head", "router", "expert", "bias"}
    W = arg(lambda: {n: np.ones((16, 16), np.float32) for n in sorted(NAMES)}, specs={"**": P("model")})
    def layers(w, x):
        for n in NAMES:
            x = jnp.tanh(x @ w[n])
        return x
    def noise(x):
        n = np.random.default_rng(None).standard_normal(x.shape)
        return jax.jit(lambda x, n: x + n)(x, n.astype(x.dtype))
    def scalar(x): return x * random.random()
    def hashed(x): return x * (hash("abc") % 97)
    def constant(x):
        n = np.random.rand(16)
        return jax.jit(lambda x: x + n)(x)
    def seeded(x):
        n = np.random.default_rng(0).standard_normal(16)
        return jax.jit(lambda x: x + n)(x) * 2.0
    def logs(x):
        y = x * 2
        if jax.process_index() == 0:
            print(jnp.ones(3).sum())
        return y
    walked, jitted = Fixture(layers, args=[W, X]), Fixture(jax.jit(layers), args=[W, X])
    f1, f2, f3, f4 = (Fixture(one, args=[X]) for one in (noise, scalar, hashed, constant))
    apart = arg(shape=(16, 16), spec=P(("data", "model")))
    g1, g2, g3 = Fixture(seeded, args=[X]), Fixture(logs, args=[X]), Fixture(lambda x: x, args=[apart])
    """
    results = verify(MODEL + _dedent(source), only="processes")
    walked, jitted, noise, scalar, hashed, constant, seeded, logs, nothing = results
    line = line_of(tmp_path, "x = jnp.tanh(x @ w[n])")
    assert kinds(walked) == kinds(jitted) == ["program"]
    assert f"fx.py:{line}" in walked.failures[0].where
    assert "on args[1], args[0]" in walked.failures[0].message
    assert f"fx.py:{line})" in jitted.failures[0].message
    for result in (noise, scalar, hashed):
        assert kinds(result) == ["replicas"], result
        assert "different host values" in result.failures[0].message
        assert "fx.py:" in result.failures[0].where
    assert kinds(constant) == ["program"]
    assert "which computes something else" in constant.failures[0].message
    assert (seeded.status, logs.status) == ("pass", "pass"), (seeded, logs)
    assert seeded.checked > 0
    assert "without harm" in " ".join(logs.notes)
    assert (nothing.status, kinds(nothing)) == ("fail", ["empty"])

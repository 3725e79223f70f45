"""Programs that want to pass: what they change in the checks, tell in their name, or take out of the way makes them
fail, and nothing that only looks like it does.
"""

from __future__ import annotations

import hashlib
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardlint.cli.verify import run_request
from shardlint.verify import challenge, messages
from shardlint.verify.cache import Cache
from shardlint.verify.deferred import Deferred
from shardlint.verify.job_attendance import Attendant
from shardlint.verify.judge import derive_status, read_result, results_of
from shardlint.verify.outcome import Outcome
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import FAIL, PASS, SKIP, Result, Run
from shardlint.verify.runner import Runner
from tests.programs import skip_without

skip_without("jax")
pytestmark = pytest.mark.longer

# Replicated where it should be split, and four times too much.
BAD = """
import atexit, gc, os, sys, threading
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from shardlint.verify import Fixture, P, arg

def bad(x, mesh):
    return jax.lax.with_sharding_constraint(x * mesh.size, NamedSharding(mesh, PartitionSpec()))

def fixture(fn=bad, **more):
    more = {"out": {"": P("d")}, "reference": "single_device", **more}
    return Fixture(fn, meshes=[{"d": 2}], args=[arg(shape=(4, 2), spec=P("d"))], **more)
"""
GOOD = """
def good(x):
    return x * 2
fx = fixture(good)
"""


def verify(runner: Runner, folder: Path, source: str, **options: Any) -> list[Result]:
    file = folder / "fx.py"
    file.write_text(BAD + textwrap.dedent(source))
    return verify_fixtures(runner, Request({file: ()}, **options))


def told(results: list[Result]) -> str:
    return "\n".join(failure.failure_text() for result in results for failure in result.failures)


CHANGES = {
    "a check": """
        from shardlint.verify.inside import checks
        checks.check_placement = lambda *a: checks.Checked([], 1)
        checks.check_numbers = lambda *a: (checks.Checked([], 1), "")
    """,
    "code of a check": """
        from shardlint.verify.inside import checks
        checks.is_same_sharding.__code__ = (lambda actual, mesh, spec, ndim: True).__code__
        checks._difference.__code__ = (lambda actual, expected: (0.0, "")).__code__
    """,
    "a method of a result": """
        from shardlint.verify import report
        report.Result.__init__ = lambda self, *a, **k: None
    """,
    "a tolerance": """
        from shardlint.verify.inside import numerics
        numerics.TOLERANCE.update(float64=1e9)
    """,
    "a status": """
        from shardlint.verify.inside import fixtures
        fixtures.FAIL = fixtures.PASS
    """,
    "what runs the levels": """
        from shardlint.verify.inside import fixtures
        from shardlint.verify.report import Result
        def run(fixture, sizes, levels, emit):
            for level in levels:
                emit(Result(fixture.function_label(), level, "pass", dict(sizes), checked=3))
        fixtures.run_fixture = run
    """,
    "a module": """
        import types
        import shardlint.verify.inside.fixtures as real
        fake = types.ModuleType(real.__name__)
        vars(fake).update(vars(real))
        import shardlint.verify.inside
        shardlint.verify.inside.fixtures = sys.modules[real.__name__] = fake
    """,
    "numpy's maximum": "np.max = lambda *a, **k: 0.0",
    "numpy's absolute value": "np.abs = lambda x: x * 0",
    "numpy's asarray": "old = np.asarray\nnp.asarray = lambda *a, **k: old(*a, **k) * 0",
    "a sharding's equality": "NamedSharding.is_equivalent_to = lambda self, other, n: True",
    "an array's sharding": """
        from jax._src.array import ArrayImpl
        ArrayImpl.sharding = property(lambda self: NamedSharding(jax.sharding.get_mesh(), PartitionSpec("d")))
    """,
    "the leaves of trees": "jax.tree_util.tree_flatten_with_path = lambda tree, *a, **k: ([], None)",
    "what compares": "import builtins\nbuiltins.any = lambda them: False\nbuiltins.max = lambda *a, **k: 0",
    "what writes messages": """
        import json
        old = json.dumps
        json.dumps = lambda *a, **k: old(*a, **k).replace('"status": "fail"', '"status": "pass"')
    """,
    "what makes messages": """
        import dataclasses
        from shardlint.verify.inside import tasks
        def none(result):
            return {**vars(result), "failures": [], "status": "pass", "program": None}
        tasks.asdict = dataclasses.asdict = none
    """,
    "what jax itself asks": """
        from jax._src import op_shardings, sharding_impls
        sharding_impls.op_shardings.are_hlo_shardings_equal = lambda a, b: True
    """,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", ["imported", "called"])
def test_a_program_that_changes_the_checks_fails(
    runner: Runner, tmp_path: Path, change: str, when: str
) -> None:
    source = textwrap.dedent(CHANGES[change])
    if when == "called":
        inside = textwrap.indent(source, "    ")
        source = f"def calls(x, mesh):\n{inside}\n    return bad(x, mesh)\nfx = fixture(calls)\n"
    else:
        source += "\nfx = fixture()\n"
    results = verify(runner, tmp_path, source)
    assert results
    assert not [result for result in results if result.status == PASS and result.level == "execute"]
    assert FAIL in [result.status for result in results]


def test_what_is_changed_is_named(runner: Runner, tmp_path: Path) -> None:
    results = verify(runner, tmp_path, CHANGES["numpy's maximum"] + GOOD)
    assert [result.status for result in results] == [FAIL, FAIL]
    assert {result.failures[0].kind for result in results} == {"distrust"}
    assert "the program replaced numpy.max, which the checks need" in told(results)


def test_changes_of_what_no_check_rests_on_are_nothing(runner: Runner, tmp_path: Path) -> None:
    source = """
    import builtins, json
    builtins.print = lambda *a, **k: None
    np.bool = bool
    np.float = float
    np.random.shuffle = None
    jax.jit = __import__("functools").partial(jax.jit)
    jax.some_new_name = lambda: 3
    jax.config.update("jax_debug_nans", True)
    """
    results = verify(runner, tmp_path, textwrap.dedent(source) + GOOD)
    assert [result.status for result in results] == [PASS, PASS], told(results)


FORGERIES = {
    "by the sender": """
        for found in gc.get_objects():
            if getattr(found, "__qualname__", "") == "message_sender.<locals>.send_message" and callable(found):
                for level in ("compile", "execute"):
                    found({"result": result(level)})
                found({"done": True})
    """,
    "from a thread": """
        def tell():
            for found in gc.get_objects():
                if getattr(found, "__qualname__", "") == "message_sender.<locals>.send_message" and callable(found):
                    for level in ("compile", "execute"):
                        found({"result": result(level)})
                    found({"done": True})
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
    """,
    "by what emits": """
        from shardlint.verify.report import Result
        frame = sys._getframe()
        while frame:
            if "emit" in frame.f_locals:
                for level in ("compile", "execute"):
                    frame.f_locals["emit"](Result(**result(level)))
                break
            frame = frame.f_back
    """,
    "on the pipe": """
        import json
        from shardlint.verify import messages
        for found in gc.get_objects():
            if getattr(found, "__qualname__", "") == "message_sender.<locals>.send_message" and callable(found):
                kept = dict(zip(found.__code__.co_freevars, found.__closure__))
                mark, to = kept["mark"].cell_contents, kept["descriptor"].cell_contents
                for message in [{"result": result("compile")}, {"result": result("execute")}, {"done": True}]:
                    text = json.dumps(message).encode()
                    os.write(to, mark.encode() + text + b"\\n")
                    mark = messages._next_mark(mark, text)
    """,
}


@pytest.mark.parametrize("how", FORGERIES)
@pytest.mark.parametrize("end", ["", "os._exit(0)"])
def test_a_program_that_tells_its_own_results_fails(
    runner: Runner, tmp_path: Path, how: str, end: str
) -> None:
    source = f"""
def result(level):
    return {{"target": "t", "level": level, "status": "pass", "mesh": {{"d": 2}}, "checked": 3}}
def forges(x, mesh):
{textwrap.indent(textwrap.dedent(FORGERIES[how]), "    ")}
    {end}
    return bad(x, mesh)
fx = fixture(forges)
"""
    results = verify(runner, tmp_path, source)
    assert results
    assert {result.status for result in results} == {FAIL}, told(results)


@pytest.mark.parametrize(
    "change",
    [
        "fx.out.clear()",
        "fx.out[''] = P()",
        "fx.out[''].entries = ()",
        "object.__setattr__(fx, 'out', {'': P()})",
        "object.__setattr__(fx, 'reference', None); fx.out.clear()",
    ],
)
def test_a_fixture_is_what_it_was_when_it_was_made(runner: Runner, tmp_path: Path, change: str) -> None:
    source = f"def changes(x, mesh):\n    {change}\n    return bad(x, mesh)\nfx = fixture(changes)\n"
    compiled, executed = verify(runner, tmp_path, source)
    # A plain function's layout is for level execute to tell.
    assert compiled.status == SKIP
    assert "expected P('d')" in " ".join(compiled.notes)
    assert executed.status == FAIL
    assert "expected P('d')" in told([executed])


def test_the_verifiers_own_copy_of_a_fixture_is_watched(runner: Runner, tmp_path: Path) -> None:
    source = """
    def changes(x, mesh):
        frame = sys._getframe()
        while frame:
            if "fixture" in frame.f_locals and frame.f_locals["fixture"] is not fx:
                object.__setattr__(frame.f_locals["fixture"], "out", {"": P()})
            frame = frame.f_back
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, PartitionSpec()))
    fx = fixture(changes)
    """
    assert {result.status for result in verify(runner, tmp_path, source)} == {FAIL}


def test_numbers_of_one_device_are_read_before_the_program_is(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # other tests have such files at the same time
    source = f"""
    import glob
    for file in glob.glob({str(tmp_path)!r} + "/shardlint-*/*/numbers"):
        head, _, data = open(file, "rb").read().partition(b"\\n")
        with open(file, "wb") as out:
            out.write(head + b"\\n" + (np.frombuffer(data) * 2).tobytes())
    fx = fixture(lambda x, mesh: x * mesh.size, out={{}})
    """
    (_, executed) = verify(runner, tmp_path, source)
    assert executed.status == FAIL
    assert [failure.kind for failure in executed.failures] == ["numbers"]
    assert "differs from one device by 1 relative" in told([executed])


def test_arrays_of_one_device_that_are_not_those_told_of_are_refused(tmp_path: Path) -> None:
    from shardlint.verify.inside import compare, single_device_run

    names = {"x": ("out", 1.5)}
    files = [compare.encode_numbers(names), compare.encode_numbers({})]
    for name, data in zip(("arguments", "numbers"), files, strict=True):
        (tmp_path / name).write_bytes(data)
    said = {"digest": single_device_run._digest_files(files)}
    assert single_device_run.ReferenceRun.read_result(said, tmp_path).arguments["x"][1].shape == ()
    (tmp_path / "numbers").write_bytes(compare.encode_numbers(names))
    with pytest.raises(LookupError, match="were changed"):
        single_device_run.ReferenceRun.read_result(said, tmp_path)


def test_a_program_that_tampers_on_one_device_alone_is_not_trusted(runner: Runner, tmp_path: Path) -> None:
    source = """
    from shardlint.verify.inside import tree
    def lies(x, mesh):
        if jax.device_count() == 1:
            tree.to_host = lambda leaf: np.asarray(leaf) * 2
        return x * 2
    fx = fixture(lies)
    """
    results = verify(runner, tmp_path, source)
    assert {result.status for result in results} == {FAIL}
    assert {result.failures[0].kind for result in results} == {"distrust"}
    said = "of its run on one device, the program replaced shardlint.verify.inside.tree.to_host"
    assert said in told(results)
    assert "brings its own mesh" not in told(results)


def test_a_run_on_one_device_that_ends_early_is_told_as_that(runner: Runner, tmp_path: Path) -> None:
    source = """
    def ends(x, mesh):
        if jax.device_count() == 1:
            os._exit(0)
        return x * 2
    fx = fixture(ends)
    """
    _, executed = verify(runner, tmp_path, source)
    assert executed.status == FAIL
    assert "the run on one device ended too early, with exit code 0" in told([executed])


ENDS = {
    "sys.exit(0)": "the program called sys.exit(0)",
    "raise SystemExit": "the program called sys.exit()",
    "os._exit(0)": "ended too early, with exit code 0",
    "os.execv('/bin/true', ['true'])": "ended too early, with exit code 0",
}


@pytest.mark.skipif(sys.platform != "linux", reason="/bin/true")
@pytest.mark.parametrize("end", ENDS)
def test_an_end_with_0_is_no_pass(runner: Runner, tmp_path: Path, end: str) -> None:
    results = verify(runner, tmp_path, f"{GOOD}\n{end}\n")
    assert [result.status for result in results] == [FAIL]
    assert ENDS[end] in told(results)
    source = f"""
    def leaves(x):
        if not isinstance(x, jax.core.Tracer):
            {end}
        return x * 2
    fx = fixture(leaves)
    """
    compiled, executed = verify(runner, tmp_path, source)
    assert (compiled.status, executed.status) == (PASS, FAIL)
    assert ENDS[end] in told([executed])


def test_a_file_that_makes_no_fixture_here_fails(runner: Runner, tmp_path: Path) -> None:
    source = "if os.environ.get('NO_SUCH_VARIABLE'):\n    fx = Fixture(bad, meshes=[{'d': 2}], out={'': P()})\n"
    (result,) = verify(runner, tmp_path, source)
    assert result.status == FAIL
    assert "makes no fixture at import here, though it calls Fixture at line 15" in told([result])


def test_a_fixture_that_is_gone_the_second_time_fails(runner: Runner, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f"""
    if not os.path.exists({str(mark)!r}):
        open({str(mark)!r}, "w").close()
        fx = fixture()
    """
    results = verify(runner, tmp_path, source)
    assert {result.status for result in results} == {FAIL}
    assert "did not make the fixture 'fx' again" in told(results)


def test_a_file_that_is_written_anew_by_its_program_fails(runner: Runner, tmp_path: Path) -> None:
    source = """
    text = open(__file__).read()
    open(__file__, "w").write(text.replace("more = {'out'", "more = {}; {'out'") + "# easier")
    fx = fixture()
    """
    results = verify(runner, tmp_path, source)
    assert {result.status for result in results} == {FAIL}
    assert "changed during this run" in told(results)


def run_command(runner: Runner, file: Path, update: bool = False) -> Run:
    return run_request(Request({file: ()}, levels=["compile"]), Deferred(seconds=60), update=update)


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_goldens_are_those_from_before_the_program(runner: Runner, tmp_path: Path, change: str) -> None:
    file = tmp_path / "fx.py"
    file.write_text(BAD + "fx = fixture(lambda x: x * 2)\n")
    assert run_command(runner, file, update=True).exit_code() == 0
    golden = tmp_path / "fx.golden" / "fx.toml"
    assert golden.exists()
    steps = {
        "remove": f"os.path.exists({str(golden)!r}) and os.remove({str(golden)!r})",
        "rewrite": f"open({str(golden)!r}, 'w').write({golden.read_text()!r}.replace('bytes = ', 'bytes = 9'))",
    }
    # Another program now: its sum is whole on both devices.
    now = "fx = fixture(lambda x: (x * 2, x.sum()), out={'0': P('d')})\n"
    file.write_text(f"{BAD}{steps[change]}\n{now}")
    run = run_command(runner, file)
    assert run.exit_code() == 1
    assert "golden" in {failure.kind for result in run.results for failure in result.failures}
    assert "changed while the programs ran" in "\n".join(run.goldens)


def unkeyed(key: str, value: dict[str, Any]) -> str:
    return hashlib.sha256((key + json.dumps(value, sort_keys=True)).encode()).hexdigest()


def test_an_entry_of_the_cache_that_somebody_wrote_is_none(tmp_path: Path) -> None:
    key, value = "ab" * 32, {"a": 1}
    Cache(tmp_path, secret="one").put_entry(key, value)
    assert Cache(tmp_path, secret="one").get_entry(key) == value
    assert Cache(tmp_path, secret="two").get_entry(key) is None
    assert Cache(tmp_path, secret="two").verified_digest(key) is None
    (tmp_path / f"{key}.json").write_text(json.dumps({"digest": unkeyed(key, value), "value": value}))
    assert Cache(tmp_path, secret="one").get_entry(key) is None


def test_an_entry_is_taken_from_and_written_for_honest_programs_only(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    sound = "fx = fixture(lambda x: x * 2)\n"
    liar = f"np.max = lambda *a, **k: 0.0\n{sound}"
    with Runner(seconds=60, cache=cache) as runner:
        verify(runner, tmp_path, liar, levels=["compile"])
        assert not cache.exists()
        (first,) = verify(runner, tmp_path, sound, levels=["compile"])
        (second,) = verify(runner, tmp_path, sound, levels=["compile"])
        assert (first.cached, second.cached) == (False, True)
        (file,) = cache.glob("*.json")
        entry = json.loads(file.read_text())
        entry["digest"] = unkeyed(file.stem, entry["value"])
        file.write_text(json.dumps(entry))
        (third,) = verify(runner, tmp_path, sound, levels=["compile"])
        assert (third.status, third.cached) == (PASS, False)


# What the parent makes of what it is told.

JOB = {"task": "fixture", "devices": 2, "levels": ["compile", "execute"], "skips": {}, "mesh": {"d": 2}, "label": "t"}


def message(level: str, **more: Any) -> dict[str, Any]:
    return {"result": {"target": "t", "level": level, "status": PASS, "mesh": {"d": 2}, "checked": 1, **more}}


def outcome(*told: dict[str, Any], **more: Any) -> Outcome:
    return Outcome(JOB, list(told), **more)


@pytest.mark.parametrize(
    ("told_of", "said"),
    [
        ([message("compile"), message("execute", status="PASS")], "sent the unknown status 'PASS'"),
        ([message("compile"), message("execute", failures=[{"kind": "x"}])], ""),
        ([message("compile"), message("execute", checked=0)], "checks nothing"),
        ([message("compile"), message("execute", status=FAIL)], "reported a failure without a reason"),
        ([message("compile"), message("compile")], "two results of level compile"),
        ([message("compile"), message("topology")], "sent something other than a result"),
        ([message("compile"), message("execute", mesh={"d": 4})], "sent something other than a result"),
        ([message("compile"), message("execute", checked="3")], "sent something other than a result"),
        ([message("compile"), {"result": [1]}], "sent something other than a result"),
        ([message("compile"), message("execute", failures="none")], "sent something other than a result"),
        ([message("compile"), message("execute", surprise=1)], "sent something other than a result"),
        ([message("compile")], "it sent no result of level execute"),
        ([], "it sent no result of level compile"),
    ],
)
def test_a_status_is_derived_from_what_was_found(told_of: list[dict[str, Any]], said: str) -> None:
    results = results_of(outcome(*told_of))
    assert results
    assert results[-1].status == FAIL
    assert said in told(results)


def test_honest_results_stay_as_they_are() -> None:
    results = results_of(outcome(message("compile"), message("execute", status=SKIP, reason="why", checked=0)))
    assert [(result.status, result.failures) for result in results] == [(PASS, []), (SKIP, [])]
    doubted = results_of(outcome(message("compile"), message("execute"), distrust="it lied"))
    assert [(result.status, result.failures[0].kind) for result in doubted] == [(FAIL, "distrust")] * 2
    proof = derive_status(Result("SL201", "execute", PASS), needs_leaves=False)
    assert proof.status == PASS
    assert read_result({"target": "t"}) is None


class Process:
    """Stand-in for a program's process, driven by hand."""

    def __init__(self, **job: Any) -> None:
        self.answers: list[dict[str, Any]] = []
        self.lines: list[bytes] = []
        self.attendant = Attendant({**JOB, **job}, "0" * 32, self._answered, "key")
        self._mark = "0" * 32

    def _answered(self, data: bytes) -> None:
        self.answers.append(json.loads(data))

    def tell(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        text = json.dumps(message).encode()
        line = self._mark.encode() + text + b"\n"
        self._mark = messages._next_mark(self._mark, text)
        return self.attendant.take_messages(line)


def right(process: Process) -> list[str]:
    seed = process.answers[-1]["seed"]
    return [trial if bad else "" for trial, bad in challenge.trial_programs(seed, 2)]


ANSWERS: dict[str, tuple[Callable[[Process], Any], str]] = {
    "right": (right, ""),
    "blind": (lambda process: [""] * 6, "a program with wrong"),
    "strict": (
        lambda process: [trial for trial, _ in challenge.trial_programs(process.answers[-1]["seed"], 2)],
        "a correct program failed",
    ),
    "none": (lambda process: None, "it did not answer"),
    "too few": (lambda process: right(process)[:-1], "it did not answer"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_checks_are_tried_after_the_program(answer: str) -> None:
    process = Process()
    assert process.tell(message("compile")) == [message("compile")]
    assert process.tell({"judged": True}) == []
    give, wrong = ANSWERS[answer]
    assert process.tell({"answers": give(process)}) == []
    process.tell({"done": True})
    said = process.attendant.end_process("")
    assert bool(said) == bool(wrong)
    assert wrong in said


def test_a_process_that_is_done_without_a_trial_is_not_believed() -> None:
    process = Process()
    process.tell(message("compile"))
    process.tell({"done": True})
    assert process.attendant.end_process("") == "it ended without showing that its checks were unchanged"
    unasked = Process()
    unasked.tell({"answers": [""] * 6})
    unasked.tell({"done": True})
    assert unasked.attendant.end_process("")
    late = Process()
    late.tell({"judged": True})
    late.tell({"answers": right(late)})
    late.tell(message("compile"))
    assert late.attendant.end_process("") == "it reported a result after \"done\""


def test_a_line_put_in_between_spoils_all_later_ones() -> None:
    mark = messages.new_mark()
    incoming = messages.Incoming(mark)
    first, second = b'{"a": 1}', b'{"b": 2}'
    assert incoming.take_messages(mark.encode() + first + b"\n") == [{"a": 1}]
    # The same mark again, as who had seen it would write.
    assert incoming.take_messages(mark.encode() + second + b"\n") == []
    assert incoming.spoilt


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_what_nobody_asked_for_costs_nobody_elses_results(runner: Runner, tmp_path: Path) -> None:
    source = """
    def writes(x):
        for process in (os.getppid(), os.getpid()):
            for number in os.listdir(f"/proc/{process}/fd"):
                try:
                    with open(f"/proc/{process}/fd/{number}", "wb", buffering=0) as pipe:
                        import stat
                        if stat.S_ISFIFO(os.fstat(pipe.fileno()).st_mode) and process != os.getpid():
                            os.write(pipe.fileno(), b'{"id": 77, "message": {"done": true}}\\n')
                except OSError:
                    pass
        return x * 2
    fx = fixture(writes)
    """
    with Runner(seconds=60, at_once=1) as one:
        verify(one, tmp_path, source)
        results = verify(one, tmp_path, GOOD)
        assert [result.status for result in results] == [PASS, PASS]


def test_a_file_asked_for_that_has_no_fixture_fails_beside_others(runner: Runner, tmp_path: Path) -> None:
    empty, full = tmp_path / "empty.py", tmp_path / "full.py"
    empty.write_text(BAD + "if os.environ.get('NO_SUCH_VARIABLE'):\n    fx = fixture()\n")
    full.write_text(BAD + GOOD)
    results = verify_fixtures(runner, Request({empty: (), full: ()}, levels=["compile"], named=[empty, full]))
    assert [result.status for result in results] == [FAIL, PASS]
    assert "has no fixture" in told(results)

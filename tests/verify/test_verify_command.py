"""The command as a person meets it: what it prints and how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardlint.cli.verify import verify
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.fixture_files import fixture_files
from shardlint.verify.report import Failure, Run, text_report
from shardlint.verify.report import Result as VerifyResult
from tests.programs import skip_without

skip_without("jax")

TRAIN = """\
import jax
import jax.numpy as jnp


def init():
    return {"w": jnp.ones((16, 8)), "b": jnp.zeros(8)}


def loss(p, x):
    return jnp.mean((x @ p["w"] + p["b"]) ** 2)


@jax.jit
def gradients(p, x):
    return jax.grad(loss)(p, x)
"""

FIX = """
    grads = jax.grad(loss)(p, x)
    specs = {"w": jax.sharding.PartitionSpec("data"), "b": jax.sharding.PartitionSpec()}
    return {name: jax.lax.with_sharding_constraint(grads[name], specs[name]) for name in grads}
"""

FIXTURES = """\
from shardlint.verify import Fixture, P, arg

grads = Fixture(
    fn="proj.train:gradients",
    meshes=[{"data": 8}],
    args=[arg("proj.train:init", specs={"w": P("data"), "b": P()}), arg(shape=(32, 16), spec=P("data"))],
    out={"w": P("data")},
    replicated_bytes_max="1KiB",
    reference="single_device",
)
"""

Invoke = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    project = tmp_path / "proj"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "fx.py").write_text(FIXTURES)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(verify, list(arguments))


@pytest.mark.longer
def test_before_and_after_a_fix(run: Invoke, tmp_path: Path) -> None:
    before = run("proj")
    assert before.exit_code == 1
    assert "FAIL proj.train:gradients  mesh data=8  level compile\n" in before.output
    assert "  out['w'] f32[16,8]  expected P('data')  got P()  64 B -> 512 B/device (8x)\n" in before.output
    assert "fn: proj/train.py:13, compiled as it is (jit)" in before.output
    assert "  rerun: shardlint verify proj/fx.py::grads --mesh data=8 --level compile\n" in before.output
    assert "self-test: caught a wrong number (execute)" in before.output

    train = tmp_path / "proj" / "train.py"
    train.write_text(TRAIN.replace("\n    return jax.grad(loss)(p, x)\n", FIX))
    after = run("proj/fx.py::grads", "--mesh", "data=4", "--jobs", "2", "--output-format", "json")
    assert after.exit_code == 0, after.output
    report = json.loads(after.output)
    assert report["schema"] == 1
    assert [(one["mesh"], one["level"], one["status"]) for one in report["results"]] == [
        ({"data": 4}, "compile", "pass"),
        ({"data": 4}, "execute", "pass"),
    ]
    assert (report["passed"], report["failed"], report["skipped"]) == (2, 0, 0)
    assert report["self_test"][0] == "caught a replicated output (compile)"
    assert report["releases"]["jax"]


@pytest.mark.longer
def test_a_run_that_cannot_be_done(run: Invoke, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "mentions.py").write_text("import shardlint.verify\n")
    for arguments, message in [
        (("nowhere.py",), "nowhere.py: no such file or directory"),
        (("empty",), "no file below empty mentions shardlint.verify"),
        (("proj", "--python", "/nowhere/python"), "cannot start /nowhere/python"),
        (("mentions.py",), "no fixture found"),
        (("proj/fx.py::nothing",), "proj/fx.py has no fixture 'nothing'; it has grads"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.output
        assert len(result.output.splitlines()) == 1
    for arguments in [("--mesh", "data"), ("--memory", "much"), ("--level", "all"), ("--timeout", "0")]:
        assert run("proj", *arguments).exit_code == 2


def test_files_are_found_by_mention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("from shardlint.verify import Fixture\n")
    Path("b.py").write_text("import jax\n")
    Path("c.pyi").write_text("from shardlint.verify import Fixture\n")
    assert fixture_files(["."]) == {Path("a.py"): []}
    assert fixture_files(["a.py::x", "a.py::y", "b.py"]) == {Path("a.py"): ["x", "y"], Path("b.py"): []}
    assert fixture_files(["a.py::x", "a.py"]) == {Path("a.py"): []}
    assert fixture_files(["a.py", "a.py::x"]) == {Path("a.py"): []}
    with pytest.raises(CannotRun):
        fixture_files(["b.py", "nowhere"])


def test_a_report_does_not_run_away() -> None:
    failures = [
        Failure("sharding", where=f"out[{index}]", expected="P('data')", actual=f"P({index})") for index in range(50)
    ]
    text = text_report(
        Run([VerifyResult("fx:step", "compile", "fail", failures=failures)], {}, [], []), False
    )
    assert text.count("expected") == 20
    assert "... and 30 more" in text


def test_a_note_of_several_results_is_printed_once() -> None:
    alone = "the reference ran on one of 8 devices\nsee below"
    results = [
        VerifyResult("fx:step", level, "pass", notes=[alone, f"only {level}"]) for level in ("trace", "execute")
    ]
    text = text_report(Run(results, {}, [], []), False)
    assert text.count("the reference ran on one of 8 devices") == 1
    assert "\nnote (2 results): the reference ran on one of 8 devices\n  see below\n" in text + "\n"
    assert "\n  note: only trace\n" in text and "\n  note: only execute\n" in text


def test_the_largest_of_several_differences_is_printed_once() -> None:
    notes = [f"largest difference from the reference: {size} at out (tolerance 1e-10)" for size in ("0", "2.2e-12")]
    results = [VerifyResult(f"fx:f{at}", "execute", "pass", notes=[note]) for at, note in enumerate(notes)]
    text = text_report(Run(results, {}, [], []), False)
    assert text.count("largest difference") == 1
    said = "largest difference from the reference: 2.2e-12 at out of fx:f1 (tolerance 1e-10)"
    assert f"note (2 results): {said}" in text
    assert f"  note: {notes[0]}" in text_report(Run(results[:1], {}, [], []), False)


def test_skipping_everything_is_no_success() -> None:
    skipped = VerifyResult("SL201", "execute", "skip", reason="not for these releases")
    passed = VerifyResult("SL202", "execute", "pass")
    assert Run([skipped], {}, [], []).exit_code() == 1
    assert "nothing was verified" in text_report(Run([skipped], {}, [], []), False)
    assert Run([skipped, passed], {}, [], []).exit_code() == 0

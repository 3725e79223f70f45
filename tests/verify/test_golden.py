"""Goldens: what is a drift, what is none, and how the file is kept."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardlint.verify import golden
from shardlint.verify.facts import Array, Collective, Line, Program
from shardlint.verify.golden import compare_with_goldens, golden_path
from shardlint.verify.golden.file import read_golden
from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result

from .made import MIB, MODEL, STAMP, array, program

MESH = {"data": 4, "model": 2}
PATH = Path("proj/fx.golden/step.toml")
Make = Callable[..., Result]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "proj").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    file = tmp_path / "proj" / "model.py"
    file.write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return file


@pytest.fixture
def made(model: Path) -> Make:
    def result(of: Program | None = None, mesh: dict[str, int] | None = None, **more: object) -> Result:
        shown = of or program(mesh or MESH, model)
        values = {"fixture": "proj/fx.py::step", **more}
        return Result("proj.train:step", "compile", PASS, dict(shown.mesh), program=shown, **values)  # type: ignore[arg-type]

    return result


def drifts(result: Result, releases: dict[str, str] = STAMP) -> list[str]:
    """Hold a result against the golden; its failures as text."""
    compare_with_goldens([result], releases)
    assert all(failure.kind == "golden" for failure in result.failures)
    assert result.status == (FAIL if result.failures else PASS)
    return [failure.failure_text() for failure in result.failures]


def without(of: Program, *, arrays: str = "", **more: object) -> Program:
    kept = tuple(one for one in of.arrays if one.where != arrays)
    return replace(of, arrays=kept, **more)  # type: ignore[arg-type]


def test_no_golden_no_claim(made: Make) -> None:
    result = made()
    assert compare_with_goldens([result], STAMP) == []
    assert (result.status, result.notes) == (PASS, [])
    assert not PATH.exists()


def test_it_is_reviewable_text(made: Make, model: Path) -> None:
    assert compare_with_goldens([made()], STAMP, update=True) == [f"wrote {PATH}: 1 run"]
    text = PATH.read_text()
    for line in (
        'fixture = "step"',
        "tolerance = 0.01",
        'mesh = "data=4,model=2"',
        'level = "compile"',
        'backend = "cpu"',
        'releases = {jax = "0.12.0", jaxlib = "0.12.0"}',
        """  {file = "proj/model.py", function = "mlp", text = 'h = jnp.einsum("bsd,df->bsf", x, p["w1"]) """
        """# to the hidden size', axes = "data", bytes = 67_108_864, by = "all-gather"},""",
        """"args[0]['w'][0]" = {array = "f32[1024,4096]", spec = "P('data', 'model')", bytes = 2_097_152, reused = true}""",
        """"out[0]['w'][1]" = {array = "f32[1024,4096]", spec = "P()", bytes = 16_777_216}""",
    ):
        assert line in text.splitlines(), line
    assert str(model.parent.parent) not in text
    assert "%" not in text and "all-gather(" not in text  # no HLO
    assert max(map(len, text.splitlines())) < 200
    assert drifts(made()) == []
    assert compare_with_goldens([made()], STAMP, update=True) == [f"{PATH} is up to date"]
    assert PATH.read_text() == text


def test_an_edit_elsewhere_is_no_drift(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    model.write_text("import os\n\n\n" + MODEL)
    moved = program(MESH, model)
    lower = [
        replace(one, line=replace(one.line, line=one.line.line + 3) if one.line.line else one.line)
        for one in moved.collectives
    ]
    result = made(replace(moved, collectives=tuple(lower)))
    assert drifts(result) == []
    assert result.notes == []


def test_an_edited_or_moved_line_that_moves_the_same_bytes_is_no_drift(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    model.write_text(MODEL.replace('h = jnp.einsum("bsd,df->bsf", x', 'hidden = jnp.einsum("bsd,df->bsf", x'))
    result = made()
    assert drifts(result) == []
    assert result.notes == [
        f"{PATH}: 1 line is worded differently and moves the same bytes; --update stores the new text"
    ]
    model.write_text(MODEL.replace("def mlp", "def feed_forward"))
    renamed = program(MESH, model)
    lines = [
        replace(one, line=replace(one.line, function="feed_forward")) if one.line.function == "mlp" else one
        for one in renamed.collectives
    ]
    assert drifts(made(replace(renamed, collectives=tuple(lines)))) == []


def test_bytes_that_go_from_one_line_to_another_are_a_drift(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    now = program(MESH, model)
    gather = now.collectives[1]
    other = replace(gather, line=replace(gather.line, line=6))
    collectives = tuple(other if one is gather else one for one in now.collectives)
    first, second = drifts(made(replace(now, collectives=collectives)))
    assert first.startswith("proj/model.py in mlp  differs from")
    assert "\n- over data: 64.0 MiB  all-gather" in first
    assert second.startswith("proj/model.py:6 in mlp  differs from")
    assert "\n+ over data: 64.0 MiB  all-gather" in second


def test_a_drift_is_told_by_leaf(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    now = program(MESH, model)
    whole = array("out[0]['w'][0]", (1024, 4096), ((), ()), MESH)
    kept = [one for one in now.arrays if one.where not in ("out[0]['w'][0]", "out[1]")]
    new = array("out[9]", (4,), ((),), MESH)
    kept = [replace(one, aliased=False) if one.where == "args[0]['w'][0]" else one for one in kept]
    said = drifts(made(replace(now, arrays=(*kept, whole, new))))
    assert said == [
        f"args[0]['w'][0] f32[1024,4096]  differs from {PATH}\n"
        "- P('data', 'model')  2.0 MiB/device  reused\n"
        "+ P('data', 'model')  2.0 MiB/device  donated, not reused",
        f"out[0]['w'][0] f32[1024,4096]  differs from {PATH}\n"
        "- P('data', 'model')  2.0 MiB/device\n"
        "+ P()  16.0 MiB/device  (8x)",
        f"out[1] f32[8]  differs from {PATH}\n- f32[8]  P(('data', 'model'))  4 B/device",
        f"out[9] f32[4]  differs from {PATH}\n+ f32[4]  P()  16 B/device",
    ]


def test_a_drift_is_told_by_line_and_axis(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    now = program(MESH, model)
    reduce, gather, loss, _ = now.collectives
    more = replace(gather, bytes=32 * MIB)
    new = Collective("all-to-all", ("model",), 2, "f32[8]", 64, 1, Line(str(model), 12, "loss"))
    said = drifts(made(replace(now, collectives=(reduce, more, new, loss))))
    assert said == [
        f"proj/model.py:7 in mlp  differs from {PATH}\n"
        '  h = jnp.einsum("bsd,df->bsf", x, p["w1"]) # to the hidden size\n'
        "- over data: 64.0 MiB  all-gather\n"
        "+ over data: 128.0 MiB  all-gather  (2x)",
        f"(no line)  differs from {PATH}\n- over data: 36 B  collective-permute",
        f"proj/model.py:12 in loss  differs from {PATH}\n"
        "  return jnp.mean(mlp(p, x) ** 2)\n"
        "+ over model: 64 B  all-to-all",
    ]


def test_opcodes_are_not_compared(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    now = program(MESH, model)
    kinds = tuple(replace(one, kind="all-to-all") for one in now.collectives)
    assert drifts(made(replace(now, collectives=kinds))) == []


def test_bytes_have_a_tolerance_that_is_the_users(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    now = program(MESH, model)
    near = tuple(replace(one, bytes=one.bytes * 1009 // 1000) for one in now.collectives)
    far = tuple(replace(one, bytes=one.bytes * 1020 // 1000) for one in now.collectives)
    assert drifts(made(replace(now, collectives=near))) == []
    assert len(drifts(made(replace(now, collectives=far)))) == 2
    PATH.write_text(PATH.read_text().replace("tolerance = 0.01", "tolerance = 0.05"))
    assert drifts(made(replace(now, collectives=far))) == []
    compare_with_goldens([made(replace(now, collectives=far))], STAMP, update=True)
    assert "tolerance = 0.05" in PATH.read_text()


def test_axes_of_size_one_say_nothing(made: Make, model: Path) -> None:
    mesh = {"data": 8, "model": 1}
    compare_with_goldens([made(mesh=mesh)], STAMP, update=True)
    now = program(mesh, model)
    respelt = [
        replace(one, axes=tuple(tuple(name for name in names if name != "model") for names in one.axes))
        for one in now.arrays
        if one.axes is not None
    ]
    others = [one for one in now.arrays if one.axes is None]
    assert drifts(made(replace(now, arrays=(*respelt, *others)))) == []


def test_another_release_is_held_to_the_shardings_alone(made: Make, model: Path) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    now = program(MESH, model)
    whole = array("out[0]['w'][0]", (1024, 4096), ((), ()), MESH)
    arrays: list[Array] = [whole if one.where == whole.where else one for one in now.arrays]
    result = made(replace(now, arrays=tuple(arrays), collectives=()))
    assert len(drifts(result, {"jax": "0.13.0", "jaxlib": "0.13.0"})) == 1
    assert result.notes == [
        f"communication was not compared: {PATH} is from jax 0.12.0, and this is jax 0.13.0"
    ]


def test_a_mesh_or_level_that_was_not_run_is_not_claimed(made: Make, model: Path) -> None:
    other = {"data": 8, "model": 1}
    compare_with_goldens([made()], STAMP, update=True)
    result = made(mesh=other)
    assert drifts(result) == []
    assert result.notes == [
        f"{PATH} has no run on mesh data=8 model=1 at level compile (cpu); --update adds it"
    ]
    topology = made(program(MESH, model, backend="v5e:2x4"))
    topology.level = "topology"
    assert drifts(topology) == []
    assert "at level topology (v5e:2x4)" in topology.notes[0]
    executed = replace(made(), level="execute", program=None)
    assert compare_with_goldens([executed], STAMP, whole=True) == []
    assert compare_with_goldens([executed], STAMP, update=True) == []
    skipped = replace(made(), status=SKIP)
    assert compare_with_goldens([skipped], STAMP) == [] and skipped.notes == []


def test_an_update_keeps_what_was_not_run(made: Make) -> None:
    other = {"data": 8, "model": 1}
    compare_with_goldens([made(), made(mesh=other)], STAMP, update=True)
    before = PATH.read_text()
    newer = {"jax": "0.13.0", "jaxlib": "0.13.0"}
    assert compare_with_goldens([made()], newer, update=True) == [f"wrote {PATH}: 1 run, 1 unchanged"]
    kept = read_golden(PATH)
    assert kept is not None
    assert [(run.mesh, run.jax_release()) for run in kept.runs] == [
        ("data=4,model=2", "0.13.0"),
        ("data=8,model=1", "0.12.0"),
    ]
    compare_with_goldens([made()], STAMP, update=True)
    assert PATH.read_text() == before


def test_meshes_a_fixture_no_longer_has_go_when_all_were_asked_for(made: Make) -> None:
    other = {"data": 8, "model": 1}
    compare_with_goldens([made(), made(mesh=other)], STAMP, update=True)
    (said,) = compare_with_goldens([made()], STAMP, whole=True)
    assert said.endswith(
        "run on mesh data=8 model=1 at level compile (cpu) is on a mesh that the fixture does not have; --update removes it"
    )
    assert compare_with_goldens([made()], STAMP) == []
    # A mesh that was skipped is still the fixture's.
    skipped = replace(made(mesh=other), status=SKIP, program=None)
    assert compare_with_goldens([made(), skipped], STAMP, whole=True) == []
    compare_with_goldens([made()], STAMP, update=True, whole=True)
    kept = read_golden(PATH)
    assert kept is not None and [run.mesh for run in kept.runs] == ["data=4,model=2"]
    # A fixture that could not even be read says nothing about its meshes.
    broken = Result("x", "", FAIL, failures=[Failure("fixture", "x")], fixture="proj/fx.py::step")
    assert compare_with_goldens([broken], STAMP, update=True, whole=True) == []
    assert PATH.exists()


def test_what_fails_is_not_written(made: Make) -> None:
    failing = made(failures=[Failure("sharding", "x")])
    failing.status = FAIL
    (said,) = compare_with_goldens([failing], STAMP, update=True)
    assert said.endswith("was not updated, because it fails")
    assert not PATH.exists()


def test_a_golden_of_no_fixture_is_told(made: Make) -> None:
    compare_with_goldens([made(), made(fixture="proj/fx.py::other")], STAMP, update=True)
    (said,) = compare_with_goldens([made()], STAMP, whole=True)
    assert said.startswith("proj/fx.golden/other.toml belongs to no fixture")
    assert compare_with_goldens([made()], STAMP) == []


_ONE_RUN = """format = 1
tolerance = 0.01
fixture = ""
[[run]]
mesh = ""
level = ""
backend = ""
releases = {}
lines = []
arrays.x = {array = "", spec = "", """


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[run", "not valid TOML"),
        ("\udcff", "not valid TOML"),
        ("format = 7", "format 7, but this shardlint reads format 1"),
        ("format = 1\ntolerance = 2.0", "tolerance is 2; write a fraction"),
        ("format = 1\ntolerance = 0.01", "not a golden: KeyError: 'fixture'"),
        ("format = 1\ntolerance = 0.01\nfixture = 1", "not a golden: TypeError: fixture is 1"),
        ("format = 1\ntolerance = 0.01\nfixture = ''\nrun = [1]", "not a golden: TypeError"),
        ("format = 1\ntolerance = 0.01\nfixture = ''\n[[run]]\nmesh = 'x'", "not a golden: KeyError"),
        ("format = 1\ntolerance = 0.01\nfixture = ''\n[run]\nmesh = 'x'", "not a golden"),
        pytest.param(f"x = {'[' * 9000}{']' * 9000}", "not a golden: ValueError: nested too deeply", id="nested"),
        pytest.param(f"format = 1\ntolerance = 1{'0' * 400}", "not a golden: OverflowError", id="tolerance"),
        *(
            pytest.param(f"{_ONE_RUN}bytes = {size}}}", f"not a golden: {kind}", id=f"bytes-{size[:9]}")
            for size, kind in (("inf", "OverflowError"), ("nan", "ValueError"), ("1" * 400, "ValueError"))
        ),
    ],
)
def test_a_broken_golden_fails_and_can_be_renewed(made: Make, text: str, said: str) -> None:
    PATH.parent.mkdir()
    PATH.write_bytes(text.encode(errors="surrogateescape"))
    (failure,) = drifts(made())
    assert failure.startswith(f"{PATH}: ") and said in failure and failure.endswith("--update rewrites it")
    compare_with_goldens([made()], STAMP, update=True)
    assert drifts(made()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="files as Unix has them")
@pytest.mark.parametrize(
    "put", [Path.mkdir, lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")]
)
def test_a_golden_that_is_no_file_is_told(made: Make, put: Callable[[Path], None]) -> None:
    PATH.parent.mkdir()
    put(PATH)
    (failure,) = drifts(made())
    assert failure.startswith(f"{PATH}: cannot be read: ") and failure.endswith("; --update rewrites it")


def test_odd_names_are_kept(made: Make, model: Path) -> None:
    strange = 'out["\\"\x1b[31m\n\u202e\udc80\x7f\'"]'
    odd = array(strange, (8,), ((),), MESH)
    now = replace(program(MESH, model), arrays=(odd,))
    compare_with_goldens([made(now)], STAMP, update=True)
    assert drifts(made(now)) == []
    assert PATH.read_text().isascii() and "\x1b" not in PATH.read_text()
    for name, file in [
        ("a b/../c", "proj/fx.golden/a%20b%2f..%2fc.toml"),
        ("..", "proj/fx.golden/%.toml"),
        ("ok-1_x", "proj/fx.golden/ok-1_x.toml"),
    ]:
        assert golden_path(f"proj/fx.py::{name}") == Path(file)


def test_files_outside_the_project_have_names_of_no_machine(made: Make, model: Path, tmp_path: Path) -> None:
    package = tmp_path / "env" / "lib" / "site-packages" / "flax" / "linen.py"
    package.parent.mkdir(parents=True)
    package.write_text("x = 1\n")
    elsewhere = tmp_path.parent / "elsewhere.py"
    now = program(MESH, model)
    gather = now.collectives[1]
    lines = (Line(str(package), 1, "f"), Line(str(elsewhere), 4, "g"))
    compare_with_goldens(
        [made(replace(now, collectives=tuple(replace(gather, line=line) for line in lines)))],
        STAMP,
        update=True,
    )
    text = PATH.read_text()
    assert 'file = "flax/linen.py", function = "f", text = "x = 1"' in text
    assert 'file = "elsewhere.py", function = "g", text = "line 4"' in text


def test_a_killed_update_leaves_the_old_golden(
    made: Make, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_with_goldens([made()], STAMP, update=True)
    before = PATH.read_bytes()

    def killed(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        compare_with_goldens([made(without(program(MESH, model), arrays="out[1]"))], STAMP, update=True)
    assert PATH.read_bytes() == before
    assert [file.name for file in PATH.parent.iterdir()] == ["step.toml"]


def test_the_facts_a_golden_does_not_keep_are_chosen() -> None:
    """A new field of the facts asks for a decision: is a change of it a drift?"""
    assert {field.name for field in dataclasses.fields(Array)} == {
        *("role", "where", "path", "array", "shape", "spec", "bytes", "bytes_whole", "copies", "axes"),
        *("expected", "donated", "aliased"),
    }
    assert golden.STAMPED == ("jax", "jaxlib")

"""The rules of `shardlint run` on compilations made up for the purpose; most of them must stay silent."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from shardlint.run.dumps import Compiled
from shardlint.run.examine import examine_run
from shardlint.run.findings import Facts
from shardlint.run.functions import Function
from shardlint.run.html import html_report
from shardlint.run.launch import Ended
from shardlint.run.recompiled import describe_changes
from shardlint.run.report import Report, json_report, text_report
from shardlint.verify.facts import Array, Collective, Line, Program, Warned

pytestmark = pytest.mark.longer

MIB = 2**20
BIG = (1024, 1024)


def leaf(where: str, shape: tuple[int, ...] = BIG, split: int = 1, role: str = "in", **more: Any) -> Array:
    """An f32 array on 8 devices, split over `split` of them along its first dimension (0: one device)."""
    size = 4
    for length in shape:
        size *= length
    text = f"f32[{','.join(map(str, shape))}]"
    spec = "one device" if not split else "replicated on 8 devices" if split == 1 else "P('data')"
    copies = 1 if not split else 8 // split
    axes = (("data",) if split > 1 else (), *((),) * (len(shape) - 1))
    fields = {
        "role": role, "where": where, "path": where, "array": text, "shape": shape, "spec": spec,
        "bytes": size // max(split, 1), "bytes_whole": size, "copies": copies, "axes": axes,
    }  # fmt: skip
    return Array(**{**fields, **more})


def out(where: str, shape: tuple[int, ...] = BIG, split: int = 1, **more: Any) -> Array:
    return leaf(where, shape, split, role="out", **more)


def compiled(name: str, *arrays: Array, devices: int = 8, **more: Any) -> Compiled:
    own = more.pop("own", True)
    line = Line("/project/train.py", 10 + sum(map(ord, name)) % 50, name)
    program = Program(
        more.pop("mesh", {"data": 8} if devices > 1 else {}),
        "cpu",
        arrays,
        collectives=more.pop("collectives", ()),
        warned=more.pop("warned", ()),
    )
    fields: dict[str, Any] = {
        "function": Function(name, line, Line(), own), "process": "1", "at": 1.0, "seconds": 0.1,
        "partitions": devices, "replicas": 1, "program": program, "unplaced": frozenset(), "digest": name,
    }  # fmt: skip
    return Compiled(**{**fields, **more})


def kinds(*each: Compiled, large: int = MIB) -> list[tuple[str, str]]:
    return [(found.kind, found.function) for found in examine_run(each, large).found]


SPLIT = compiled("step", leaf("p['w']", split=8), leaf("x", (64, 1024), 8), out("out['w']", split=8))
GATHER = Collective("all-gather", ("data",), 8, "f32[1024,1024]", 4 * MIB, 1, Line("/project/train.py", 7))


def test_a_replicated_gradient() -> None:
    bad = compiled("grads", leaf("p['w']", split=8), out("out['w']"))
    (found,) = examine_run([SPLIT, bad], MIB).found
    assert (found.kind, found.function, found.bytes) == ("replicated", "grads", 4 * MIB)
    assert "p['w'] of step, of the same shape, is P('data')" in found.message
    assert found.arrays == ("out['w'] f32[1024,1024]",)


def test_replicated_state_beside_split_state() -> None:
    other = (1024, 600)
    bad = compiled(
        "step", leaf("p['w']", split=8), leaf("p['table']", other), out("out['w']", split=8), out("out['table']", other)
    )  # fmt: skip
    assert kinds(bad) == [("replicated", "step")]
    assert examine_run([bad], MIB).found[0].arrays == ("p['table'] f32[1024,600]",)
    assert kinds(bad, large=16 * MIB) == []


def test_a_large_result_of_split_state_that_is_whole() -> None:
    bad = compiled("step", leaf("p['w']", split=8), out("out[0]['w']", split=8), out("out[1]", (4096, 512)))
    assert kinds(bad) == [("replicated", "step")]


@pytest.mark.parametrize(
    "quiet",
    [
        # Data parallel: parameters on every device, a batch of the shape of a weight.
        compiled("step", leaf("p['w']"), leaf("x", split=8), out("out['w']")),
        compiled("apply", leaf("w"), leaf("x", split=8), out("out", split=8)),
        # A norm's scale, and what is small beside the rest.
        compiled("step", leaf("p['w']", split=8), leaf("p['scale']", (1024,)), out("out['w']", split=8)),
        compiled(
            "step", leaf("p['w']", (2**18, 4096), 8), leaf("p['b']", (512, 512)), out("out['w']", (2**18, 4096), 8),
            out("out['b']", (512, 512)),
        ),
        # A frozen table, that is no state and has no like.
        compiled("step", leaf("p['w']", split=8), leaf("table", (2048, 600)), out("out['w']", split=8)),
        # Only part of the axes, not all.
        compiled("step", leaf("p['w']", split=8), leaf("p['v']", (2048, 600), 2), out("out['w']", split=8)),
        # Work outside of jit.
        compiled("multiply", leaf("x"), out("out"), own=False),
    ],
)  # fmt: skip
def test_no_false_alarm_of_replication(quiet: Compiled) -> None:
    assert kinds(quiet, compiled("other", leaf("x", (8,), 8))) == []


def test_donation() -> None:
    def step(*results: Array, aliased: bool = False) -> list[tuple[str, str]]:
        given = leaf("p['w']", split=8, donated=True, aliased=aliased)
        return kinds(compiled("step", given, leaf("x", split=8), *results))

    assert step(out("out['w']", split=8)) == [("donation", "step")]
    assert step(out("out['w']", split=4)) == [("donation", "step")]
    assert step(out("out['w']", split=8, array="bf16[1024,1024]")) == [("donation", "step")]
    assert step(out("out['w']", split=8), aliased=True) == []
    # It was given away to free it: nothing could have taken it.
    assert step(out("out", ())) == []
    both = compiled(
        "step", leaf("p", split=8, donated=True, aliased=True), leaf("g", split=8, donated=True, aliased=False),
        out("out", split=8),
    )  # fmt: skip
    assert kinds(both) == []
    small = compiled("step", leaf("n", (8,), 8, donated=True, aliased=False), out("out", (8,), 8))
    assert kinds(small) == []


def test_arrays_from_one_device() -> None:
    maker = compiled("init", out("out['w']", split=0), devices=1)
    eager = compiled("zeros", out("out", split=0), devices=1, own=False)
    taker = dataclasses.replace(SPLIT, unplaced=frozenset({"p['w']"}))
    assert kinds(maker, taker) == [("one-device", "init")]
    assert kinds(maker, eager, taker) == [("one-device", "init")]
    assert kinds(eager, taker) == [("one-device", "zeros")]
    # Placed after they were made; from the host; made later; in another process; kept whole on every device.
    assert kinds(maker, SPLIT) == []
    assert kinds(taker) == []
    assert kinds(taker, maker) == []
    assert kinds(dataclasses.replace(maker, process="2"), taker) == []
    whole = compiled("step", leaf("p['w']"), leaf("x", (64, 1024), 8), out("out['w']"))
    assert kinds(maker, dataclasses.replace(whole, unplaced=frozenset({"p['w']"}))) == []


def test_work_on_one_device_after_the_mesh() -> None:
    alone = compiled("evaluate", leaf("p['w']", split=0), out("out", (), 0), devices=1, at=2.0)
    assert kinds(SPLIT, alone) == [("one-device", "evaluate")]
    assert kinds(SPLIT, dataclasses.replace(alone, at=0.5)) == []
    assert kinds(SPLIT, dataclasses.replace(alone, process="2")) == []
    other = compiled("plot", leaf("image", split=0), devices=1, at=2.0)
    assert kinds(SPLIT, other) == []


def test_equinox_arguments_have_numbers_for_names() -> None:
    step = compiled(
        "step", leaf("dynamic_donate['first'][5]", split=8), leaf("dynamic_donate['rest'][1]", (64, 1024), 8),
        out("out[1].layers[0].weight", split=8),
    )  # fmt: skip
    grads = compiled("grads", leaf("dynamic_nodonate['first'][5]", split=8), out("out[1].layers[0].weight"))
    assert kinds(step, grads) == [("replicated", "grads")]
    batch = compiled("step", leaf("dynamic_donate['rest'][1]", split=8), leaf("w"), out("out[1]", ()))
    assert kinds(batch) == []


def test_nothing_split_and_unused_axes() -> None:
    alone = compiled("double", leaf("x"), out("out"))
    assert kinds(alone) == [("replicated", "double")]
    assert (
        kinds(dataclasses.replace(alone, program=dataclasses.replace(alone.program, collectives=(GATHER,))))
        == []
    )
    assert kinds(alone, large=64 * MIB) == []
    mesh = {"data": 2, "model": 4}
    half = compiled("double", leaf("x", split=2), out("out", split=2), mesh=mesh)
    (found,) = examine_run([half], MIB).found
    assert (found.kind, "'model'" in found.message) == ("unused-axis", True)
    # A small one beside a larger one that does the work is left alone.
    most = compiled("double", leaf("x", split=4), out("out", split=4), mesh={"data": 4, "model": 2})
    assert kinds(most) == []
    over = dataclasses.replace(GATHER, axes=("model",))
    assert kinds(compiled("double", leaf("x", split=4), mesh=mesh, collectives=(over,))) == []
    unknown = leaf("y", split=2, axes=None)
    assert kinds(compiled("double", leaf("x", split=4), unknown, mesh=mesh)) == []
    assert kinds(compiled("double", leaf("x", split=8), mesh={"replica": 1, "data": 8})) == []


def test_rematerialisation_once_a_line() -> None:
    line = Line("/project/train.py", 5)
    warned = (Warned("rematerialised", "f32[64,64,64]", line, MIB),) * 2
    assert kinds(compiled("f", leaf("x", split=8), warned=warned)) == [("rematerialised", "f")]
    assert kinds(compiled("f", leaf("x", split=8), warned=warned), large=2 * MIB) == []


class TestRecompiled:
    def test_placed_differently(self) -> None:
        first = dataclasses.replace(SPLIT, unplaced=frozenset({"p['w']"}))
        (found,) = examine_run([first, SPLIT], MIB).found
        assert found.arrays == ("p['w'] f32[1024,1024] not placed -> P('data')",)

    def test_scalars_placed_differently_matter_only_where_it_takes_time(self) -> None:
        one = compiled("step", leaf("p['w']", split=8), leaf("n", ()), out("out['w']", split=8))
        first = dataclasses.replace(one, unplaced=frozenset({"n"}))
        assert kinds(first, one) == []
        assert kinds(first, dataclasses.replace(one, size=20_000)) == [("recompiled", "step")]

    @pytest.mark.parametrize(
        ("sizes", "digests", "cost", "told"),
        [
            ((64, 64, 64), "aaa", 10_000, "3 times to the same program"),
            ((64, 64, 64), "aaa", 1_000, ""),
            ((64, 32), "ab", 90_000, ""),
            ((8, 16, 24, 32), "abcd", 10_000, "for 4 different shapes"),
            ((64, 64, 64, 64), "abcd", 10_000, "a static argument"),
            ((64, 64), "ab", 90_000, ""),
        ],
    )
    def test_again_and_again(self, sizes: tuple[int, ...], digests: str, cost: int, told: str) -> None:
        each = [
            compiled("step", leaf("x", (size, 1024), 8), digest=digest, size=cost)
            for size, digest in zip(sizes, digests, strict=True)
        ]
        found = examine_run(each, MIB).found
        assert bool(found) == bool(told)
        assert not told or told in found[0].message
        # The same, each in a process of its own.
        apart = [dataclasses.replace(one, process=str(at)) for at, one in enumerate(each)]
        assert examine_run(apart, MIB).found == []

    def test_what_changed(self) -> None:
        before = compiled("f", leaf("x", (64, 8), 8), leaf("gone", (8,)))
        after = compiled("f", leaf("x", (32, 8), 8), leaf("new", (8,)))
        assert describe_changes(before, after) == [
            "x f32[64,8] -> f32[32,8]",
            "new f32[8] is new",
            "gone f32[8] is gone",
        ]


class TestReports:
    def report(self, *each: Compiled) -> Report:
        return Report(["python", "train.py"], Ended(0, 1.0), examine_run(each, MIB), MIB, Path("/project"))

    def test_lines_that_move_little_are_left_out(self) -> None:
        small = dataclasses.replace(GATHER, bytes=1000, line=Line("/project/train.py", 8))
        loop = dataclasses.replace(GATHER, trips=None, line=Line("/x/site-packages/lib/a.py", 9))
        text = text_report(self.report(compiled("f", leaf("x", split=8), collectives=(GATHER, small, loop))))
        assert "train.py:7 (f)  all-gather over data: f32[1024,1024]" in text
        assert "lib/a.py:9 (f)  all-gather over data (and each round of a loop)" in text
        assert ":8 " not in text

    def test_names_cannot_steer_a_terminal_or_become_markup(self) -> None:
        name = "<script>alert(1)</script>\x1b[2J"
        bad = compiled("grads", leaf("p['w']", split=8), out(f"out['{name}'].w"), leaf(name, split=8))
        report = self.report(SPLIT, compiled("step", leaf("p.w", split=8), out("out.w", split=8)), bad)
        assert report.facts.found
        assert "\x1b" not in text_report(report)
        assert "\x1b" not in html_report(report, "1")
        assert "<script>alert" not in html_report(report, "1")

    def test_json(self) -> None:
        data = json.loads(json_report(self.report(SPLIT, SPLIT), "1.2.3"))
        assert (data["schema"], data["devices"], data["meshes"], data["compiled"]) == (1, 8, [{"data": 8}], 2)
        assert data["functions"][0]["compilations"][0]["program"]["arrays"][0]["where"] == "p['w']"

    def test_nothing(self) -> None:
        empty = Report(["true"], Ended(0, 1.0), Facts(), MIB, Path())
        assert (
            text_report(empty) == "shardlint run: nothing to report: no jax program was compiled"
        )
        assert "no findings" in html_report(empty, "1")


@pytest.mark.parametrize(("size", "other", "expected"), [(64, 0, 1), (8, 0, 0), (64, 1024, 0)])
def test_a_gather_of_rows_is_told_of_if_it_is_much_of_what_moves(size: int, other: int, expected: int) -> None:
    warned = Warned("gathered-inside", "f32[64,256]|'data'|64|", Line("/project/train.py", 7), size * 1024)
    moved = [dataclasses.replace(GATHER, bytes=kib * 1024) for kib in (size, other)]
    one = compiled("search", leaf("x", (64, 64), 8), warned=(warned,), collectives=tuple(moved))
    assert len(examine_run([one], 256).found) == expected

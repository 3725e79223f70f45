"""Reading partitioned HLO: texts in, facts out, without jax. The dumps in data/hlo were made by these releases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shardlint.verify.facts import Line
from shardlint.verify.inside.hlo import Read, read_module
from shardlint.verify.inside.hlo.axes import Axes, expand_groups
from shardlint.verify.inside.hlo.lines import is_own
from shardlint.verify.inside.hlo.module import parse_module
from shardlint.verify.inside.hlo.partitioner_warnings import find_rematerialised
from shardlint.verify.inside.hlo.shapes import parse_arrays

DATA = Path(__file__).parent / "data" / "hlo"
MESH = {"data": 4, "model": 2}
RELEASES = ("0.4.38", "0.8.3", "0.12.0")


def dumped(name: str, products: bool = True) -> Read:
    def text(part: str) -> str | None:
        file = DATA / f"{name}-{part}.txt"
        return file.read_text() if file.exists() else None

    return read_module(
        text("after") or "", MESH, before=text("before") if products else None, original=text("original")
    )


def module(body: str, header: str = "HloModule jit_f, num_partitions=8", tables: str = "") -> str:
    return f"{header}\n{tables}\nENTRY %main (p: f32[8]) -> f32[8] {{\n{body}\n}}\n"


def test_reading_imports_no_jax() -> None:
    code = "import sys, shardlint.verify.inside.hlo; assert not {'jax', 'numpy', 'libcst'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("release", RELEASES)
def test_a_scanned_training_step(release: str) -> None:
    """Two matrices in FSDP and tensor sharding, scanned six times, with remat: the same on every release."""
    found = dumped(f"scan-{release}").collectives
    seen = sorted((one.kind, one.axes, one.bytes, one.trips, one.of) for one in found)
    gather = ("all-gather", ("data",), 256 * 512 * 2, 6)
    assert seen == sorted(
        [
            *[(*gather, "p['w1']")] * 3,
            *[(*gather, "p['w2']")] * 2,
            *[("all-reduce", ("model",), 4 * 64 * 256 * 2, 6, "")] * 2,
            *[("all-reduce", ("data",), 256 * 512 * 2, 6, "")] * 2,
            ("all-reduce", ("data",), 4, 1, ""),
        ]
    )
    assert {one.group for one in found if one.axes == ("data",)} == {4}
    assert {one.group for one in found if one.axes == ("model",)} == {2}
    # A gathered argument belongs to the line that needs it, not to the scan around it.
    assert {Path(one.line.file).name for one in found} == {"model.py"}
    forward = [one for one in found if one.of][:2]
    assert [(one.of, one.line.line) for one in forward] == [("p['w1']", 5), ("p['w2']", 7)]


@pytest.mark.parametrize("release", RELEASES)
def test_how_the_mesh_shares_the_products(release: str) -> None:
    read_ = dumped(f"scan-{release}")
    first, second, *others = sorted(read_.products, key=lambda one: ("(" in one.text, one.text))
    assert first.text == "bsd,df->bsf  bf16[16,64,256] x bf16[256,1024] -> bf16[16,64,1024]"
    assert (first.free, first.reduced, first.batch) == (("data", "model"), (), ())
    assert (second.free, second.reduced, second.batch) == (("data",), ("model",), ())
    assert (first.flops, first.trips) == (2 * 4 * 64 * 512 * 256, 6)
    assert [read_.collectives[at].of for at in first.paid] == ["p['w1']"]
    assert [read_.collectives[at].kind for at in second.paid] == ["all-gather", "all-reduce"]
    gradients = [one for one in others if one.reduced == ("data",)]
    assert [read_.collectives[at].bytes for one in gradients for at in one.paid] == [256 * 512 * 2] * 2
    assert len(others) == 5
    # Of backward products neither side is an argument: they are what their forward ones are.
    assert {one.parallelism for one in read_.products} == {"hybrid"}
    assert sum("(recomputed)" in one.text for one in others) == 1


def test_without_the_shardings_there_are_no_products() -> None:
    assert dumped("scan-0.12.0", products=False).products == []


def test_products_of_other_kinds() -> None:
    (conv,) = dumped("conv-0.12.0").products
    assert (conv.free, conv.reduced) == (("data", "model"), ())
    assert conv.flops == 2 * 2 * 16 * 16 * 32 * 3 * 3 * 32
    assert conv.paid == ()
    scores, values = dumped("attn-0.12.0").products
    assert scores.batch == values.batch == ("data", "model")
    # Nothing in this program tells weights from activations.
    assert scores.parallelism == values.parallelism == conv.parallelism == ""
    # Inside shard_map axes are the program's own affair.
    assert dumped("smap-0.12.0").products == []


def test_collectives_written_by_hand_share_a_channel_and_are_all_there() -> None:
    found = dumped("smap-0.12.0").collectives
    assert [(one.kind, one.axes, one.group, one.bytes, one.line.line) for one in found] == [
        ("collective-permute", ("data",), 4, 512, 59),
        ("all-to-all", ("model",), 2, 512, 60),
        ("reduce-scatter", ("data",), 4, 512, 61),
        ("all-gather", ("model",), 2, 256, 62),
    ]
    assert found[0].line.function == "smap.<locals>.f"


def test_nested_loops_multiply() -> None:
    # This dump has no trip counts; they are read from the conditions.
    text = (DATA / "nested-0.12.0-after.txt").read_text()
    assert "known_trip_count" not in text
    assert [one.trips for one in read_module(text, MESH).collectives] == [15]


LOOP = """\
HloModule jit_f, num_partitions=8

%body (a: (s32[], f32[8])) -> (s32[], f32[8]) {
  %a = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%a), index=0
  %x = f32[8]{0} get-tuple-element(%a), index=1
  %one = s32[] constant(STEP)
  %next = s32[] add(%i, %one)
  %sum = f32[8]{0} all-reduce(%x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%add
  ROOT %t = (s32[], f32[8]{0}) tuple(%next, %sum)
}

%cond (b: (s32[], f32[8])) -> pred[] {
  %b = (s32[], f32[8]{0}) parameter(0)
  %j = s32[] get-tuple-element(%b), index=0
  %n = s32[] constant(LIMIT)
  ROOT %c = pred[] compare(%j, %n), direction=DIRECTION
}

ENTRY %main (p: f32[8]) -> (s32[], f32[8]) {
  %p = f32[8]{0} parameter(0)
  %zero = s32[] constant(START)
  %init = (s32[], f32[8]{0}) tuple(%zero, %p)
  ROOT %w = (s32[], f32[8]{0}) while(%init), condition=%cond, body=%body
}
"""


@pytest.mark.parametrize(
    ("start", "step", "direction", "limit", "trips"),
    [
        (0, 1, "LT", 5, 5),
        (0, 2, "LT", 5, 3),
        (1, 1, "LE", 5, 5),
        (7, -1, "GT", 0, 7),
        (7, -2, "GE", 1, 4),
        (0, 3, "NE", 9, 3),
        (0, 1, "LT", 0, 0),
        (0, 3, "NE", 8, None),
        (0, 1, "GT", 5, None),
    ],
)
def test_a_loop_s_condition_is_read(
    start: int, step: int, direction: str, limit: int, trips: int | None
) -> None:
    values = {"START": start, "STEP": step, "DIRECTION": direction, "LIMIT": limit}
    text = LOOP
    for name, value in values.items():
        text = text.replace(name, str(value))
    found = read_module(text, MESH).collectives
    # A body that never runs moves nothing.
    assert [one.trips for one in found] == ([] if trips == 0 else [trips])


def test_a_loop_s_condition_is_asked_once_more() -> None:
    text = LOOP.replace(
        "  ROOT %c = ", "  %s = s32[] all-reduce(%j), replica_groups={}, to_apply=%max\n  ROOT %c = "
    )
    for name, value in (("START", "0"), ("STEP", "1"), ("LIMIT", "5"), ("DIRECTION", "LT")):
        text = text.replace(name, value)
    assert [(one.array, one.trips) for one in read_module(text, MESH).collectives] == [("f32[8]", 5), ("s32[]", 6)]


def test_a_loop_that_ends_by_its_data_has_no_known_count() -> None:
    text = LOOP.replace("get-tuple-element(%b), index=0", "fusion(%b), kind=kLoop, calls=%unknown")
    (one,) = read_module(text.replace("START", "0").replace("STEP", "1").replace("LIMIT", "5"), MESH).collectives
    assert one.trips is None
    assert one.moved_bytes == one.bytes


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", ("model",)),
        ("[4,2]<=[8]", ("model",)),
        ("{{0,2,4,6},{1,3,5,7}}", ("data",)),
        ("[2,4]<=[4,2]T(1,0)", ("data",)),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_0'}", ("data",)),
        ("mesh['data'=4,'model'=2] {'data','model'}", ("data", "model")),
        ("mesh['a'=8] {'a':(4)2}", ("model",)),
        ("mesh['a'=8] {'a':(1)4}", ("data",)),
        ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", ("data",)),
        ("[1,8]<=[8]", ("data", "model")),
        ("{}", ("data", "model")),
        ("", ("data", "model")),
    ],
)
def test_groups_in_every_spelling(text: str, axes: tuple[str, ...]) -> None:
    assert Axes(MESH).axes_of_groups(text)[0] == axes


def test_groups_are_the_same_devices_in_every_spelling() -> None:
    spelled = ("{{0,2,4,6},{1,3,5,7}}", "[2,4]<=[4,2]T(1,0)", "mesh['x'=4,'y'=2] {'x'}")
    assert {str(expand_groups(text)) for text in spelled} == {"[[0, 2, 4, 6], [1, 3, 5, 7]]"}


def test_pairs_and_foreign_meshes() -> None:
    axes = Axes(MESH)
    assert axes.axes_of_pairs("{{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}") == (("data",), 4)
    assert axes.axes_of_pairs("{{0,1},{1,0}}") == (("model",), 2)
    # Another mesh's groups name no axis of this one.
    assert axes.axes_of_groups("{{0,8},{1,9}}") == ((), 2)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("{devices=[4,1,2]<=[8]}", (("data",), (), ("model",))),
        ("{devices=[1,2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}", ((), ("model",), ())),
        ("{devices=[2,1,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}", (("model",), (), ())),
        ("{devices=[8,1,1]<=[8]}", (("data", "model"), (), ())),
        ("{mesh['data'=4,'model'=2], [{'model'}, {}, {'data'}]}", (("model",), (), ("data",))),
        ("{mesh['data'=4,'model'=2], [{'data', 'model'}, {}, {}]}", (("data", "model"), (), ())),
        ("{mesh['data'=4,'model'=2], [{'model', 'data'}, {}, {}]}", (("model", "data"), (), ())),
        ("{devices=[8,1,1]<=[4,2]T(1,0)}", (("model", "data"), (), ())),
        ("{mesh['data'=4,'model'=2], replicated}", ((), (), ())),
        ("{replicated}", ((), (), ())),
        ("{manual}", None),
        ("{maximal device=3}", None),
        ("{{replicated}, {devices=[8,1,1]<=[8]}}", None),
        ("{devices=[4,1,1,2]<=[8] last_tile_dims={manual}}", None),
    ],
)
def test_shardings_in_every_spelling(text: str, split: tuple[tuple[str, ...], ...] | None) -> None:
    assert Axes(MESH).axes_of_sharding(text, 3) == split


def test_bytes_are_those_of_the_larger_side() -> None:
    body = """\
  %p = f32[8]{0} parameter(0)
  %g = f32[32]{0} all-gather(%p), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
  %s = (f32[8]{0}, f32[32]{0}) all-gather-start(%p), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
  %d = f32[32]{0} all-gather-done(%s)
  %r = f32[8]{0} reduce-scatter(%g), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}, to_apply=%add
  %b = (f32[8]{0}, bf16[6]{0}, /*index=2*/pred[3]{0}) all-reduce(%p, %h, %q), replica_groups={}, to_apply=%add
  %h = bf16[6]{0} constant({...})
  %q = pred[3]{0} constant({...})
  ROOT %c = (f32[8]{0:T(256)}, f32[8]{0:T(256)}, u32[]{:S(2)}) collective-permute-start(%p), source_target_pairs={{0,2}}"""
    found = read_module(module(body), MESH).collectives
    assert [(one.kind, one.bytes, one.array) for one in found] == [
        ("all-gather", 128, "f32[32]"),
        ("all-gather", 128, "f32[32]"),
        ("reduce-scatter", 128, "f32[32]"),
        ("all-reduce", 47, "f32[8] and 2 more"),
        ("collective-permute", 32, "f32[8]"),
    ]
    assert [str(one) for one in parse_arrays("(s4[3]{0}, f8e4m3fn[2,2]{1,0}, c64[], token[])")] == [
        "s4[3]", "f8e4m3fn[2,2]", "c64[]", "token[]",
    ]  # fmt: skip
    assert [one.byte_count for one in parse_arrays("(s4[3]{0}, f8e4m3fn[2,2]{1,0}, c64[], token[])")] == [2, 4, 8, 0]


FUSED = """\
HloModule jit_f, num_partitions=8

%fused.1 (a: f32[8]) -> f32[32] {
  %a = f32[8]{0} parameter(0)
  ROOT %g.1 = f32[32]{0} all-gather(%a), channel_id=CHANNEL, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
}

%fused.2 (b: f32[8]) -> f32[32] {
  %b = f32[8]{0} parameter(0)
  ROOT %g.2 = f32[32]{0} all-gather(%b), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
}

ENTRY %main (p: f32[8]) -> f32[32] {
  %p = f32[8]{0} parameter(0), metadata={op_name="w"}
  %f = f32[32]{0} fusion(%p), kind=kCustom, calls=%fused.1
  ROOT %e = f32[32]{0} fusion(%p), kind=kCustom, calls=%fused.2
}
"""


def test_copies_of_one_collective_in_fusions_count_once() -> None:
    (one,) = read_module(FUSED.replace("CHANNEL", "1"), MESH).collectives
    assert one.of == "w"
    assert len(read_module(FUSED.replace("CHANNEL", "2"), MESH).collectives) == 2


TABLES = """
FileNames
1 "/env/lib/python3.13/site-packages/equinox/nn/_linear.py"
2 "/proj/train.py"

FunctionNames
1 "Linear.__call__"
2 "step"

FileLocations
1 {file_name_id=2 function_name_id=2 line=41 end_line=41 column=4 end_column=9}
2 {file_name_id=1 function_name_id=1 line=90 end_line=90 column=4 end_column=9}

StackFrames
1 {file_location_id=1 PARENT1}
2 {file_location_id=2 PARENT2}

"""


@pytest.mark.parametrize(
    "parents",
    [("parent_frame_id=1", "parent_frame_id=2"), ("parent_frame_id=0", "parent_frame_id=1"), ("", "parent_frame_id=1")],
)  # fmt: skip
def test_the_innermost_line_of_the_user_s_own_counts(parents: tuple[str, str]) -> None:
    tables = TABLES.replace("PARENT1", parents[0]).replace("PARENT2", parents[1])
    body = """\
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups={}, to_apply=%add, metadata={op_name="x" stack_frame_id=2}"""
    (one,) = read_module(module(body, tables=tables), MESH).collectives
    assert (str(one.line), one.line.function) == ("/proj/train.py:41", "step")


def test_whose_a_file_is() -> None:
    assert is_own("/home/me/proj/train.py")
    assert is_own("C:\\proj\\train.py")
    for other in ("/x/site-packages/optax/a.py", "/usr/lib/python3.12/functools.py", "<frozen runpy>", ""):
        assert not is_own(other)


def test_a_release_that_mixed_up_its_frame_numbers() -> None:
    """jax 0.8's texts carry numbers of other tables than they print: taken as they are, lines are wrong."""
    right = dumped("scan-0.8.3").collectives
    text = (DATA / "scan-0.8.3-after.txt").read_text()
    wrong = read_module(text, MESH).collectives
    last = {one.line.line for one in right if not one.of and one.axes == ("model",)}
    assert 7 in last
    assert [one.line for one in wrong] != [one.line for one in right]
    # Before inlining, names are shorter, and fewer can be found again: no line then, rather than a wrong one.
    inlined = (DATA / "scan-0.8.3-original.txt").read_text().replace("jit(scan_step)/jvp()/while/body/", "")
    blind = read_module(text, MESH, original=inlined).collectives
    for one, true in zip(blind, right, strict=True):
        assert one.line in (true.line, Line())


def test_messages_of_rematerialisation() -> None:
    said = (
        "W1121 spmd_partitioner.cc:666] [SPMD] Involuntary full rematerialization. The compiler cannot go from "
        "sharding {mesh['data'=4,'model'=2], [{}, {'data'}, {'model'}]} to {devices=[8,1,1]<=[8]} efficiently for "
        "HLO operation %c.1 = f32[16,4,8]{2,1,0} copy(%cos.0), sharding={replicated}, "
        'metadata={op_name="jit(g)/c" source_file="/proj/g.py" source_line=21}. As the last resort, SPMD will.\n'
    )
    old = said.replace("operation %c.1", "operation: %c.1").replace("cannot go", "was not able to go")
    lines = read_module("", MESH).lines
    for text in (said, old, said * 2):
        (one,) = find_rematerialised(f"noise\n{text}noise", lines, Axes(MESH))
        assert (str(one.line), one.bytes) == ("/proj/g.py:21", 16**3 * 4)
        assert one.message.endswith("to go from P(None, 'data', 'model') to P(('data', 'model'))")
    # What the partitioner asked about, and did not do.
    assert find_rematerialised(said.replace("%c.1 =", "%fake_parameter.2 ="), lines, Axes(MESH)) == []
    assert find_rematerialised("Involuntary full rematerialization. What?", lines, Axes(MESH)) == []


@pytest.mark.parametrize("text", ["", "not HLO", "HloModule x\n\nENTRY %a {\n", "}\n}\n", "\x00" * 9])
def test_what_is_no_module_has_nothing_in_it(text: str) -> None:
    assert read_module(text, MESH, before=text, original=text).collectives == []


def test_a_text_cut_off_anywhere_raises_nothing() -> None:
    text = (DATA / "scan-0.12.0-after.txt").read_text()
    before = (DATA / "scan-0.12.0-before.txt").read_text()
    for end in range(0, len(text), 997):
        read_module(text[:end], MESH, before=before[:end])


@pytest.mark.longer
def test_the_time_it_takes_grows_with_the_text_only() -> None:
    count = 100_000  # of each other's results: looked for one in another, hours
    lines = ["  %p = f32[8]{0} parameter(0)"]
    for at in range(count):
        last = "%p" if at == 0 else f"%r.{at - 1}"
        lines.append(f"  %m.{at} = f32[8]{{0}} multiply({last}, %p)")
        lines.append(f"  %r.{at} = f32[8]{{0}} all-reduce(%m.{at}), replica_groups={{}}, to_apply=%add")
    assert len(read_module(module("\n".join(lines)), MESH).collectives) == count


def test_parsing_keeps_names_operands_and_attributes() -> None:
    (computation,) = parse_module(
        module("  %t.1 = (s32[], f32[8]{0}) while(%init#2, /*index=1*/%b), condition=%c, body=%d")
    ).computations.values()
    (one,) = computation
    assert one.parse_operands() == [("init", 2), ("b", None)]
    assert (one.attribute_text("condition"), one.called_computations()) == ("%c", ["d", "c"])

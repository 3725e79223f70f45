"""Dumps as releases of jax wrote them, of `cast` below: two arrays given away, results of another type.

@functools.partial(jax.jit, donate_argnums=(0,))
def cast(p):
    return jax.tree.map(lambda a: a.astype(jnp.bfloat16), p)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.run.dumps import Compiled, collect_dumps, is_wanted_file
from shardlint.run.functions import function_of
from shardlint.run.rematerialised import gathered_to_be_cut
from shardlint.run.stablehlo import operation_stacks
from shardlint.verify.facts import Line
from shardlint.verify.inside.hlo.lines import Lines
from shardlint.verify.inside.hlo.module import parse_module

DUMPS = Path(__file__).parent / "data" / "dumps"


@pytest.mark.parametrize("release", ["0.4.38", "0.8.3", "0.12.0"])
def test_what_each_release_tells(release: str) -> None:
    found, problems = collect_dumps(DUMPS / release)
    assert problems == []
    one, cast = found
    assert (cast.function.name, cast.partitions, cast.process) == ("cast", 8, release)
    named = release != "0.4.38"
    assert cast.program.mesh == ({"data": 4, "model": 2} if named else {})
    given = [(leaf.where, leaf.array, leaf.spec, leaf.bytes, leaf.copies) for leaf in cast.program.arrays]
    first, second = ("P('data', 'model')", "P('model', 'data')") if named else ("split 4 x 2", "split 2 x 4")
    results = ["out['w1']", "out['w2']"] if named else ["out 0", "out 1"]
    assert given == [
        ("p['w1']", "f32[512,1024]", first, 262144, 1),
        ("p['w2']", "f32[1024,512]", second, 262144, 1),
        (results[0], "bf16[512,1024]", first, 131072, 1),
        (results[1], "bf16[1024,512]", second, 131072, 1),
    ]
    assert [(leaf.donated, leaf.aliased) for leaf in cast.arguments] == [(True, False)] * 2
    assert cast.unplaced == frozenset()
    assert cast.program.collectives == ()
    assert (one.device_count, [leaf.spec for leaf in one.results]) == (1, ["one device"] * 2)


def test_a_dump_that_was_cut_off(tmp_path: Path) -> None:
    """A program that is killed while it compiles leaves half a file, and no others."""
    (whole,) = (DUMPS / "0.12.0").glob("*jit_cast.before_optimizations.txt")
    text = whole.read_text()
    for length in range(0, len(text), 97):
        (tmp_path / whole.name).write_text(text[:length])
        found, _ = collect_dumps(tmp_path)
        assert all(isinstance(one, Compiled) for one in found)
    (tmp_path / whole.name).write_text(text)
    (one,) = collect_dumps(tmp_path)[0]
    assert (one.seconds, [leaf.aliased for leaf in one.arguments]) == (0, [None, None])


def test_which_files_are_kept() -> None:
    names = [path.name for path in DUMPS.rglob("*") if path.is_file()]
    assert all(is_wanted_file(name) for name in names)
    for end in (
        "obj-file.add_kernel_module.o",
        "cpu_after_optimizations-buffer-assignment.txt",
        "debug_options",
    ):
        assert not is_wanted_file(f"1.module_0001.jit_f.{end}")


HLO = """\
HloModule {name}

FileNames
1 "{file}"
2 "/x/lib/python3.13/site-packages/lib/a.py"

FunctionNames
1 "<module>"
2 "{outer}"
3 "inner"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=9}}
2 {{file_name_id=1 function_name_id=2 line=4}}
3 {{file_name_id=2 function_name_id=3 line=70}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
3 {{file_location_id=3 parent_frame_id=3}}


ENTRY %main (x.1: f32[8]) -> f32[8] {{
  %x.1 = f32[8]{{0}} parameter(0), metadata={{op_name="x"}}
  ROOT %a = f32[8]{{0}} add(%x.1, %x.1), metadata={{op_name="jit(f)/add" stack_frame_id=3}}
}}
"""


def test_which_function_a_module_is(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import jax\n@jax.jit\ndef step(x):\n    return lib.inner(x)\n\n\n\n\nstep(1)\n")

    def function(name: str, outer: str) -> tuple[str, int, int, bool]:
        found = function_of(name, parse_module(HLO.format(name=name, file=file, outer=outer)))
        return found.name, found.line.line, found.call.line, found.own

    # The user's own, by the line of its definition and that of its call.
    assert function("jit_step", "step") == ("step", 3, 9, True)
    assert function("jit__lambda_", "<lambda>") == ("<lambda>", 4, 9, True)
    # A function of a library, compiled from the user's line.
    assert function("jit_inner", "step") == ("inner", 4, 4, False)
    assert function("jit_add", "step") == ("add", 4, 4, False)


def test_where_constants_come_from(tmp_path: Path) -> None:
    file = tmp_path / "module.mlir"
    file.write_text(
        '#loc1 = loc("/project/train.py":166:4 to :20)\n#loc2 = loc("/project/train.py":200:0)\n'
        '#loc3 = loc("train"(#loc1))\n#loc4 = loc("<module>"(#loc2))\n'
        '#loc5 = loc(callsite(#loc3 at #loc4))\n#loc6 = loc("jit(init)/broadcast_in_dim"(#loc5))\n'
    )
    assert operation_stacks(file) == [
        [Line("/project/train.py", 166, "train"), Line("/project/train.py", 200, "<module>")]
    ]
    assert operation_stacks(None) == operation_stacks(tmp_path / "none") == []


GATHERED = """\
HloModule jit_f, num_partitions=8

ENTRY %main (p: f32[8,64]) -> f32[64,8] {
  %p = f32[8,64]{1,0} parameter(0)
  %all-gather = f32[64,64]{1,0} all-gather(%p), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}
  %zero = s32[] constant(0)
  %offsets = s32[8]{0} constant({0, 8, 16, 24, 32, 40, 48, 56})
  %id = u32[] partition-id()
  %at = s32[1]{0} dynamic-slice(%offsets, %id), dynamic_slice_sizes={1}
  %offset = s32[] reshape(%at)
  ROOT %cut = f32[64,8]{1,0} dynamic-slice(%all-gather, %zero, %offset), dynamic_slice_sizes={64,8}
}
"""


def test_gathered_only_to_be_cut() -> None:
    def told(text: str) -> list[tuple[str, int]]:
        module = parse_module(text)
        return [(array, size) for array, _, size in gathered_to_be_cut(module, Lines(module), {"": 8})]

    assert told(GATHERED) == [("f32[64,64]", 64 * 64 * 4)]
    # Used whole too; a part of it only; a slice that is the same on each device.
    assert (
        told(GATHERED.replace("  ROOT %cut", "  %neg = f32[64,64]{1,0} negate(%all-gather)\n  ROOT %cut"))
        == []
    )
    assert told(GATHERED.replace("[1,8]<=[8]", "[2,4]<=[8]")) == []
    assert told(GATHERED.replace("dynamic-slice(%offsets, %id)", "dynamic-slice(%offsets, %zero)")) == []

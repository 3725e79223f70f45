"""The facts of a compiled function: `facts.Program`, from the compiler's dumps and jax's own answers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardlint.verify.facts import Array, Collective, Program
from shardlint.verify.inside import hlo, placed_arguments, tree
from shardlint.verify.inside.checks import is_on_one_device, sharding_text
from shardlint.verify.inside.compiled import ArgumentArray, Compiled
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.causes import cause_of_result
from shardlint.verify.inside.hlo.partitioner_warnings import find_indivisible, find_rematerialised
from shardlint.verify.paths import select_glob
from shardlint.verify.spec import P

_SHARDING = re.compile(r"\{.*\}")


@dataclass(frozen=True)
class Described:
    """A program, and what explains its outputs.

    `causes` holds, for each output, the collectives between it and what it is computed from, nearest first;
    `chosen` says of each output whether the compiler was free to place it (empty: not known).
    """

    program: Program
    causes: list[list[Collective]]
    chosen: list[bool]


def describe_program(
    compiled: Compiled,
    mesh: Any,
    host_arguments: Sequence[placed_arguments.HostArgument],
    out: Mapping[str, P],
    backend: str = "cpu",
) -> Described:
    """The facts of a function compiled on `mesh`; `host_arguments` are the arguments' specs, `out` those of outputs."""
    sizes = {str(name): int(size) for name, size in mesh.shape.items()}
    axes = Axes(sizes)
    names = {one.parameter: one.leaf.where for one in compiled.taken if one.parameter is not None}
    dumped, notes = compiled.dumped, []
    read, warned = hlo.Read.read_nothing(), []
    causes: list[list[Collective]] = [[] for _ in compiled.outputs]
    chosen: list[bool] = []
    # Of a program for one device nothing was partitioned: there are no collectives to look for.
    if dumped is not None and axes.devices > 1 and (dumped.after or _is_partitioned(compiled)):
        if dumped.after:
            original = dumped.original or None
            read = hlo.read_module(dumped.after, sizes, before=dumped.before, original=original, names=names or None)
            padded = find_indivisible(read.before, read.lines, axes)
            warned = [*find_rematerialised(dumped.said, read.lines, axes), *padded]
            chosen = _outputs_left_to_compiler(read.before.header, compiled)
        else:
            read = hlo.read_module(compiled.executable.as_text(), sizes, names=names or None)
            notes = [
                *dumped.notes,
                "the collectives are those of the optimised program; its products are not known",
            ]
        causes = [
            cause_of_result(read, compiled.first_output + at, len(compiled.outputs))
            for at in range(len(compiled.outputs))
        ]
    memory = compiled.executable.memory_analysis()
    inputs = [_array_of_argument(one, host_arguments, axes) for one in compiled.taken]
    outputs = [_array_of_output(leaf, out, axes) for leaf in compiled.outputs]
    program = Program(
        mesh=sizes,
        backend=backend,
        arrays=(*inputs, *outputs),
        collectives=tuple(read.collectives),
        products=tuple(read.products),
        warned=tuple(warned),
        argument_bytes=_memory_bytes(memory, "argument"),
        output_bytes=_memory_bytes(memory, "output"),
        alias_bytes=_memory_bytes(memory, "alias"),
        temporary_bytes=_memory_bytes(memory, "temp"),
        notes=tuple(notes),
    )
    return Described(program, causes, chosen)


def _memory_bytes(memory: Any, what: str) -> int:
    return int(getattr(memory, f"{what}_size_in_bytes", 0) or 0)


def _is_partitioned(compiled: Compiled) -> bool:
    """Return whether the program was compiled for several devices."""
    return "num_partitions=" in compiled.executable.as_text().split("\n", 1)[0]


def _outputs_left_to_compiler(header: str, compiled: Compiled) -> list[bool]:
    """For each output, whether its sharding was left to the compiler."""
    match = re.search(r"allow_spmd_sharding_propagation_to_output=\{([^}]*)\}", header)
    flags = [flag.strip() == "true" for flag in match[1].split(",")] if match else []
    if len(flags) == 1:
        flags *= compiled.first_output + len(compiled.outputs)
    return [
        at < len(flags) and flags[at]
        for at in range(compiled.first_output, compiled.first_output + len(compiled.outputs))
    ]


def _array_of_argument(
    array: ArgumentArray, host_arguments: Sequence[placed_arguments.HostArgument], axes: Axes
) -> Array:
    spec = host_arguments[array.argument].specs.get(array.leaf.path) if array.argument < len(host_arguments) else None
    expected = "" if spec is None else str(spec)
    return describe_array("in", array.leaf, axes, expected, array.given, array.aliased)


def _array_of_output(leaf: tree.Leaf, out: Mapping[str, P], axes: Axes) -> Array:
    wanted = select_glob(out, leaf.path)
    return describe_array("out", leaf, axes, "" if wanted is None else str(wanted[1]))


def describe_array(
    role: str,
    leaf: tree.Leaf,
    axes: Axes,
    expected: str = "",
    donated: bool = False,
    aliased: bool | None = None,
) -> Array:
    """An array leaf as reports know it."""
    whole = math.prod(leaf.shape) * tree.item_bytes(leaf.dtype)
    splits = axes_of(leaf.sharding, len(leaf.shape), axes)
    return Array(
        role,
        leaf.where,
        leaf.path,
        leaf.describe_array,
        leaf.shape,
        sharding_text(leaf.sharding),
        leaf.local_bytes,
        whole,
        _copy_count(leaf, splits, axes),
        splits,
        expected,
        donated,
        aliased,
    )


def axes_of(sharding: Any, rank: int, axes: Axes) -> tuple[tuple[str, ...], ...] | None:
    """The mesh axes of each dimension, or None where a sharding does not lie on the mesh by a spec."""
    if sharding is None or (is_on_one_device(sharding) and axes.devices > 1):
        return None
    if sharding.is_fully_replicated:
        return ((),) * rank
    spec = getattr(sharding, "spec", None)
    if spec is not None:
        entries = [() if one is None else (one,) if isinstance(one, str) else tuple(one) for one in spec]
        names = tuple(entries[:rank]) + ((),) * (rank - len(entries))
        return names if all(name in axes.mesh for entry in names for name in entry) else None
    written = _SHARDING.search(str(sharding))
    return axes.axes_of_sharding(written[0], rank) if written else None


def _copy_count(leaf: tree.Leaf, splits: tuple[tuple[str, ...], ...] | None, axes: Axes) -> int:
    if splits is not None:
        return axes.devices // math.prod(axes.mesh[name] for names in splits for name in names)
    if leaf.sharding is None or is_on_one_device(leaf.sharding):
        return 1
    ways = round(math.prod(leaf.shape) * tree.item_bytes(leaf.dtype) / max(1, leaf.local_bytes))
    return max(1, len(leaf.sharding.device_set) // max(1, ways))

"""How the mesh shares the work of each matrix product and convolution.

A device's part of a product tells how much smaller each dimension became, not along which axis; the module
before the partitioner has every array's sharding, but not what the partitioner made of it. Each product
is looked up in both, and an axis is named only where the two agree. One that cannot be found again
(because the partitioner made a loop of it), or whose shardings leave a choice, is left out.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardlint.verify.facts import Product
from shardlint.verify.inside.hlo import shapes
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.collectives import FoundCollective, line_of
from shardlint.verify.inside.hlo.flow import CARRY, Flow
from shardlint.verify.inside.hlo.lines import Lines
from shardlint.verify.inside.hlo.module import Computation, Instruction, Module, split_list, value_at
from shardlint.verify.inside.hlo.parallelism import (
    SIDES,
    Names,
    Shared,
    axes_of_weights,
    operand_with_weights,
    parallelism_of_products,
)

_EINSUM = re.compile(r"[A-Za-z.]+(?:,[A-Za-z.]+)+->[A-Za-z.]*")
_AGAIN = "rematted_computation"
_STEPS = 12
_SUMS = ("all-reduce", "reduce-scatter")


@dataclass(frozen=True)
class _Dimension:
    """One dimension of the computation: `left`, `right` (free in that operand), `reduced` or `batch`, and
    where it lies in the operands and the result.
    """

    role: str
    left: int | None
    right: int | None
    out: int | None


def find_products(
    module: Module,
    before: Module,
    flow: Flow,
    lines: Lines,
    axes: Axes,
    runs: Mapping[str, int | None],
    collectives: Sequence[FoundCollective],
) -> list[Product]:
    """The products of `module` whose axes are known, in its order; `collectives` are its collectives."""
    origins = {_plain_name(name): computation for name, computation in before.computations.items()}
    donated = parameters_handed_on(module)
    shared: list[Shared] = []
    for computation in module.computations.values():
        origin = origins.get(_plain_name(computation.name))
        if computation.name in runs and origin is not None:
            for after, first in _product_pairs(computation, origin):
                one = _share_of_product(after, first, flow, axes, donated)
                if one is not None:
                    shared.append(one)
    kinds = parallelism_of_products(shared)
    places = {id(one.instruction): index for index, one in enumerate(collectives)}
    return [
        Product(
            line_of(one.one, lines, flow),
            one.text,
            tuple(dict.fromkeys(one.axes["left"] + one.axes["right"])),
            one.axes["reduced"],
            one.axes["batch"],
            kind,
            one.flops,
            runs[one.one.computation.name],
            tuple(sorted(set(_collectives_of_product(one.one, flow, places)))),
            axes_of_weights(one) if one.weights else (),
        )
        for one, kind in zip(shared, kinds, strict=True)
    ]


def count_multiplications(instruction: Instruction) -> int:
    """How often a product or convolution multiplies, on one device; 0 where a shape is not known."""
    out, left = _shape_of_operand(instruction, None), _operand_shape(instruction, 0)
    if out is None or left is None:
        return 0
    if instruction.opcode == "dot":
        return math.prod(out.dims) * math.prod(
            left.dims[at] for at in instruction.attribute_integers("lhs_contracting_dims")
        )
    labels = re.match(r"(\w+)_", instruction.attribute_text("dim_labels"))
    return math.prod(out.dims) * (left.dims[labels[1].index("f")] if labels else 1) * _window_size(instruction)


def _operand_shape(instruction: Instruction, place: int) -> shapes.Shape | None:
    name, element = instruction.parse_operands()[place]
    return _shape_of_operand(instruction.computation.instructions.get(name), element)


def parameters_handed_on(module: Module) -> set[int]:
    """Parameters whose buffers an output may take: the state a step hands on, and no batch."""
    found: set[int] = set()
    for key, entry in (("input_output_alias", r"\}: \((\d+), \{"), ("buffer_donor", r"\((\d+), \{")):
        start = module.header.find(f"{key}={{")
        if start >= 0:
            text = value_at(module.header, start + len(key) + 1)
            found |= {int(number) for number in re.findall(entry, text)}
    return found


def _plain_name(name: str) -> str:
    """A computation's name without what the partitioner adds to it."""
    return re.sub(r"_spmd(\.clone)?(\.\d+)?$", "", name)


def _product_pairs(after: Computation, before: Computation) -> Iterator[tuple[Instruction, Instruction]]:
    """Each product with the one it was before; those that are not found the same number of times are left
    out.
    """
    lists: list[dict[tuple[object, ...], list[Instruction]]] = []
    for computation in (after, before):
        groups: dict[tuple[object, ...], list[Instruction]] = {}
        for one in computation:
            if one.opcode in ("dot", "convolution"):
                groups.setdefault(_identity_of_product(one), []).append(one)
        lists.append(groups)
    for key, found in lists[0].items():
        others = lists[1].get(key, [])
        if len(others) == len(found):
            yield from zip(found, others, strict=True)


def _identity_of_product(instruction: Instruction) -> tuple[object, ...]:
    keys = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims", "dim_labels")
    return (
        instruction.opcode,
        instruction.op_name,
        instruction.frame_number,
        instruction.source_line,
        *(instruction.attribute_text(key) for key in keys),
    )


def _share_of_product(
    after: Instruction, before: Instruction, flow: Flow, axes: Axes, donated: set[int]
) -> Shared | None:
    """The axes that split a product, or None where they cannot be told."""
    dimensions = _dimensions_of_product(before)
    operands = before.parse_operands()
    makers = [before.computation.instructions.get(name) for name, _ in operands]
    here = [after.computation.instructions.get(name) for name, _ in after.parse_operands()]
    if dimensions is None or len(operands) != 2 or None in makers or None in here:
        return None
    whole = [_shape_of_operand(one, element) for one, (_, element) in zip(makers, operands, strict=True)]
    local = [_shape_of_operand(one, element) for one, (_, element) in zip(here, after.parse_operands(), strict=True)]
    whole.append(_shape_of_operand(before, None))
    local.append(_shape_of_operand(after, None))
    if any(one is None for one in [*whole, *local]):
        return None
    sharded = [
        _operand_axes(one, element, axes)
        for one, element in [*zip(makers, (element for _, element in operands), strict=True), (before, None)]
    ]
    if None in sharded:
        return None
    chosen = _settle_axes([_possible_axes(one, whole, local, sharded, axes) for one in dimensions])  # type: ignore[arg-type]
    if chosen is None:
        return None
    split_by: dict[str, Names] = {"left": (), "right": (), "reduced": (), "batch": ()}
    for dimension, names in zip(dimensions, chosen, strict=True):
        split_by[dimension.role] += names
    left, right, out = (one for one in whole if one is not None)
    equation = _EINSUM.search(after.op_name)
    text = (f"{equation[0]}  " if equation else "") + f"{left} x {right} -> {out}"
    backward = "transpose(" in after.op_name
    return Shared(
        after,
        text + ("" if not backward else "  (recomputed)" if _AGAIN in after.op_name else "  (backward)"),
        split_by,
        2 * count_multiplications(after),
        operand_with_weights(after, flow, donated),
        backward,
        (after.frame_number, after.source_line, equation[0] if equation else ""),
    )


def _dimensions_of_product(instruction: Instruction) -> list[_Dimension] | None:
    return (
        _dimensions_of_convolution(instruction)
        if instruction.opcode == "convolution"
        else _dimensions_of_dot(instruction)
    )


def _dimensions_of_dot(instruction: Instruction) -> list[_Dimension] | None:
    makers = [instruction.computation.instructions.get(name) for name, _ in instruction.parse_operands()]
    if len(makers) != 2 or None in makers:
        return None
    ranks = []
    for maker, (_, element) in zip(makers, instruction.parse_operands(), strict=True):
        shape = _shape_of_operand(maker, element)
        if shape is None:
            return None
        ranks.append(len(shape.dims))
    batch = list(
        zip(
            instruction.attribute_integers("lhs_batch_dims"),
            instruction.attribute_integers("rhs_batch_dims"),
            strict=True,
        )
    )
    inner = list(
        zip(
            instruction.attribute_integers("lhs_contracting_dims"),
            instruction.attribute_integers("rhs_contracting_dims"),
            strict=True,
        )
    )
    found = [_Dimension("batch", left, right, at) for at, (left, right) in enumerate(batch)]
    found += [_Dimension("reduced", left, right, None) for left, right in inner]
    at = len(batch)
    for side in (0, 1):
        taken = {pair[side] for pair in [*batch, *inner]}
        for dim in range(ranks[side]):
            if dim not in taken:
                found.append(_Dimension(SIDES[side], dim if side == 0 else None, dim if side else None, at))
                at += 1
    return found


def _dimensions_of_convolution(instruction: Instruction) -> list[_Dimension] | None:
    labels = re.match(r"(\w+)_(\w+)->(\w+)", instruction.attribute_text("dim_labels"))
    grouped = any(
        instruction.attribute_text(key) not in ("", "1") for key in ("feature_group_count", "batch_group_count")
    )
    if labels is None or grouped:
        return None
    left, right, out = labels.groups()
    found = [
        _Dimension("left", left.index("b"), None, out.index("b")),
        _Dimension("right", None, right.index("o"), out.index("f")),
        _Dimension("reduced", left.index("f"), right.index("i"), None),
    ]
    # Along space devices exchange borders: only the result's size tells how many share it.
    found += [_Dimension("left", None, None, at) for at, label in enumerate(out) if label.isdigit()]
    return found


def _window_size(instruction: Instruction) -> int:
    size = re.search(r"size=([\dx]+)", instruction.attribute_text("window"))
    return math.prod(int(part) for part in size[1].split("x")) if size else 1


def _shape_of_operand(instruction: Instruction | None, element: int | None) -> shapes.Shape | None:
    """The one array an operand is."""
    if instruction is None:
        return None
    parts = shapes.parse_arrays(instruction.shape)
    at = 0 if element is None else element
    return parts[at] if at < len(parts) and (element is not None or len(parts) == 1) else None


def _operand_axes(instruction: Instruction | None, element: int | None, axes: Axes) -> tuple[Names, ...] | None:
    """The axes of each dimension of an operand; none of them where nothing was written beside it."""
    shape = _shape_of_operand(instruction, element)
    if instruction is None or shape is None:
        return None
    text = instruction.attribute_text("sharding")
    if not text:
        return ((),) * len(shape.dims)
    if element is not None:
        parts = split_list(text[1:-1])
        if element >= len(parts):
            return None
        text = parts[element]
    return axes.axes_of_sharding(text, len(shape.dims))


def _possible_axes(
    dimension: _Dimension,
    whole: Sequence[shapes.Shape],
    local: Sequence[shapes.Shape],
    sharded: Sequence[tuple[Names, ...]],
    axes: Axes,
) -> set[Names]:
    """The axes that can have made a dimension as small as it became."""
    at = [dimension.left, dimension.right, dimension.out]
    where = next(part for part, index in enumerate(at) if index is not None)
    index = at[where]
    assert index is not None
    size, became = whole[where].dims[index], local[where].dims[index]
    if became == size:
        return {()}
    named = [sharded[part][place] for part, place in enumerate(at) if place is not None]
    options = {names for names in named if _axes_fit_size(names, size, became, axes)}
    if options:
        return options
    # Part of what an operand is split by can be undone before the product.
    union = tuple(dict.fromkeys(name for names in named for name in names))
    return {
        names
        for count in range(1, len(union) + 1)
        for names in itertools.combinations(union, count)
        if _axes_fit_size(names, size, became, axes)
    }


def _settle_axes(options: list[set[Names]]) -> list[Names] | None:
    """One choice for each dimension, where there is only one: no axis splits two dimensions."""
    taken: set[str] = set()
    settled: dict[int, Names] = {}
    while len(settled) < len(options):
        left = [
            (at, {names for names in some if not taken & set(names)})
            for at, some in enumerate(options)
            if at not in settled
        ]
        sure = next(((at, some) for at, some in left if len(some) == 1), None)
        if sure is None:
            return None
        settled[sure[0]] = next(iter(sure[1]))
        taken |= set(settled[sure[0]])
    return [settled[at] for at in range(len(options))]


def _axes_fit_size(names: Names, size: int, became: int, axes: Axes) -> bool:
    ways = math.prod(axes.mesh[name] for name in names)
    return ways > 1 and -(-size // ways) == became


def _collectives_of_product(instruction: Instruction, flow: Flow, places: Mapping[int, int]) -> Iterator[int]:
    """The collectives that bring a product its operands or add up its results."""
    for operand in range(2):
        made = flow.producer_of_operand(instruction, operand)
        for _ in range(_STEPS):
            # A sum on the way is the cost of the product that made the operand.
            if made is None or made.opcode.startswith(_SUMS):
                break
            if id(made) in places:
                yield places[id(made)]
            elif made.opcode not in CARRY:
                break
            made = flow.producer_of_operand(made)
    level = [instruction]
    for _ in range(_STEPS):
        users = [user for made in level for user in made.computation.users_by_name.get(made.name, ())]
        for user in users:
            added = user.opcode.startswith(_SUMS)
            if id(user) in places and (
                added or (user.op_name == instruction.op_name and user.frame_number == instruction.frame_number)
            ):
                yield places[id(user)]
        level = [user for user in users if user.opcode in CARRY]

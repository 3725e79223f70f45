"""Data, tensor or hybrid: which side of a product the mesh splits, the activations' or the weights'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardlint.verify.inside.hlo.flow import Flow
from shardlint.verify.inside.hlo.module import Instruction

SIDES = ("left", "right")

Names = tuple[str, ...]


@dataclass
class Shared:
    """A product and the axes that split it, before it is known which operand are the weights."""

    one: Instruction
    text: str
    axes: dict[str, Names]
    flops: int
    weights: str
    backward: bool
    key: tuple[object, ...]


def operand_with_weights(instruction: Instruction, flow: Flow, donated: set[int]) -> str:
    """Which operand are the weights: `left`, `right`, or empty where that cannot be told.

    Weights are (a part of) an argument whose buffer the function hands on. Where it hands none on: an
    argument that meets what earlier products made, and shares no batch dimension with it.
    """
    operands = instruction.parse_operands()
    numbers = [flow.argument_number(name, element, instruction.computation) for name, element in operands]
    if donated:
        known = [number in donated for number in numbers]
    elif instruction.attribute_text("lhs_batch_dims"):
        return ""
    else:
        known = [
            numbers[side] is not None and flow.is_made(*operands[1 - side], instruction.computation)
            for side in (0, 1)
        ]
    return SIDES[known.index(True)] if known.count(True) == 1 else ""


def axes_of_weights(shared: Shared) -> Names:
    """The axes that split the weights' side of a product, or what both sides have in common."""
    return shared.axes[shared.weights] + shared.axes["reduced"] + shared.axes["batch"]


def parallelism_of_products(shared: Sequence[Shared]) -> list[str]:
    """The parallelism of each product (see `facts.Product`).

    Where neither side is known for the weights, a backward product is what its forward one is, and any
    other goes by what its axes do in the products that are known.
    """
    kinds: list[str | None] = []
    forward: dict[tuple[object, ...], set[str]] = {}
    roles: dict[str, set[str]] = {}
    for one in shared:
        if not any(one.axes.values()):
            kinds.append("none")
        elif one.weights:
            other = SIDES[one.weights == "left"]
            data, tensor = one.axes[other], axes_of_weights(one)
            for role, names in (("data", data), ("tensor", tensor)):
                for name in names:
                    roles.setdefault(name, set()).add(role)
            kinds.append(_kind_of_parallelism(bool(data), bool(tensor)))
        else:
            kinds.append(None)
        if not one.backward and kinds[-1] is not None:
            forward.setdefault(one.key, set()).add(kinds[-1])
    told = []
    for one, kind in zip(shared, kinds, strict=True):
        if kind is None:
            same = forward.get(one.key, set()) if one.backward else set()
            seen = [roles.get(name, set()) for names in one.axes.values() for name in names]
            if len(same) == 1:
                kind = next(iter(same))
            elif all(len(each) == 1 for each in seen):
                kind = _kind_of_parallelism({"data"} in seen, {"tensor"} in seen)
        told.append(kind or "")
    return told


def _kind_of_parallelism(data: bool, tensor: bool) -> str:
    return "hybrid" if data and tensor else "data" if data else "tensor" if tensor else "none"

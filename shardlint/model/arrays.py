"""Arrays as values: their shape, and over which axes of which mesh each dimension is split, as far as the text tells.

`Arrays.evaluate_array` is the question. What is placed (`device_put`, a constraint, a jit's `out_shardings`) is
followed through names, attributes, calls, arithmetic, transposes, reductions and contractions. A dimension of which
nothing is told is None. `Arrays.describe_contraction` says of a matmul or einsum which dimensions meet which axes, and
what has to be moved.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from shardlint.model import api
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.mesh.meshes import Mesh, Spec, mesh_of, sharding_parts, spec_of
from shardlint.model.shapes import ELEMENTWISE, PRODUCTS, Shape, shape_of
from shardlint.model.values import (
    Api,
    CallResult,
    Computed,
    Constant,
    Environment,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.source.lazy import dataclass

__all__ = ["Array", "Arrays", "Contraction", "Label", "Placement"]

Axes = tuple[str, ...] | None
"""The mesh axes that split a dimension; None where that is not known."""

_DEPTH = 12
_PLACING = {
    "jax.device_put": "device",
    "jax.lax.with_sharding_constraint": "shardings",
    "jax.reshard": "out_shardings",
    "equinox.filter_shard": "device_or_shardings",
}
# They give an array like their first argument, split the same way.
_KEEPING = ELEMENTWISE | {f"jax.numpy.{name}" for name in ("copy", "ones_like", "zeros_like")}
_REDUCING = frozenset(
    f"jax.numpy.{name}" for name in ("sum", "mean", "max", "min", "prod", "any", "all", "var", "std")
)


@dataclass(frozen=True)
class Placement:
    """Where an array is: the mesh if it is known, the axes that split each dimension, and where that was asked for."""

    mesh: Mesh | None
    axes: tuple[Axes, ...]
    place: Place

    def axes_of_dimension(self, dimension: int) -> Axes:
        """The axes that split a dimension; the dimensions a spec does not name are whole."""
        return self.axes[dimension] if dimension < len(self.axes) else ()


@dataclass(frozen=True)
class Array:
    """Shape and placement of an array, as far as they are known."""

    shape: Shape | None
    placement: Placement | None


@dataclass(frozen=True)
class Label:
    """A dimension of a contraction: its letter, size, role, and the axes that split it in the operands."""

    name: str
    size: int | None
    role: Literal["batch", "free of the left", "free of the right", "contracted"]
    left: Axes
    right: Axes

    @property
    def parallelism_kind(self) -> str:
        """Return the kind of parallelism of the axes on this dimension."""
        if self.role == "contracted":
            return "row parallel" if self.left and self.left == self.right else "FSDP" if self.right else ""
        if self.role == "free of the right":
            return "column parallel" if self.right else ""
        return "data parallel" if self.left else ""


@dataclass(frozen=True)
class Contraction:
    """A matmul or einsum: its dimensions, and the communication that follows from how they are split."""

    labels: tuple[Label, ...]
    moves: tuple[str, ...] = field(default=())


class Arrays:
    """Answers for expressions of one program, or of one way to them (see `Assuming`)."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def evaluate_array(self, place: Place, environment: Environment | None = None) -> Array:
        """Return the array that an expression makes."""
        env = environment or self.evaluator.environment(place)
        return Array(shape_of(self.evaluator, place, env), self._find_placement(place, env, 0))

    # placement

    def _find_placement(self, place: Place, env: Environment | None, depth: int) -> Placement | None:
        if depth > _DEPTH:
            return None
        file, node = place.file, place.node
        match node:
            case ast.BinOp(op=ast.MatMult()):
                return self._product_placement(place, env, depth)
            case ast.BinOp(left=left, right=right):
                return self._elementwise_placement(place, [Place(file, left), Place(file, right)], env, depth)
            case ast.UnaryOp(operand=operand):
                return self._find_placement(Place(file, operand), env, depth + 1)
            case ast.Attribute(attr="T", value=array):
                return self._transposed_placement(Place(file, array), env, depth)
            case ast.Call():
                return self._placement_of_call(place, node, env, depth)
        return self._placement_of_value(self.evaluator.value(place, env), depth)

    def _placement_of_value(self, value: Value, depth: int) -> Placement | None:
        """Where the array that a value is was made; agreed on by all ways there."""
        found = [self._placement_of_option(option, depth + 1) for option in options(value)]
        first = found[0]
        same = first is not None and all(one is not None and one.axes == first.axes for one in found)
        return first if same else None

    def _placement_of_option(self, value: Value, depth: int) -> Placement | None:
        if (
            isinstance(value, CallResult)
            and value.call is not None
            and isinstance(value.call.place.node, ast.Call)
        ):
            return self._placement_of_call(
                value.call.place, value.call.place.node, value.call.environment, depth
            )
        if isinstance(value, Computed) and value.place is not None:
            return self._find_placement(value.place, value.environment, depth)
        return None

    def _placement_of_call(
        self, place: Place, node: ast.Call, env: Environment | None, depth: int
    ) -> Placement | None:
        callee = self.evaluator.value(Place(place.file, node.func), env)
        arguments = self.evaluator.read_arguments(place, env)
        first = arguments.positional[0] if arguments.positional else None
        if isinstance(callee, Transformed) and callee.api.name in JIT_WRAPPERS:
            return self._placement_of_jit_result(callee, place)
        if isinstance(callee, Api):
            if callee.name in _PLACING:
                target = arguments.argument_for(_PLACING[callee.name], api.SIGNATURES.get(callee.name, ()))
                return (
                    self._placement_of_target(self.evaluator.value(target, env), place)
                    if target is not None
                    else None
                )
            if callee.name in PRODUCTS or callee.name == "jax.numpy.einsum":
                return self._product_placement(place, env, depth)
            if first is not None and callee.name in _KEEPING:
                return self._find_placement(first, env, depth + 1)
            if first is not None and callee.name in _REDUCING:
                return self._reduced_placement(first, arguments.keywords, arguments.positional, env, depth)
            if first is not None and callee.name == "jax.numpy.transpose" and len(arguments.positional) == 1:
                return self._transposed_placement(first, env, depth)
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("astype", "block_until_ready", "copy"):
            return self._find_placement(Place(place.file, node.func.value), env, depth + 1)
        result = self.evaluator.value(place, env)
        inside = isinstance(result, CallResult) and result.call is not None and result.call.place.node is node
        return None if inside else self._placement_of_value(result, depth + 1)

    def _placement_of_jit_result(self, function: Transformed, place: Place) -> Placement | None:
        """Return the placement of a jit's result by its `out_shardings`, if that is one array."""
        given = function.call.keywords.get("out_shardings") if function.call is not None else None
        if given is None or function.call is None:
            return None
        return self._placement_of_target(self.evaluator.value(given, function.call.environment), place)

    def _placement_of_target(self, target: Value, place: Place) -> Placement | None:
        found = options(target)
        if len(found) != 1:
            return None
        parts = sharding_parts(found[0], self.evaluator)
        mesh = mesh_of(parts[0], self.evaluator) if parts is not None else None
        specs = options(parts[1] if parts is not None else found[0])
        spec = spec_of(specs[0], self.evaluator) if len(specs) == 1 else None
        return Placement(mesh, _axes_of_spec(spec), place) if spec is not None and not spec.open else None

    def _transposed_placement(self, place: Place, env: Environment | None, depth: int) -> Placement | None:
        inner, shape = self._find_placement(place, env, depth + 1), shape_of(self.evaluator, place, env)
        if inner is None or shape is None:
            return None
        return Placement(
            inner.mesh, tuple(inner.axes_of_dimension(one) for one in reversed(range(len(shape)))), inner.place
        )

    def _elementwise_placement(
        self, whole: Place, parts: Sequence[Place], env: Environment | None, depth: int
    ) -> Placement | None:
        """Arithmetic: where one operand is split, and the other is not an array or split alike, so is the result."""
        found = [
            (self._find_placement(part, env, depth + 1), shape_of(self.evaluator, part, env))
            for part in parts
        ]
        placed = [placement for placement, _ in found if placement is not None]
        rest = [shape for placement, shape in found if placement is None]
        if len(placed) == 1 and rest == [()]:
            return placed[0]
        alike = len(placed) == 2 and placed[0].axes == placed[1].axes
        return placed[0] if alike and found[0][1] == found[1][1] else None

    def _reduced_placement(
        self,
        array: Place,
        keywords: Mapping[str, Place],
        positional: Sequence[Place],
        env: Environment | None,
        depth: int,
    ) -> Placement | None:
        inner, shape = self._find_placement(array, env, depth + 1), shape_of(self.evaluator, array, env)
        axis = keywords.get("axis") or (positional[1] if len(positional) > 1 else None)
        if inner is None or shape is None or axis is None or "keepdims" in keywords:
            return None
        value = self.evaluator.value(axis, env)
        if not isinstance(value, Constant) or not isinstance(value.value, int):
            return None
        gone = value.value % len(shape) if shape else 0
        kept = tuple(inner.axes_of_dimension(one) for one in range(len(shape)) if one != gone)
        return Placement(inner.mesh, kept, inner.place)

    def _product_placement(self, place: Place, env: Environment | None, depth: int) -> Placement | None:
        """The result of a contraction keeps the axes of the dimensions that are left."""
        found = self._read_operands(place, env, depth)
        if found is None:
            return None
        _, output, labels, mesh = found
        axes = tuple(
            next((label.left or label.right for label in labels if label.name == name), None)
            for name in output
        )
        return Placement(mesh, axes, place)

    # contractions

    def describe_contraction(self, place: Place, environment: Environment | None = None) -> Contraction | None:
        """The dimensions of a matmul or einsum, and what has to be moved; None where an operand is not known."""
        found = self._read_operands(place, environment or self.evaluator.environment(place), 0)
        if found is None:
            return None
        labels = found[2]
        return Contraction(labels, tuple(_explain_communication(labels)))

    def _read_operands(
        self, place: Place, env: Environment | None, depth: int
    ) -> tuple[list[str], str, tuple[Label, ...], Mesh | None] | None:
        written = self._product_letters(place, env)
        if written is None:
            return None
        inputs, output, operands = written
        known = [
            (shape_of(self.evaluator, one, env), self._find_placement(one, env, depth + 1))
            for one in operands
        ]
        if any(placement is None for _, placement in known):
            return None
        labels = []
        for name in dict.fromkeys("".join(inputs)):
            sides: list[Axes] = [None, None]
            size: int | None = None
            for side, (letters, (shape, placement)) in enumerate(zip(inputs, known, strict=True)):
                if name in letters and placement is not None:
                    sides[side] = placement.axes_of_dimension(letters.index(name))
                    if shape is not None and len(shape) == len(letters):
                        size = size if size is not None else shape[letters.index(name)]
            labels.append(Label(name, size, _role_of_dimension(name, inputs, output), *sides))
        mesh = next((placement.mesh for _, placement in known if placement is not None), None)
        return inputs, output, tuple(labels), mesh

    def _product_letters(
        self, place: Place, env: Environment | None
    ) -> tuple[list[str], str, list[Place]] | None:
        """The letters of the operands and of the result, and the operands, of a product of two arrays."""
        node = place.node
        if isinstance(node, ast.BinOp):
            operands = [Place(place.file, node.left), Place(place.file, node.right)]
        elif isinstance(node, ast.Call) and not any(isinstance(one, ast.Starred) for one in node.args):
            operands = [Place(place.file, one) for one in node.args]
            first = self.evaluator.value(operands[0], env) if operands else None
            if isinstance(first, Constant) and isinstance(first.value, str):
                return _parse_einsum(first.value, operands[1:])
            callee = self.evaluator.value(Place(place.file, node.func), env)
            if not isinstance(callee, Api) or callee.name not in PRODUCTS:
                return None
        else:
            return None
        ranks = [shape_of(self.evaluator, one, env) for one in operands]
        if len(operands) != 2 or ranks[0] is None or ranks[1] is None or not ranks[0] or len(ranks[1]) != 2:
            return None
        left = "abcdefgh"[: len(ranks[0]) - 1]
        return [f"{left}k", "kn"], f"{left}n", operands


def _axes_of_spec(spec: Spec) -> tuple[Axes, ...]:
    return tuple(entry.axes if entry.known and not entry.unconstrained else None for entry in spec.entries)


def _parse_einsum(text: str, operands: list[Place]) -> tuple[list[str], str, list[Place]] | None:
    inputs, arrow, output = text.replace(" ", "").partition("->")
    letters = inputs.split(",")
    if (
        not arrow
        or len(letters) != 2
        or len(operands) != 2
        or not (inputs.replace(",", "") + output).isalpha()
    ):
        return None
    return letters, output, operands


def _role_of_dimension(
    name: str, inputs: Sequence[str], output: str
) -> Literal["batch", "free of the left", "free of the right", "contracted"]:
    if name not in output:
        return "contracted"
    if name in inputs[0] and name in inputs[1]:
        return "batch"
    return "free of the left" if name in inputs[0] else "free of the right"


def _explain_communication(labels: Sequence[Label]) -> list[str]:
    """The communication that follows from how the dimensions are split."""
    kept = {axis for label in labels if label.role != "contracted" for axis in (label.left or ())}
    found = []
    for label in labels:
        left, right = label.left, label.right
        if label.role != "contracted" or left is None or right is None or not (left or right):
            continue
        if left == right:
            found.append(f"all-reduce of the result over {_join_axes(left)}")
        elif right and not left:
            gathered = kept.intersection(right)
            found.append(
                f"all-gather of the right operand over {_join_axes(right)}"
                if gathered
                else f"all-gather of the right operand, or all-reduce of the result, over {_join_axes(right)}"
            )
        elif left and not right:
            found.append(
                f"all-reduce of the result over {_join_axes(left)}, with the right operand cut to fit"
            )
        else:
            found.append(f"one operand is moved from {_join_axes(left)} to {_join_axes(right)}, or back")
    return found


def _join_axes(axes: Sequence[str]) -> str:
    return " and ".join(map(repr, axes))

"""Products of arrays beside `matmul` and `einsum`, and linear algebra: as contractions, or as elementwise products."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, multiply_size
from shardlint.layouts.values import Call, Unknown, Value, known_items
from shardlint.libraries.jax_numpy import (
    check_whole_along,
    contract_letters,
    place_by_module,
    ravel_array,
    reduce_array,
)
from shardlint.libraries.meeting import (
    NO_AXES,
    broadcast_values,
    computed_array,
    layout_as_array,
    meet_operands,
    spec_entry,
)
from shardlint.libraries.registry import register_function

_BOTH = ("jax.numpy", "numpy")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _product_operands(call: Call) -> tuple[Layout, Layout]:
    return layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "b"))


def _unknown_product(call: Call, arrays: tuple[Layout, ...]) -> Layout:
    return place_by_module(call, replace(meet_operands(call, arrays), mesh=None, dtype=None).with_shape(None))


def _contract_pairs(
    call: Call, left: Layout, right: Layout, pairs: list[tuple[int, int]], batch: list[tuple[int, int]]
) -> Value:
    """A contraction of pairs of dimensions; those of `batch` come first in the result."""
    if left.rank is None or right.rank is None:
        return _unknown_product(call, (left, right))
    one, two = list(_LETTERS[: left.rank]), list(_LETTERS[left.rank : left.rank + right.rank])
    for first, second in (*pairs, *batch):
        two[second] = one[first]
    shared = [one[first] for first, _ in batch]
    gone = {one[first] for first, _ in pairs}
    free = [name for name in (*one, *two) if name not in gone and name not in shared]
    return place_by_module(
        call, contract_letters(call, left, right, ("".join(one), "".join(two), "".join((*shared, *free))))
    )


def _dimension_numbers(value: Value, rank: int | None) -> list[int] | None:
    items = (value,) if isinstance(value, int) else known_items(value)
    if items is None or rank is None or not all(isinstance(one, int) and -rank <= one < rank for one in items):
        return None
    return [one % rank for one in items]


def _dimension_pairs(value: Value, left: Layout, right: Layout) -> list[tuple[int, int]] | None:
    """The pairs of dimensions that a pair of lists of numbers names."""
    parts = known_items(value)
    if parts is None or len(parts) != 2:
        return None
    one, two = _dimension_numbers(parts[0], left.rank), _dimension_numbers(parts[1], right.rank)
    return list(zip(one, two, strict=True)) if one is not None and two is not None and len(one) == len(two) else None


@register_function("jax.lax dot_general")
def dot_general(call: Call) -> Value:
    """A contraction as jax spells it: the dimensions that are summed, and those of the batch."""
    left, right = _product_operands(call)
    parts = known_items(call.argument_at(2, "dimension_numbers"))
    summed = _dimension_pairs(parts[0], left, right) if parts is not None and len(parts) == 2 else None
    batch = _dimension_pairs(parts[1], left, right) if parts is not None and len(parts) == 2 else None
    if summed is None or batch is None:
        return _unknown_product(call, (left, right))
    return _contract_pairs(call, left, right, summed, batch)


@register_function(*(f"{module} tensordot" for module in _BOTH))
def tensor_dot(call: Call) -> Value:
    """The last dimensions of the left meet the first of the right, or those that are named."""
    left, right = _product_operands(call)
    axes = call.argument_at(2, "axes", 2)
    if left.rank is None or right.rank is None:
        return _unknown_product(call, (left, right))
    if isinstance(axes, int) and 0 <= axes <= min(left.rank, right.rank):
        pairs: list[tuple[int, int]] | None = [(left.rank - axes + place, place) for place in range(axes)]
    else:
        pairs = _dimension_pairs(axes, left, right)
    return (
        _unknown_product(call, (left, right))
        if pairs is None
        else _contract_pairs(call, left, right, pairs, [])
    )


@register_function(*(f"{module} inner" for module in _BOTH))
def inner_product(call: Call) -> Value:
    """The last dimensions meet."""
    left, right = _product_operands(call)
    if not left.rank or not right.rank:
        return _unknown_product(call, (left, right))
    return _contract_pairs(call, left, right, [(left.rank - 1, right.rank - 1)], [])


@register_function(*(f"{module} vdot" for module in _BOTH))
def vector_dot(call: Call) -> Value:
    """The product of all entries, summed."""
    left, right = (
        layout_as_array(ravel_array(replace(call, args=(one,), keywords={}))) for one in _product_operands(call)
    )
    return _contract_pairs(call, left, right, [(0, 0)], [])


def _with_unit_dimensions(array: Layout, first: bool) -> Layout:
    """An array with a dimension of size 1 before or after each of its own."""
    spec = array.typed_spec
    entries = [((one, NO_AXES) if first else (NO_AXES, one)) for one in spec or ()]
    sizes = [((one, 1) if first else (1, one)) for one in array.shape or ()]
    flat: Shape = tuple(size for pair in sizes for size in pair)
    return array.with_shape(flat, tuple(axes for pair in entries for axes in pair) if spec is not None else None)


@register_function(*(f"{module} outer kron" for module in _BOTH))
def outer_product(call: Call) -> Value:
    """Each entry of the one by each of the other."""
    left, right = _product_operands(call)
    if call.function_name == "outer":
        left, right = (
            layout_as_array(ravel_array(replace(call, args=(one,), keywords={}))) for one in (left, right)
        )
    if left.rank is None or left.rank != right.rank:
        return _unknown_product(call, (left, right))
    found = broadcast_values(call, (_with_unit_dimensions(left, True), _with_unit_dimensions(right, False)))
    if call.function_name == "outer" or found.shape is None:
        return place_by_module(call, found)
    sizes = zip(left.shape or (), right.shape or (), strict=True)
    shape = tuple(multiply_size(one, two) for one, two in sizes)
    whole = found.typed_spec is not None and not any(found.typed_spec)
    if found.is_explicit and not whole:
        found = replace(found, mesh=None)
    return place_by_module(call, found.with_shape(shape, (NO_AXES,) * len(shape) if whole else None))


@register_function("jax.numpy.linalg norm", "numpy.linalg norm")
def norm_of_array(call: Call) -> Value:
    """A norm over one dimension, over two, or over all of them."""
    array, axis, order = (
        layout_as_array(call.argument_at(0, "x")),
        call.argument_at(2, "axis", None),
        call.argument_at(1, "ord", None),
    )
    home, keep = call.name.partition(".linalg")[0], call.argument_at(3, "keepdims", False)
    total = replace(call, name=f"{home}.sum", args=(call.argument_at(0, "x"), axis), keywords={"keepdims": keep})
    if isinstance(axis, int | None) and order is None:
        return reduce_array(total)
    found = layout_as_array(
        reduce_array(replace(total, args=(array.with_shape(array.shape), axis)))
    )  # its spec depends on `ord`
    return place_by_module(call, computed_array(call, [array], found.shape, found.dtype))


def check_matrix(call: Call, matrix: Layout) -> None:
    """Record a matrix that is split over Explicit axes: a batch of them may be."""
    for place in range(max((matrix.rank or 0) - 2, 0), matrix.rank or 0):
        if matrix.is_explicit and spec_entry(matrix, place):
            check_whole_along(call, matrix, place)
            break


@register_function("jax.numpy.linalg solve inv", "numpy.linalg solve inv")
def solve_matrix(call: Call) -> Value:
    """The inverse of a matrix, or of it by another one; over Explicit axes the matrix is whole."""
    matrix = layout_as_array(call.argument_at(0, "a"))
    other = layout_as_array(call.argument_at(1, "b")) if call.function_name == "solve" else matrix
    if isinstance(call.argument_at(0, "a"), Unknown):
        return Layout()
    base = meet_operands(call, [matrix, other])
    check_matrix(call, matrix)
    specs = [one.typed_spec for one in (matrix, other) if one.is_explicit]
    whole = all(spec is not None and not any(spec) for spec in specs)
    if base.is_explicit and not whole:
        base = replace(base, mesh=None)
    spec = (NO_AXES,) * len(other.shape) if whole and other.shape is not None else None
    return place_by_module(call, base.with_shape(other.shape, spec))

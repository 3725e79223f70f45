"""Functions of jax.lax and jax.ops that slice, pad, reduce, scatter or sort: shapes, and specs of whole arrays."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, Size, count_entries
from shardlint.layouts.values import AnyTree, Call, ListValue, Unknown, Value, known_items, map_tree
from shardlint.libraries.jax_numpy import (
    check_whole_along,
    dtype_of,
    make_array,
    reshape_array,
    size_of,
    sizes_of,
)
from shardlint.libraries.jax_slices import compute_resized
from shardlint.libraries.meeting import (
    common_properties,
    computed_array,
    is_recent,
    layout_as_array,
    refuses_outside,
    typed_like,
)
from shardlint.libraries.registry import register_function


def _array_arguments(call: Call, *names: str) -> list[Layout]:
    """The arrays among the first arguments."""
    return [layout_as_array(call.argument_at(place, name)) for place, name in enumerate(names)]


def _integers_or_none(value: Value) -> tuple[int, ...] | None:
    items = (value,) if isinstance(value, int) else known_items(value)
    return items if items is not None and all(isinstance(one, int) for one in items) else None


@register_function("jax.lax slice")
def slice_block(call: Call) -> Value:
    """A block with a first and last entry and a step for each dimension."""
    array = layout_as_array(call.argument_at(0, "operand"))
    parts = (
        _integers_or_none(call.argument_at(1, "start_indices")),
        _integers_or_none(call.argument_at(2, "limit_indices")),
    )
    given = call.argument_at(3, "strides", None)
    steps = (1,) * len(parts[0] or ()) if given is None else _integers_or_none(given)
    shape: Shape | None = None
    if parts[0] is not None and parts[1] is not None and steps is not None and 0 not in steps:
        shape = tuple(len(range(*one)) for one in zip(parts[0], parts[1], steps, strict=False))
    return compute_resized(call, array, shape, array.dtype)


@register_function("jax.lax pad")
def pad_entries(call: Call) -> Value:
    """More entries, or fewer, at the ends of each dimension and between its entries."""
    array, edges = layout_as_array(call.argument_at(0, "operand")), known_items(call.argument_at(2, "padding_config"))
    rows = [_integers_or_none(one) for one in edges or ()]
    sizes: list[Size] = []
    for size, row in zip(array.shape or (), rows, strict=False):
        if isinstance(size, int) and row is not None and len(row) == 3:
            sizes.append(size + row[0] + row[1] + max(size - 1, 0) * row[2])
        else:
            sizes.append(None)
    return compute_resized(call, array, tuple(sizes) if array.rank == len(rows) else None, array.dtype)


@register_function("jax.lax collapse")
def collapse_dimensions(call: Call) -> Value:
    """Neighboring dimensions as one."""
    array, rank = layout_as_array(call.argument_at(0, "operand")), layout_as_array(call.argument_at(0, "operand")).rank
    start, stop = call.argument_at(1, "start_dimension"), call.argument_at(2, "stop_dimension", None)
    if array.shape is None or rank is None or not isinstance(start, int) or not isinstance(stop, int | None):
        return computed_array(call, [array], None, array.dtype)
    first, last = slice(start, stop).indices(rank)[:2]
    shape = (*array.shape[:first], count_entries(array.shape[first:last]), *array.shape[last:])
    wanted = tuple(Unknown("a size") if one is None else one for one in shape)
    return reshape_array(replace(call, name="jax.lax.reshape", args=(array, wanted), keywords={}))


@register_function("jax.lax reduce reduce_max reduce_min reduce_sum reduce_prod reduce_and reduce_or reduce_xor")
def reduce_dimensions(call: Call) -> Value:
    """Arrays without the dimensions over which they are reduced."""
    general = call.function_name == "reduce"
    places = _integers_or_none(call.argument_at(3 if general else 1, "dimensions" if general else "axes"))

    def reduce_one(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        if array.shape is None or places is None:
            return computed_array(call, [array], None, array.dtype)
        rest = tuple(size for place, size in enumerate(array.shape) if place not in places)
        spec = array.typed_spec
        kept = tuple(axes for place, axes in enumerate(spec) if place not in places) if spec is not None else None
        return typed_like(computed_array(call, [array], rest, array.dtype), array, kept)

    tree = call.argument_at(0, "operands" if general else "operand")
    return map_tree(reduce_one, tree) if not isinstance(tree, Unknown) else AnyTree(Unknown())


@register_function("jax.lax argmax argmin")
def index_of_greatest(call: Call) -> Value:
    """Where the greatest or smallest entry of a dimension is."""
    array, axis = layout_as_array(call.argument_at(0, "operand")), call.argument_at(1, "axis")
    shape: Shape | None = None
    if array.shape and isinstance(axis, int):
        place = axis % len(array.shape)
        shape = (*array.shape[:place], *array.shape[place + 1 :])
    return computed_array(call, [array], shape, dtype_of(call.argument_at(2, "index_dtype", None)))


@register_function("jax.lax rev")
def reverse_dimensions(call: Call) -> Value:
    """An array with dimensions turned round."""
    array = layout_as_array(call.argument_at(0, "operand"))
    return compute_resized(call, array, array.shape, array.dtype)


@register_function("jax.lax split")
def split_dimension(call: Call) -> Value:
    """Parts of the sizes given along a dimension."""
    array, sizes, axis = (
        layout_as_array(call.argument_at(0, "operand")),
        known_items(call.argument_at(1, "sizes")),
        call.argument_at(2, "axis", 0),
    )
    if array.shape is None or sizes is None or not isinstance(axis, int) or not array.shape:
        return ListValue([computed_array(call, [array], None, array.dtype)], True)
    place = axis % len(array.shape)
    shapes = [(*array.shape[:place], size_of(one), *array.shape[place + 1 :]) for one in sizes]
    return tuple(compute_resized(call, array, shape, array.dtype) for shape in shapes)


@register_function("jax.lax sort_key_val")
def sort_both(call: Call) -> Value:
    """Keys in order, and values in the order of the keys."""
    keys, values, axis = (
        layout_as_array(call.argument_at(0, "keys")),
        layout_as_array(call.argument_at(1, "values")),
        call.argument_at(2, "dimension", -1),
    )
    if keys.rank and isinstance(axis, int) and is_recent(call):
        check_whole_along(call, keys, axis % keys.rank)
    return tuple(computed_array(call, [keys, values], one.shape, one.dtype) for one in (keys, values))


@register_function("jax.lax scatter scatter_add scatter_mul scatter_min scatter_max scatter_apply")
def scatter_entries(call: Call) -> Value:
    """An array with entries replaced or changed."""
    arrays = _array_arguments(call, "operand", "scatter_indices", "updates")
    return computed_array(call, arrays, arrays[0].shape, arrays[0].dtype)


@register_function("jax.lax associative_scan")
def associative_scan(call: Call) -> Value:
    """A function of neighbors, applied to all entries so far: trees of arrays as before."""
    tree, axis = call.argument_at(1, "elems"), call.argument_at(3, "axis", 0)
    if isinstance(tree, Unknown):
        return AnyTree(Unknown())

    def scan_one(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        if array.rank and isinstance(axis, int):  # it takes every second entry, again and again
            check_whole_along(call, array, axis % array.rank)
        return compute_resized(call, array, array.shape)

    return map_tree(scan_one, tree)


@register_function("jax.lax ragged_dot")
def ragged_dot(call: Call) -> Value:
    """A product of groups of rows, each with a matrix of its own."""
    rows, matrices, groups = _array_arguments(call, "lhs", "rhs", "group_sizes")
    wanted = call.argument_at(4, "preferred_element_type", None)
    dtype = common_properties([rows, matrices]).dtype if wanted is None else dtype_of(wanted)
    shape: Shape | None = None
    if rows.shape is not None and matrices.shape is not None and len(rows.shape) == 2 and len(matrices.shape) == 3:
        shape = (rows.shape[0], matrices.shape[2])
    return computed_array(call, [rows, matrices, groups], shape, dtype)


@register_function("jax.lax batch_matmul")
def batch_matmul(call: Call) -> Value:
    """Products of matrices, one for each entry of the first dimensions."""
    left, right = layout_as_array(call.argument_at(0, "lhs")), layout_as_array(call.argument_at(1, "rhs"))
    known = left.shape is not None and right.shape is not None and len(left.shape) > 1 and len(right.shape) > 1
    shape = (*left.shape[:-1], right.shape[-1]) if known and left.shape and right.shape else None
    return computed_array(call, [left, right], shape, common_properties([left, right]).dtype)


@register_function("jax.lax rng_uniform")
def draw_uniform(call: Call) -> Value:
    """Random numbers of the shape given."""
    return make_array(call, sizes_of(call.argument_at(2, "shape")), None)


@register_function("jax.ops segment_sum segment_max segment_min segment_prod")
def reduce_segments(call: Call) -> Value:
    """The rows of each segment, reduced to one."""
    data, numbers = layout_as_array(call.argument_at(0, "data")), layout_as_array(call.argument_at(1, "segment_ids"))
    count = size_of(call.argument_at(2, "num_segments", None))
    shape: Shape | None = None
    if data.shape is not None and numbers.rank is not None:
        shape = (count, *data.shape[numbers.rank :])
    return computed_array(call, [data, numbers], shape, data.dtype, refuses_outside(call))

"""flax.jax_utils and flax.training.common_utils: arrays with one entry for each device, and others of trainers."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.iteration import iterate_value, join_items
from shardlint.layouts.layout import Figure, Layout, Rows
from shardlint.layouts.values import (
    AnyTree,
    Call,
    ListValue,
    Unknown,
    Value,
    is_function,
    known_items,
    map_tree,
)
from shardlint.libraries.device_rows import check_entry_contract, check_first, check_second_device_dimension
from shardlint.libraries.jax_numpy import size_of
from shardlint.libraries.jax_sharding import place_of
from shardlint.libraries.jax_transforms import without_dimension
from shardlint.libraries.meeting import computed_array, host_array, layout_as_array
from shardlint.libraries.registry import register_function


@register_function("flax.jax_utils.replicate", "jax.device_put_replicated")
def replicate_tree(call: Call) -> Value:
    """Each leaf once for each device, along a new first dimension."""
    tree, rows, where = call.argument_at(0, "tree"), Rows("equal", call.place), place_of(call, 0, "tree")

    def replicate_leaf(leaf: Value) -> Value:
        if not isinstance(leaf, Layout | int | float):
            return leaf if is_function(leaf) else AnyTree(Layout(rows=rows))
        array = layout_as_array(leaf)
        check_second_device_dimension(call, array, where)
        shape = (None, *array.shape) if array.shape is not None else None
        # The place of a key that is copied by itself: what is drawn with it is told there.
        copies = Figure("repeated", frozenset(), call.place if tree is leaf and array.is_key else None)
        return Layout(shape, array.dtype, committed=True, host=False, memory="device", figure=copies, rows=rows)

    return map_tree(replicate_leaf, AnyTree(Layout()) if isinstance(tree, Unknown) else tree)


@register_function("flax.jax_utils.unreplicate")
def unreplicate_tree(call: Call) -> Value:
    """The first entry of each leaf."""
    tree, where = call.argument_at(0, "tree"), place_of(call, 0, "tree")

    def first_entry(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        check_first(call, array)
        check_entry_contract(call, array, "rows.taken", where)
        return replace(
            without_dimension(array, 0) if array.shape else Layout(), rows=Rows("taken", call.place)
        )

    return map_tree(first_entry, AnyTree(Layout()) if isinstance(tree, Unknown) else tree)


@register_function("flax.training.common_utils.shard")
def shard_tree(call: Call) -> Value:
    """Each leaf divided along a new first dimension."""

    def divide_leaf(leaf: Value) -> Value:
        known = isinstance(leaf, Layout) and leaf.shape
        return Layout((None, None, *leaf.shape[1:]), leaf.dtype, host=leaf.host) if known else Layout()

    tree = call.argument_at(0, "xs")
    return map_tree(divide_leaf, tree) if not isinstance(tree, Unknown) else Unknown()


@register_function("flax.jax_utils.prefetch_to_device")
def prefetch_trees(call: Call) -> Value:
    """The same trees, one after the other, each array with its first dimension spread over the devices."""

    def spread_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        return Layout(array.shape, array.dtype, committed=True, host=False, memory="device")

    each = join_items(
        call.interpreter, iterate_value(call.interpreter, call.argument_at(0, "iterator"), call.place)
    )
    return ListValue([AnyTree(Layout()) if isinstance(each, Unknown) else map_tree(spread_leaf, each)], True)


@register_function("flax.training.common_utils.onehot")
def one_hot_rows(call: Call) -> Value:
    """A row of numbers for each label."""
    labels, count = layout_as_array(call.argument_at(0, "labels")), size_of(call.argument_at(1, "num_classes"))
    return computed_array(
        call, [labels], (*labels.shape, count) if labels.shape is not None else None, "float32"
    )


@register_function("flax.training.common_utils.shard_prng_key")
def shard_key(call: Call) -> Value:
    """A key for each local device."""
    key = layout_as_array(call.argument_at(0, "prng_key"))
    return Layout((None, *key.shape) if key.shape is not None else None, key.dtype, host=False)


@register_function("flax.training.common_utils stack_forest get_metrics")
def stack_forest(call: Call) -> Value:
    """The leaves of trees, each stacked along a new first dimension, as arrays of numpy."""
    forest = call.argument_at(0, "forest")
    tree = join_items(call.interpreter, forest)
    if isinstance(tree, Unknown | AnyTree):
        return AnyTree(Layout(host=True))
    items = known_items(forest)
    count = len(items) if items is not None else None

    def stack_leaves(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        if call.function_name == "get_metrics":  # of the copies on the devices, the first one
            array = without_dimension(array, 0) if array.shape else Layout(None, array.dtype)
        return host_array((count, *array.shape) if array.shape is not None else None, array.dtype)

    return map_tree(stack_leaves, tree)

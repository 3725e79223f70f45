"""flax.jax_utils, whose functions make arrays with one entry for each device, and take the first one."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Figure, Layout, Rows
from shardlint.layouts.values import AnyTree, Call, Unknown, Value, is_function, map_tree
from shardlint.libraries.device_rows import check_again, check_first, check_taken
from shardlint.libraries.jax_sharding import place_of
from shardlint.libraries.jax_transforms import without
from shardlint.libraries.meeting import as_array
from shardlint.libraries.registry import function


@function("flax.jax_utils.replicate", "jax.device_put_replicated")
def replicate(call: Call) -> Value:
    """Each leaf once for each device, along a new first dimension."""
    tree, rows, where = call.get(0, "tree"), Rows("equal", call.place), place_of(call, 0, "tree")

    def each(leaf: Value) -> Value:
        if not isinstance(leaf, Layout | int | float):
            return leaf if is_function(leaf) else AnyTree(Layout(rows=rows))
        array = as_array(leaf)
        check_again(call, array, where)
        shape = (None, *array.shape) if array.shape is not None else None
        # The place of a key that is copied by itself: what is drawn with it is told there.
        copies = Figure("repeated", frozenset(), call.place if tree is leaf and array.is_key else None)
        return Layout(shape, array.dtype, committed=True, host=False, memory="device", figure=copies, rows=rows)

    return map_tree(each, AnyTree(Layout()) if isinstance(tree, Unknown) else tree)


@function("flax.jax_utils.unreplicate")
def unreplicate(call: Call) -> Value:
    """The first entry of each leaf."""
    tree, where = call.get(0, "tree"), place_of(call, 0, "tree")

    def first(leaf: Value) -> Value:
        array = as_array(leaf)
        check_first(call, array)
        check_taken(call, array, "rows.taken", where)
        return replace(without(array, 0) if array.shape else Layout(), rows=Rows("taken", call.place))

    return map_tree(first, AnyTree(Layout()) if isinstance(tree, Unknown) else tree)


@function("flax.training.common_utils.shard")
def shard(call: Call) -> Value:
    """Each leaf divided along a new first dimension."""

    def divided(leaf: Value) -> Value:
        known = isinstance(leaf, Layout) and leaf.shape
        return Layout((None, None, *leaf.shape[1:]), leaf.dtype, host=leaf.host) if known else Layout()

    tree = call.get(0, "xs")
    return map_tree(divided, tree) if not isinstance(tree, Unknown) else Unknown()

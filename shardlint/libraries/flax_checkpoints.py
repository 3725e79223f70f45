"""Checkpoints of flax, and other files that trees of arrays are written to.

A fact of flax, tried: what is restored to a target has the dimensions of what was saved, which those of the target are
taken to be. But `from_bytes` gives no dimension for the devices, because most programs save one copy of a replicated
tree. `restore_checkpoint` gives the target itself if there is no checkpoint.
"""

from __future__ import annotations

from functools import partial

from shardlint.layouts.layout import Layout
from shardlint.layouts.values import AnyTree, Call, Unknown, Value, is_one_copy, map_tree, tree_leaves
from shardlint.libraries.device_rows import check_saved
from shardlint.libraries.jax_numpy import copy_to_host
from shardlint.libraries.jax_sharding import place_of
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function

# What each writes, by its place and name.
_WRITTEN = {
    "flax.training.checkpoints save_checkpoint save_checkpoint_multiprocess": (1, "target"),
    "flax.serialization to_bytes": (0, "target"),
    "flax.serialization msgpack_serialize": (0, "pytree"),
    "pickle dump dumps": (0, "obj"),
    "cloudpickle dump": (0, "obj"),
    "safetensors.flax save_file": (0, "tensors"),
}


def _check_saved_tree(position: int, name: str, call: Call) -> Value:
    where = place_of(call, position, name)
    tree = call.argument_at(position, name)
    # A program that takes one copy of some leaves means to save all rows of the others.
    for _, leaf in () if is_one_copy(tree) else tree_leaves(tree):
        check_saved(call, layout_as_array(leaf), where)
    return Unknown("what was written")


for _names, (_position, _name) in _WRITTEN.items():
    register_function(_names)(partial(_check_saved_tree, _position, _name))


@register_function("flax.training.checkpoints.restore_checkpoint")
def restore_checkpoint(call: Call) -> Value:
    """Arrays of the host like those of the target."""
    target = call.argument_at(1, "target", None)
    return AnyTree(Unknown()) if target is None or isinstance(target, Unknown) else map_tree(copy_to_host, target)


@register_function("flax.serialization.to_state_dict")
def to_state_dict(call: Call) -> Value:
    """The leaves of a tree, in dicts."""
    rows = {layout_as_array(leaf).rows for _, leaf in tree_leaves(call.argument_at(0, "target"))}
    return AnyTree(Layout(rows=next(iter(rows)) if len(rows) == 1 else None))


@register_function("flax.serialization.from_state_dict")
def from_state_dict(call: Call) -> Value:
    """A tree like the target, whose arrays are those of the dict."""
    target = call.argument_at(0, "target")
    if isinstance(target, Unknown):
        return AnyTree(Unknown())
    return map_tree(lambda leaf: Layout(layout_as_array(leaf).shape) if isinstance(leaf, Layout) else leaf, target)


def _restored_leaf(leaf: Value) -> Value:
    if isinstance(leaf, Layout) and leaf.rows is not None:
        return Layout(host=True)
    return copy_to_host(leaf)


@register_function("flax.serialization.from_bytes")
def from_bytes(call: Call) -> Value:
    """Arrays of the host like those of the target."""
    target = call.argument_at(0, "target", None)
    return (
        AnyTree(Layout(host=True))
        if target is None or isinstance(target, Unknown)
        else map_tree(_restored_leaf, target)
    )


@register_function("flax.serialization.msgpack_restore")
def restore_bytes(call: Call) -> Value:
    """Arrays of the host, in dicts."""
    return AnyTree(Layout(host=True))

"""optax: losses, and functions of trees of gradients or of counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape
from shardlint.layouts.values import AnyTree, Call, Unknown, Value, map_tree
from shardlint.libraries.jax_numpy import dtype_of
from shardlint.libraries.meeting import (
    broadcast_shapes,
    broadcast_values,
    common_properties,
    computed_array,
    layout_as_array,
    meet_operands,
    spec_entry,
)
from shardlint.libraries.optimizers import zeros_like_tree
from shardlint.libraries.registry import register_function

_LOSSES = ("optax", "optax.losses")
_TREES = ("optax.tree_utils tree_", "optax.tree ")


def _tree_functions(*names: str) -> list[str]:
    """Functions of trees, which older releases have under another name."""
    return [f"{home}{name}" for name in names for home in _TREES] + [f"optax.{name}" for name in names]


def _map_tree_or_unknown(change: Callable[[Value], Value], tree: Value) -> Value:
    return AnyTree(Unknown()) if isinstance(tree, Unknown) else map_tree(change, tree)


@register_function(*_tree_functions("l2_norm", "norm", "l1_norm", "sum", "vdot", "max"), "optax global_norm",
          "jax.example_libraries.optimizers l2_norm")  # fmt: skip
def norm_of_tree(call: Call) -> Value:
    """One number of a tree."""
    return Layout((), "float32")


@register_function(*_tree_functions("zeros_like", "ones_like", "full_like"))
def tree_like(call: Call) -> Value:
    """A tree that is made like another one."""
    tree = call.argument_at(0, "tree")
    return AnyTree(Unknown()) if isinstance(tree, Unknown) else zeros_like_tree(call, tree)


@register_function(*_tree_functions("cast"))
def cast_tree(call: Call) -> Value:
    """A tree of another type."""
    dtype = call.argument_at(1, "dtype", None)

    def convert_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        return array if dtype is None else replace(array, dtype=dtype_of(dtype), literal=False)

    return _map_tree_or_unknown(convert_leaf, call.argument_at(0, "tree"))


@register_function(*_tree_functions("bias_correction", "update_moment", "update_moment_per_elem_norm", "scale",
"add_scale"),
          "jax.example_libraries.optimizers clip_grads")  # fmt: skip
def scale_moments(call: Call) -> Value:
    """A tree of moments like before, or of gradients that are scaled."""
    second = call.function_name.removeprefix("tree_") in ("update_moment", "update_moment_per_elem_norm", "scale")
    position, name = (1, "moments") if second else (0, "moment")

    def scale_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        return replace(array, dtype=array.dtype, committed=array.committed or None, literal=False)

    return _map_tree_or_unknown(scale_leaf, call.argument_at(position, name))


@register_function("optax incremental_update periodic_update")
def mix_trees(call: Call) -> Value:
    """A tree between a new and an old one."""
    new, old = call.argument_at(0, "new_tensors"), call.argument_at(1, "old_tensors")
    if isinstance(new, Unknown) or isinstance(old, Unknown):
        return AnyTree(Unknown())
    return map_tree(lambda one, other: broadcast_values(call, (one, other)), new, old)


@register_function("optax safe_int32_increment safe_increment", "optax._src.numerics safe_int32_increment")
def increment_count(call: Call) -> Value:
    """A count after one more step."""
    array = layout_as_array(call.argument_at(0, "count"))
    return computed_array(call, [array], array.shape, array.dtype)


@register_function("optax safe_norm safe_root_mean_squares", "optax._src.numerics safe_norm")
def safe_norm(call: Call) -> Value:
    """A norm over all dimensions, or over one."""
    array, axis = layout_as_array(call.argument_at(0, "x")), call.keywords.get("axis")
    shape: Shape | None = () if axis is None and not call.keywords.get("keepdims", False) else None
    return computed_array(call, [array], shape, array.dtype)


@register_function(
    *(f"{home} l2_loss squared_error softmax_cross_entropy sigmoid_binary_cross_entropy huber_loss log_cosh hinge_loss "
      "softmax_cross_entropy_with_integer_labels" for home in _LOSSES)
)  # fmt: skip
def loss_per_example(call: Call) -> Value:
    """One number for each example, or for each entry."""
    last = call.function_name
    first, second = ("predictions", "targets") if last in _OF_PREDICTIONS else ("logits", "labels")
    logits, labels = layout_as_array(call.argument_at(0, first)), layout_as_array(call.argument_at(1, second, 0))
    if not last.endswith("labels"):
        found = broadcast_values(call, (logits, labels))
    else:
        found = meet_operands(call, [logits, labels]).with_shape(logits.shape, logits.typed_spec)
        if logits.is_explicit and logits.shape and (axes := spec_entry(logits, -1)):
            call.interpreter.record_violation("index.split", call.place, array=str(logits), axes="/".join(axes))
            found = replace(found, mesh=None, spec=None)
    found = replace(found, dtype=logits.dtype)
    if call.interpreter.axes:
        found = replace(found.varying_like(common_properties([logits, labels])), figure=None)
    if "softmax" not in last or not found.shape:
        return found
    return found.with_shape(found.shape[:-1], found.typed_spec[:-1] if found.typed_spec is not None else None)


_OF_PREDICTIONS = ("l2_loss", "squared_error", "huber_loss", "log_cosh")


@register_function(
    *(f"{home} kl_divergence cosine_distance cosine_similarity convex_kl_divergence" for home in _LOSSES)
)
def divergence_per_row(call: Call) -> Value:
    """One number for each row."""
    arrays = [layout_as_array(call.argument_at(place, name)) for place, name in enumerate(("predictions", "targets"))]
    arrays = [layout_as_array(one) for one in call.args[:2]] if len(call.args) > 1 else arrays
    shape = broadcast_shapes([one.shape for one in arrays]) if not call.keywords.keys() & {"axis", "where"} else None
    return computed_array(call, arrays, shape[:-1] if shape else None)


@register_function(*(f"{home} ctc_loss" for home in _LOSSES))
def ctc_loss(call: Call) -> Value:
    """One number for each sequence."""
    logits = layout_as_array(call.argument_at(0, "logits"))
    return computed_array(call, [logits], logits.shape[:1] if logits.shape else None)


@register_function(*(f"{home} smooth_labels" for home in _LOSSES))
def smooth_labels(call: Call) -> Value:
    """Labels, each a little nearer to the others."""
    array = layout_as_array(call.argument_at(0, "labels"))
    return replace(meet_operands(call, [array]), dtype=array.dtype).with_shape(array.shape, array.typed_spec)

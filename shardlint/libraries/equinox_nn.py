"""equinox: layers as trees of their weights, and the functions that take Modules apart."""

from __future__ import annotations

from itertools import pairwise

from shardlint.layouts.layout import Layout, Shape
from shardlint.layouts.values import AnyTree, Call, Instance, ListValue, Native, Unknown, Value, map_tree
from shardlint.libraries.jax_numpy import multiply_matrices
from shardlint.libraries.meeting import broadcast_values, computed_array, fresh_array, layout_as_array
from shardlint.libraries.registry import register_function


def make_weights(call: Call, **shapes: Shape | None) -> dict[str, Value]:
    """New arrays of the shapes given; None where none is."""
    return {
        name: fresh_array(call, shape, "float32") if shape is not None else None
        for name, shape in shapes.items()
    }


def _size_or_none(value: Value) -> int | None:
    if value == "scalar":
        return 1
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@register_function("equinox.nn.Linear")
def make_linear(call: Call) -> Value:
    """`weight` of shape (out, in) and `bias` of shape (out,)."""
    inside, outside = (
        _size_or_none(call.argument_at(0, "in_features")),
        _size_or_none(call.argument_at(1, "out_features")),
    )
    bias = call.argument_at(2, "use_bias", True)
    weights = make_weights(call, weight=(outside, inside), bias=(outside,) if bias is True else None)
    made = Instance(None, weights, bias not in (True, False))

    def apply_linear(again: Call) -> Value:
        weight, known = made.attributes["weight"], made.attributes["bias"]
        product = multiply_matrices(_matmul_call(again, (weight, again.argument_at(0, "x"))))
        return broadcast_values(again, (product, known)) if isinstance(known, Layout) else product

    made.call = Native("equinox.nn.Linear", apply_linear)
    return made


def _matmul_call(call: Call, args: tuple[Value, ...]) -> Call:
    return Call(call.interpreter, args, {}, call.place, "jax.numpy.matmul")


@register_function("equinox.nn.LayerNorm", "equinox.nn.RMSNorm")
def make_norm(call: Call) -> Value:
    """`weight` and `bias` of the shape given; the result is like the argument."""
    given = call.argument_at(0, "shape")
    shape = (given,) if isinstance(given, int) else given if isinstance(given, tuple) else None
    known = shape if shape is None or all(isinstance(one, int) for one in shape) else None
    made = Instance(None, make_weights(call, weight=known, bias=known), True)
    made.call = Native(call.name, lambda again: layout_as_array(again.argument_at(0, "x")))
    return made


@register_function("equinox.nn.Embedding")
def make_embedding(call: Call) -> Value:
    """`weight` of shape (count, size)."""
    sizes = _size_or_none(call.argument_at(0, "num_embeddings")), _size_or_none(call.argument_at(1, "embedding_size"))
    return Instance(None, make_weights(call, weight=sizes))


@register_function("equinox.nn.MLP")
def make_mlp(call: Call) -> Value:
    """Linear layers in `layers`."""
    inside, outside = _size_or_none(call.argument_at(0, "in_size")), _size_or_none(call.argument_at(1, "out_size"))
    width, depth = _size_or_none(call.argument_at(2, "width_size")), call.argument_at(3, "depth")
    if not isinstance(depth, int) or not 0 <= depth <= 64:
        return Instance(None, {}, True)
    sizes = [inside, *[width] * depth, outside]
    layers = tuple(
        Instance(None, make_weights(call, weight=(out, into), bias=(out,))) for into, out in pairwise(sizes)
    )
    made = Instance(None, {"layers": layers}, False)

    def apply_mlp(again: Call) -> Value:
        x = layout_as_array(again.argument_at(0, "x"))
        out = call.argument_at(1, "out_size")
        return computed_array(again, [x], () if out == "scalar" else (outside,))

    made.call = Native("equinox.nn.MLP", apply_mlp)
    return made


@register_function("equinox filter partition combine")
def split_tree(call: Call) -> Value:
    """`filter` and `combine` give a tree like the first one, `partition` that and the rest."""
    tree = call.argument_at(0, "pytree")
    if call.name.endswith("partition"):
        return (tree, Unknown("what is no array"))
    return tree


@register_function("equinox.tree_at")
def tree_at(call: Call) -> Value:
    """A tree with other leaves: their layouts are not followed."""
    tree = call.argument_at(1, "pytree")
    if isinstance(tree, Unknown | ListValue):
        return AnyTree(Unknown())
    return map_tree(lambda leaf: Layout() if isinstance(leaf, Layout) else leaf, tree)

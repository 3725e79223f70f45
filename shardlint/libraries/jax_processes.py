"""Arrays that several processes make together, and what callbacks and kernels give: shapes that the call itself says.

Facts of jax: an array of callbacks or of one-device arrays has the shape that is given. What a process adds of its own
is a part of a dimension that the spec splits; how large the whole is depends on the number of processes.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Mesh, Shape
from shardlint.layouts.values import (
    AnyTree,
    Call,
    Native,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
    map_spread,
    map_tree,
    tree_leaves,
)
from shardlint.libraries.jax_numpy import dtype_of, sizes_of
from shardlint.libraries.jax_sharding import place_array, place_of
from shardlint.libraries.jax_transforms import transform_decorator
from shardlint.libraries.meeting import computed_array, host_array, layout_as_array
from shardlint.libraries.registry import register_function

_UTILITIES = "jax.experimental.multihost_utils"


def _make_global_array(
    call: Call, shape: Shape | None, dtype: str | None, target: Value, position: int, path: str = ""
) -> Value:
    """An array on a sharding; what a traced function sees of it is not followed."""
    if call.interpreter.traced:
        return Layout(shape, dtype)
    array = Layout(shape, dtype, host=False, varying=frozenset())
    return place_array(call, array, target, place_of(call, position, ""), path)


@register_function("jax make_array_from_callback make_array_from_single_device_arrays")
def array_from_parts(call: Call) -> Value:
    """An array whose parts a function gives, or arrays on single devices."""
    callback = call.argument_at(2, "data_callback", None)
    if "callback" in call.name and callback is not None:
        with call.interpreter.run_uncertainly():
            call.interpreter.call_value(callback, (Unknown("an index"),), {}, call.place)
    given = call.keywords.get("dtype")
    dtype = dtype_of(given) if given is not None else None
    return _make_global_array(call, sizes_of(call.argument_at(0, "shape")), dtype, call.argument_at(1, "sharding"), 1)


def _whole_shape(array: Layout, target: Value) -> Shape | None:
    """The shape of an array of which each process adds a part: of a dimension that is split, no size is known."""
    spec = target.spec if isinstance(target, Sharding) else target
    if array.shape is None or not isinstance(spec, PartitionSpec) or spec.open:
        return (None,) * len(array.shape) if array.shape is not None else None
    axes = (*spec.axes_of_entries(), *((),) * len(array.shape))
    return tuple(size if axes[place] == () else None for place, size in enumerate(array.shape))


@register_function("jax.make_array_from_process_local_data")
def arrays_from_processes(call: Call) -> Value:
    """A tree of arrays to which each process adds a part."""
    target, tree, whole = (
        call.argument_at(0, "sharding"),
        call.argument_at(1, "local_data"),
        call.argument_at(2, "global_shape", None),
    )
    if whole is not None:
        return _make_global_array(call, sizes_of(whole), None, target, 0)
    if isinstance(tree, Unknown):
        return AnyTree(_make_global_array(call, None, None, target, 0))
    return map_tree(
        lambda leaf: _make_global_array(call, _whole_shape(layout_as_array(leaf), target), None, target, 0), tree
    )


@register_function(f"{_UTILITIES} host_local_array_to_global_array")
def make_global_arrays(call: Call) -> Value:
    """Arrays to which each process adds a part, over a mesh."""
    mesh, tree = call.argument_at(1, "global_mesh"), call.argument_at(0, "local_inputs")

    def make_array(path: str, leaf: Value, spec: Value) -> Value:
        array = layout_as_array(leaf)
        on = mesh if isinstance(mesh, Mesh) else Unknown("a mesh")
        target = Sharding(on, spec) if isinstance(spec, PartitionSpec) else Unknown("a spec")
        return _make_global_array(call, _whole_shape(array, spec), array.dtype, target, 2, path)

    return (
        map_spread(make_array, call.argument_at(2, "pspecs"), tree)
        if not isinstance(tree, Unknown)
        else AnyTree(Unknown())
    )


@register_function(f"{_UTILITIES} global_array_to_host_local_array")
def local_parts_of_arrays(call: Call) -> Value:
    """The part of arrays that a process has."""
    tree = call.argument_at(0, "global_inputs")

    def make_array(_: str, leaf: Value, spec: Value) -> Value:
        array = layout_as_array(leaf)
        return Layout(_whole_shape(array, spec), array.dtype)

    return (
        map_spread(make_array, call.argument_at(2, "pspecs"), tree)
        if not isinstance(tree, Unknown)
        else AnyTree(Unknown())
    )


@register_function(f"{_UTILITIES} process_allgather")
def gather_processes(call: Call) -> Value:
    """Arrays of numpy: those of all processes along the first dimension, which may be a new one unless `tiled`."""
    tree, tiled = call.argument_at(0, "in_tree"), call.argument_at(1, "tiled", False)

    def gather_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        shape = (None, *array.shape[1:]) if array.shape and tiled is True else None
        return host_array(shape, array.dtype)

    return map_tree(gather_leaf, tree) if not isinstance(tree, Unknown) else AnyTree(Layout(host=True))


@register_function(f"{_UTILITIES} broadcast_one_to_all")
def broadcast_from_one_process(call: Call) -> Value:
    """The arrays of one process on all of them, as those of numpy."""
    tree = call.argument_at(0, "in_tree")

    def copy_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        return leaf if array.is_key else host_array(array.shape, array.dtype)

    return map_tree(copy_leaf, tree) if not isinstance(tree, Unknown) else AnyTree(Layout(host=True))


@register_function(f"{_UTILITIES} assert_equal", "jax.debug print visualize_array_sharding")
def return_nothing(call: Call) -> Value:
    """Nothing."""
    return None


@register_function("jax.debug callback inspect_array_sharding")
def call_on_host(call: Call) -> Value:
    """Nothing; a function of the host is called."""
    call.interpreter.call_unknown(call.name, call.args, call.keywords, call.place)
    return None


def _describe_arrays(call: Call, values: tuple[Value, ...], shapes: Value) -> Value:
    """Arrays of the shapes and types that are described, which are computed of others."""
    arrays = [leaf for one in values for _, leaf in tree_leaves(one) if isinstance(leaf, Layout)] or [Layout()]

    def make_array(leaf: Value) -> Value:
        if not isinstance(leaf, Layout):
            return replace(computed_array(call, arrays, None), mesh=None)
        # Along which axes it varies is said by the description, if at all.
        return replace(
            computed_array(call, arrays, leaf.shape, leaf.dtype), memory=None, committed=None, varying=None
        )

    return map_tree(make_array, shapes) if not isinstance(shapes, Unknown) else AnyTree(Unknown())


@register_function("jax pure_callback io_callback")
def host_callback(call: Call) -> Value:
    """Return the result of a host callback, with the declared shapes."""
    call.interpreter.call_unknown(call.name, call.args[:1], {}, call.place)
    return _describe_arrays(call, call.args[2:], call.argument_at(1, "result_shape_dtypes"))


@register_function("jax.experimental.pallas pallas_call")
def kernel_function(call: Call) -> Value:
    """A function that gives arrays of the shapes that are said."""
    shapes = call.argument_at(1, "out_shape", None)

    def run_kernel(again: Call) -> Value:
        return _describe_arrays(
            replace(again, name=call.name), again.args, Unknown() if shapes is None else shapes
        )

    return Native(call.name, run_kernel)


def _change_axis_types(call: Call, value: Value) -> Value:
    """A function whose arrays have other types of axes inside: of the results, the sharding is not followed."""

    def leaf_inside(leaf: Value) -> Value:
        return replace(leaf, mesh=None, spec=None, committed=None) if isinstance(leaf, Layout) else leaf

    def run_retyped(again: Call) -> Value:
        keywords = {name: one for name, one in again.keywords.items() if name != "out_sharding"}
        args = tuple(map_tree(leaf_inside, one) for one in again.args)
        found = again.interpreter.call_value(value, args, keywords, again.place, again.open)
        return map_tree(lambda leaf: Layout(leaf.shape, leaf.dtype) if isinstance(leaf, Layout) else leaf, found)

    return Native(call.name, run_retyped)


register_function("jax.sharding auto_axes explicit_axes")(transform_decorator(_change_axis_types))

"""Collectives: what devices along manual axes make of their values together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from shardlint.layouts.layout import Figure, Layout, Symbol
from shardlint.layouts.values import AnyTree, Call, Unknown, Value, map_tree
from shardlint.libraries.gathered_shapes import gathered_shape, scattered_shape
from shardlint.libraries.jax_sharding import axis_names
from shardlint.libraries.mapped_results import check_summed
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function

SOME_MESH = "a mesh"
"""What binds the axes where only shard_map does, over a mesh that is not known."""


def _check_axes_bound(call: Call, axes: tuple[str, ...]) -> bool:
    """Record an axis that nothing binds, where it is known what does; whether the axes are bound, else taken to be."""
    run = call.interpreter
    for axis in axes:
        if axis not in run.axes:
            if run.binder == SOME_MESH:
                run.record_violation("collective.elsewhere", call.place, axis=axis)
            if run.binder in ("", SOME_MESH):
                return bool(run.axes)
            said = {"axis": axis, "operation": call.function_name, "under": run.binder}
            run.record_violation("collective.unbound", call.place, **said, bound=", ".join(filter(None, run.axes)))
            run.binder = ""  # it raises: what follows does not run
            return False
    some = run.decided.intersection(axes)
    if some and call.function_name not in ("axis_index", "axis_size"):
        said = {"axes": ", ".join(sorted(filter(None, some))) or "the axis", "operation": call.function_name}
        run.record_violation("collective.some", call.place, **said)
    return True


@register_function("jax.lax psum pmean pmax pmin")
def all_reduce(call: Call) -> Value:
    """The same on all devices of the axis."""
    axes = axis_names(call.argument_at(1, "axis_name"))
    if axes is None:
        return map_tree(_lose_track, call.argument_at(0, "x"))
    known = _check_axes_bound(call, axes)
    # Along all axes that there are it is equal, whatever it was.
    everywhere = known and set(axes) >= call.interpreter.axes.keys()
    counts = call.function_name in ("psum", "pmean")  # of booleans the number, of integers a fraction

    def reduce_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf)
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            return _sum_number(call, leaf, axes)
        varying = array.varying - set(axes) if array.varying is not None and known else None
        varying = frozenset() if everywhere else varying
        check_summed(call, array, axes, call.function_name)
        return replace(
            array,
            varying=varying,
            equal=array.equal.difference(axes),
            differs=array.differs.difference(axes),
            reduced=array.reduced.union(axes),
            literal=False,
            summed=None,
            figure=_figure_of_sum(call, array, frozenset(axes)),
            dtype=array.dtype if "float" in (array.dtype or "") or not counts else None,
        )

    tree = call.argument_at(0, "x")
    if isinstance(tree, Unknown):
        return AnyTree(Layout(varying=frozenset(), reduced=frozenset(axes))) if everywhere else Unknown()
    return map_tree(reduce_leaf, tree)


def _sum_number(call: Call, number: int, axes: Iterable[str]) -> Value:
    """A number of Python, which is the same on all devices: `psum` multiplies it by the sizes of the axes."""
    sizes = [call.interpreter.axes.get(axis) for axis in axes]
    if call.function_name == "psum" and all(isinstance(one, int) for one in sizes):
        return number * prod(one for one in sizes if isinstance(one, int))
    return layout_as_array(number)


def _lose_track(leaf: Value) -> Layout:
    """Return the result of a collective whose axes are not known."""
    return replace(
        layout_as_array(leaf),
        varying=None,
        equal=frozenset(),
        differs=frozenset(),
        literal=False,
        figure=None,
    )


def _figure_of_sum(call: Call, array: Layout, axes: frozenset[str]) -> Figure | None:
    """That a sum is one of copies: of values that a collective made equal along one of its axes."""
    if array.figure is not None and array.figure.kind in ("copies", "counted"):
        return array.figure
    if array.figure is not None and array.figure.kind == "term" and call.function_name == "psum":
        return replace(array.figure, kind="counted", axes=array.figure.axes & axes)
    equal = array.reduced.intersection(axes) - array.differing_axes if array.differing_axes is not None else None
    if call.function_name == "psum" and equal:
        return Figure("copies", equal, call.place)
    return Figure("sum", axes, call.place) if call.function_name in ("psum", "pmean") else None


@register_function("jax.lax all_gather psum_scatter all_to_all ppermute pshuffle pvary pcast")
def move_values(call: Call) -> Value:
    """Values that vary along the axis as before; shapes change but for `ppermute` and `pvary`."""
    axes = axis_names(call.argument_at(1, "axis_name"))
    last = call.function_name
    if axes is not None and last not in ("pvary", "pcast"):
        _check_axes_bound(call, axes)

    def change_leaf(leaf: Value) -> Value:
        array = layout_as_array(leaf) if axes is not None else _lose_track(leaf)
        if last == "pcast" and axes:
            _check_cast(call, array, axes)
        varying = array.varying | set(axes) if array.varying is not None and axes is not None else None
        if last == "pcast" and call.argument_at(-1, "to", None) != "varying":
            varying = None
        keeps = last in ("ppermute", "pshuffle", "pvary", "pcast")
        array = replace(array, shape=array.shape if keeps else None, spec=None, varying=varying, literal=False)
        if axes is None or last in ("pvary", "pcast"):
            return array
        if last in ("psum_scatter", "all_to_all"):
            array = replace(array, shape=scattered_shape(call, layout_as_array(leaf), axes))
        if last in ("ppermute", "pshuffle", "all_to_all"):  # what is handed round may come to be equal
            return replace(
                array, differs=array.differs.difference(axes), exchanged=array.exchanged.union(axes), figure=None
            )
        gathers = last == "all_gather"
        reduced = array.reduced.union(axes) if gathers or last == "psum_scatter" else array.reduced
        equal = array.equal.union(axes) if gathers else array.equal.difference(axes)
        differs = array.differs.difference(axes) if gathers else array.differs.union(axes)
        figure = array.figure
        if figure is not None and figure.kind == "term":
            figure = replace(figure, kind="counted", axes=figure.axes.intersection(axes))
        array = replace(array, equal=equal, differs=differs, reduced=reduced, figure=None if gathers else figure)
        if not gathers:
            return array
        shape, stacked = gathered_shape(call, layout_as_array(leaf), axes)
        return replace(array, shape=shape, stacked=stacked)

    tree = call.argument_at(0, "x")
    return map_tree(change_leaf, tree) if not isinstance(tree, Unknown) else Unknown()


def _check_cast(call: Call, array: Layout, axes: tuple[str, ...]) -> None:
    """Record a cast to varying of what varies already."""
    run = call.interpreter
    if (
        run.checks_varying
        and call.argument_at(-1, "to", None) == "varying"
        and array.varying
        and array.varying >= set(axes)
    ):
        run.record_violation("cast.varying", call.place, axes=", ".join(axes), array=str(array))


@register_function("jax.lax ragged_all_to_all")
def exchange_rows(call: Call) -> Value:
    """Rows that devices hand each other, in an array of the shape of another one."""
    events, output = call.interpreter.events, layout_as_array(call.argument_at(1, "output"))
    axes = axis_names(call.argument_at(6, "axis_name", call.keywords.get("axis_name")))
    if axes is not None:
        _check_axes_bound(call, axes)
    if events is not None:
        events.is_open = True
    return replace(_lose_track(output), spec=None)


@register_function("jax.lax axis_index")
def axis_index(call: Call) -> Value:
    """The number of the device along an axis."""
    axes = axis_names(call.argument_at(0, "axis_name"))
    if axes is None:
        return Layout((), "int32")
    known = _check_axes_bound(call, axes)
    return Layout(
        (), "int32", committed=False, memory="device", host=False, varying=frozenset(axes) if known else None,
        differs=frozenset(axes),
    )  # fmt: skip


@register_function("jax.lax axis_size")
def axis_size(call: Call) -> Value:
    """The size of an axis."""
    axes = axis_names(call.argument_at(0, "axis_name"))
    if axes is None or not _check_axes_bound(call, axes):
        return Unknown("the size of an axis")
    size = call.interpreter.axes.get(axes[0])
    return size if size is not None else Symbol(f"size of {axes[0]}")

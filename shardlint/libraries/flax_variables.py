"""flax linen: the variables of Modules, `param` and `variable`, and their axes in lifted transforms.

Facts of flax, each tried: a lifted transform puts an axis into each variable, and its name from `metadata_params` into
the names of a box; where it has none, it raises PartitioningUnspecifiedError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.layouts.layout import Layout, Size
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    Call,
    DictValue,
    Instance,
    Unknown,
    Value,
    item_of,
    known_items,
)
from shardlint.libraries.flax_boxes import Box, map_boxes, unbox_tree
from shardlint.libraries.flax_modules import Lift, Module, Scope, running_application
from shardlint.libraries.jax_transforms import without_dimension
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function


@register_function("flax.linen.Module.param")
def make_param(call: Call) -> Value:
    """A parameter: made by its initializer, or the one that is given; without its box."""
    module, name, initializer, *args = (*call.args, *(Unknown(),) * 3)[: max(len(call.args), 3)]
    wanted = call.keywords.get("unbox", True)
    keywords = {key: one for key, one in call.keywords.items() if key not in ("unbox", "name", "init_fn")}
    scope = module.scope if isinstance(module, Module) else None
    if scope is None or not isinstance(name, str):
        return Layout()

    def make_value() -> Value:
        key = make_rng(replace(call, args=(module, "params"), keywords={}, open=False))
        return call.interpreter.call_value(initializer, (key, *args), keywords, call.place)

    found = _make_variable(call, scope, "params", name, make_value)
    return unbox_tree(replace(call, args=(found,), keywords={})) if wanted is True else found


def _make_variable(call: Call, scope: Scope, collection: str, name: str, make: Callable[[], Value]) -> Value:
    """A variable in its box, made or given."""
    run = call.interpreter
    run.marks += 1
    if not scope.app.initializing:
        held = item_of(scope.given_variables(collection), name)
        if isinstance(held, Layout | Box):
            for lift, _ in scope.sized:
                held = _remove_lifted_axis(call, held, lift, collection)
            return held
        made = make()
        inner = made.boxed_value if isinstance(made, Box) else made
        return Layout(inner.shape) if isinstance(inner, Layout) else Unknown("a variable")
    holder = scope.created_variables(collection)
    if name in holder.entries and not scope.sized:
        return holder.entries[name]
    made = stored = make()
    for lift, size in reversed(scope.sized):
        stored = _add_lifted_axis(call, scope, stored, lift, size, collection)
    if scope.is_sure(run):
        holder.entries[name] = stored
    else:
        holder.open = True
    return made


def _add_lifted_axis(call: Call, scope: Scope, value: Value, lift: Lift, size: Size, collection: str) -> Value:
    run = call.interpreter
    alone = scope.app.uncommitted and run.mesh is None and (run.mesh_known or run.legacy is not None)
    axis = lift.axes.get(collection, MISSING)
    if axis is MISSING:  # shared by the rows, or not known
        shared = lift.call.keywords.get("variable_broadcast")
        return value if shared == collection or collection in (known_items(shared) or ()) else Layout()

    def insert_axis(leaf: Value) -> Value:
        if not isinstance(leaf, Layout) or leaf.shape is None or not isinstance(axis, int):
            return Layout()
        if not 0 <= axis <= len(leaf.shape):
            return Layout()
        shape = (*leaf.shape[:axis], size, *leaf.shape[axis:])
        free = alone and leaf.committed is False  # nothing places what the rows give together
        return Layout(
            shape,
            leaf.dtype,
            committed=False if free else None,
            memory=leaf.memory,
            host=False,
            varying=leaf.varying,
        )

    def rename_axes(box: Box) -> Value:
        items = _names_after_transform(call, box, lift)
        if items is not None and isinstance(axis, int):
            items = (*items, *((None,) * (axis - len(items))))
            items = (*items[:axis], lift.axis_name(), *items[axis:])
        return box.with_parts(
            {"value": insert_axis(box.boxed_value), "names": items if items is not None else Unknown("names")}
        )

    return map_boxes(rename_axes, value, insert_axis)


def _names_after_transform(call: Call, box: Box, lift: Lift) -> tuple[Value, ...] | None:
    """The names of a box that a transform changes; records that it has no name for the axis."""
    if lift.axis_name() is MISSING:
        names = ", ".join(str(each) for each in known_items(box.names) or ())
        call.interpreter.record_violation(
            "scan.partition-name", lift.call.place, operation=lift.call.function_name, names=names
        )
        return None
    return known_items(box.names)


def _remove_lifted_axis(call: Call, value: Value, lift: Lift, collection: str) -> Value:
    axis = lift.axes.get(collection, MISSING)
    if axis is MISSING:
        return value

    def slice_one(leaf: Value) -> Value:
        known = (
            isinstance(leaf, Layout) and leaf.shape and isinstance(axis, int) and 0 <= axis < len(leaf.shape)
        )
        return replace(without_dimension(leaf, axis), committed=None, unplaced=None) if known else Layout()

    def rename_axes(box: Box) -> Value:
        items = _names_after_transform(call, box, lift)
        known = items is not None and isinstance(axis, int) and axis < len(items)
        names = (*items[:axis], *items[axis + 1 :]) if known and items is not None else Unknown("names")
        return box.with_parts({"value": slice_one(box.boxed_value), "names": names})

    return map_boxes(rename_axes, value, slice_one)


@register_function("flax.linen.Module.variable")
def make_variable(call: Call) -> Value:
    """A variable of any collection, whose `value` can be set."""
    module, collection, name, make, *args = (*call.args, *(Unknown(),) * 4)[: max(len(call.args), 4)]
    scope = module.scope if isinstance(module, Module) else None
    if scope is None or not isinstance(name, str) or not isinstance(collection, str):
        return Instance(None, {"value": Layout()})
    found = _make_variable(
        call, scope, collection, name, lambda: call.interpreter.call_value(make, tuple(args), {}, call.place)
    )
    held = Instance(
        None, {"value": unbox_tree(replace(call, args=(found,), keywords={}))}, region=call.interpreter.region
    )
    if scope.is_sure(call.interpreter) and not isinstance(found, Box) and not scope.sized:
        scope.app.changed.append((scope, collection, name, held))
    return held


def _running_module(call: Call) -> Value:
    """The Module whose method runs, or the one that is given."""
    app, given = running_application(call.interpreter), call.keywords.get("module")
    if given is not None or app is None or not app.running:
        return given
    return app.running[-1][0]


@register_function("flax.linen param_with_axes variable_with_axes")
def with_axes(call: Call) -> Value:
    """A parameter or variable of the Module that runs, whose axes are named in a collection of their own."""
    module = _running_module(call)
    if not isinstance(module, Module) or module.scope is None:
        return Layout() if call.function_name == "param_with_axes" else Instance(None, {"value": Layout()})
    module.scope.app.made.open = True
    inner = replace(call, args=(module, *call.args), keywords={})
    found = make_param(inner) if call.function_name == "param_with_axes" else make_variable(inner)
    return replace(found, mesh=None, spec=None, committed=None) if isinstance(found, Layout) else found


@register_function("flax.linen.Module.make_rng")
def make_rng(call: Call) -> Value:
    """A key made of the one that is given for a stream."""
    module, stream = call.args[0], call.argument_at(1, "name", "params")
    rngs = module.scope.app.rngs if isinstance(module, Module) and module.scope is not None else None
    given = item_of(rngs, stream) if isinstance(rngs, DictValue) else rngs
    if isinstance(given, Unknown) and isinstance(rngs, DictValue):
        given = item_of(rngs, "params")
    return replace(layout_as_array(given), dtype="key") if isinstance(given, Layout | AnyTree) else Layout(dtype="key")


@register_function("flax.linen.Module.is_initializing")
def is_initializing(call: Call) -> Value:
    """Return whether the module runs in `init`."""
    module = call.args[0]
    return (
        module.scope.app.initializing
        if isinstance(module, Module) and module.scope
        else Unknown("a condition")
    )


@register_function("flax.linen.Module.has_variable")
def has_variable(call: Call) -> Value:
    """Return whether a variable exists; in `init`, whether it was made before."""
    module, collection, name = call.args[0], call.argument_at(1, "col"), call.argument_at(2, "name")
    scope = module.scope if isinstance(module, Module) else None
    if scope is None or not isinstance(collection, str) or not isinstance(name, str):
        return Unknown("a condition")
    if not scope.app.initializing:
        held = item_of(scope.given_variables(collection), name)
        return True if isinstance(held, Layout | Box | DictValue) else Unknown("a condition")
    made = scope.existing_variables(collection)
    if made is None:
        return False
    return name in made.entries or (Unknown("a condition") if made.open else False)


@register_function("flax.linen.Module.sow")
def sow_value(call: Call) -> Value:
    """Stores a value in a collection, of which no more is known."""
    module, collection = call.args[0], call.argument_at(1, "col")
    if isinstance(module, Module) and module.scope is not None and collection != "intermediates":
        made = module.scope.app.made
        made.open = True
    return Unknown("a condition")

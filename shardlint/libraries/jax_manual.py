"""shard_map and pmap: code that each device runs on its own part."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shardlint.layouts.layout import (
    NO_PIECES,
    RAW_KEY,
    Layout,
    Mesh,
    Pieces,
    Shape,
    Size,
    Symbol,
    are_surely_different,
)
from shardlint.layouts.pieces import trim_pieces
from shardlint.layouts.values import (
    AnyTree,
    Call,
    ListValue,
    PartitionSpec,
    Transformed,
    Unknown,
    Value,
    function_of,
    is_function,
    known_items,
    map_spread,
    map_tree,
    tree_children,
    tree_leaves,
)
from shardlint.libraries.device_rows import check_entry_contract, has_copies, rows_of
from shardlint.libraries.jax_collectives import SOME_MESH
from shardlint.libraries.jax_sharding import argument_place, check_fits, pad_spec, place_of
from shardlint.libraries.jax_transforms import make_tracer, run_traced, transform_decorator, without_dimension
from shardlint.libraries.mapped_arguments import (
    check_arguments,
    check_axes,
    declare_keys,
    specs_place,
    unpacked_count,
    with_structure,
)
from shardlint.libraries.mapped_results import check_results, check_summed, check_unpacked, report_doubts
from shardlint.libraries.meeting import (
    NO_AXES,
    check_devices,
    explicit_spec,
    is_recent,
    layout_as_array,
    typed_sharding,
)
from shardlint.libraries.registry import register_function
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

# The axes along which values vary are part of their types since then, and `check_vma` checks them.
_VARYING = (0, 7)
# pmap is a shard_map over a mesh of its own since then, which must be that in context.
_PMAP_CONTEXT = (0, 8, 3)
_PMAP_SETTINGS = frozenset(
    "fun axis_name in_axes out_axes static_broadcasted_argnums devices backend axis_size donate_argnums".split()
)
# Parameters of what pmap maps that hold what each device has a copy of.
_COPIED = re.compile(r"(?i)state|param|variables|opt|model|ema|weights|step|lr|config|replica|key|rng")
_DEVICE_COUNTS = ("jax.device_count()", "jax.local_device_count()")


def _shard_map(call: Call, value: Value) -> Value:
    mesh, in_specs, out_specs = (
        call.argument_at(place, name, None) for place, name in ((1, "mesh"), (2, "in_specs"), (3, "out_specs"))
    )
    names = call.keywords.get("axis_names")
    checking = call.keywords.get("check_vma", call.keywords.get("check_rep", True))
    takes = len(known_items(in_specs) or ()) if isinstance(in_specs, tuple) else None
    written = specs_place(call)

    def run_mapped(again: Call) -> Value:
        interpreter = again.interpreter
        found_mesh = mesh if mesh is not None or not interpreter.mesh_known else interpreter.mesh
        on, is_known = _bound_mesh(found_mesh, names, (in_specs, out_specs))
        refused = isinstance(found_mesh, Mesh) and is_known and names is not None
        if refused and not set(on.names) <= set(known_items(names) or ()):
            return Unknown("jax raises: a spec names an axis that is not manual")
        is_whole = on is found_mesh
        if again.open and takes is not None:
            more = (Unknown("a star argument"),) * (takes - len(again.args))
            again = replace(again, args=(*again.args, *more), open=False)
        if again.open or in_specs is None:
            return _unknown_map(again, value)
        if not check_arguments(again, value, in_specs, written):
            return Unknown("a call that raises")
        declared = checking is True
        checked = declared and interpreter.releases.get("jax", (99,)) >= _VARYING
        if is_whole:
            check_devices(
                again,
                [leaf for _, leaf in tree_leaves(again.args) if isinstance(leaf, Layout)],
                on,
                "shard_map",
            )
        specs = in_specs if isinstance(in_specs, tuple | ListValue) else tuple(in_specs for _ in again.args)
        parts = _split_arguments(again, on, specs)
        declare_keys(parts, again, in_specs, written)
        before = interpreter.axes, interpreter.checks_varying, interpreter.manual, interpreter.binder
        interpreter.manual = place_of(call, 2, "in_specs")
        around, events = interpreter.events, interpreter.events_of(value, call.place)
        interpreter.events = events
        entered = _enter_body(interpreter, value)
        binder = "jax.shard_map" if is_known and before[3] != SOME_MESH else SOME_MESH
        interpreter.binder = binder if before[3] or not before[0] else ""
        interpreter.axes = {**interpreter.axes, **dict(zip(on.names, on.sizes, strict=True))}
        interpreter.checks_varying = checked
        try:
            found = run_traced(again, value, parts, {})
            check = ("on" if checking else "off") if isinstance(checking, bool) else "not known to be on"
            where = place_of(call, 3, "out_specs")
            check_results(again, value, out_specs, found, check, where)
            check_unpacked(again, out_specs, unpacked_count(again, call.place), where)
            report_doubts(interpreter, events)
        finally:
            interpreter.events = around
            if around is not None:
                around.add_inner(events)
            interpreter.axes, interpreter.checks_varying, interpreter.manual, interpreter.binder = before
            interpreter.mapped_at, interpreter.body = entered
        left = _join_results(call, again, on, out_specs, found, declared)
        return left if is_whole else map_tree(lambda leaf: Layout(), left)

    return call.interpreter.note_transformed(Transformed("shard_map", run_mapped, value, call.place, takes))


def _enter_body(run: RunState, value: Value) -> tuple[int | None, Place | None]:
    """Note which function is mapped, and how many calls lead to it; what held before."""
    before, function_ = (run.mapped_at, run.body), function_of(value)
    run.mapped_at = len(run.calls) + 1
    run.body = Place(function_.frame.file, function_.node) if function_ is not None else None
    return before


def _bound_mesh(mesh: Value, names: Value, specs: Value) -> tuple[Mesh, bool]:
    """The axes that shard_map binds, as a mesh of them, and whether it surely binds no others."""
    if isinstance(mesh, Mesh) and names is None:
        return mesh, True
    manual = known_items(names) or ()
    said = [one for _, spec in tree_leaves(specs) if isinstance(spec, PartitionSpec) for one in spec.axes_of_entries()]
    given = [one for one in manual if isinstance(one, str)]
    bound = tuple(dict.fromkeys([*given, *(axis for axes in said for axis in axes or ())]))
    sizes = tuple(mesh.size_of_axes((axis,)) if isinstance(mesh, Mesh) else None for axis in bound)
    return Mesh(bound, sizes, (None,) * len(bound)), bool(given) and len(given) == len(manual)


def _unknown_map(call: Call, value: Value) -> Value:
    run = call.interpreter
    before = run.axes, run.checks_varying, run.rooted, run.binder
    run.rooted, run.checks_varying, run.binder = False, False, ""
    try:
        run_traced(call, value, tuple(Unknown() for _ in call.args), {}, call.open)
    finally:
        run.axes, run.checks_varying, run.rooted, run.binder = before
    return Unknown("what shard_map returns")


def _split_arguments(call: Call, mesh: Mesh, specs: Value) -> tuple[Value, ...]:
    """The parts of the arguments that one device gets."""

    def part_of_leaf(path: str, leaf: Value, spec: Value) -> Value:
        where, path = argument_place(call, path)
        if isinstance(leaf, Unknown) and isinstance(spec, PartitionSpec) and not spec.open:
            return AnyTree(
                Layout(
                    varying=_named_axes_of(spec), differs=_split_axes(spec), pieces=_axes_by_dimension(spec, None)
                )
            )
        if not isinstance(leaf, Layout | int | float):
            return leaf if isinstance(leaf, Unknown) or is_function(leaf) else Layout()
        array = make_tracer(leaf)
        if not isinstance(spec, PartitionSpec) or spec.open or None in spec.axes_of_entries():
            unknown = (None,) * len(array.shape) if array.shape is not None else None
            return replace(
                array, shape=unknown, mesh=None, spec=None, varying=None, differs=_split_axes(spec),
                pieces=_axes_by_dimension(spec, array.rank),
            )  # fmt: skip
        # In jax 0.8 it reshards.
        if check_fits(call, array, spec, mesh, where, path) and mesh.is_explicit and is_recent(call):
            _check_same(call, array, spec, mesh, where, path)
        shape: Shape | None = None
        if array.shape is not None:
            own = (axes or () for axes in pad_spec(array, spec))
            shape = tuple(
                _size_of_part(size, mesh, axes) for size, axes in zip(array.shape, own, strict=False)
            )
        # The memory of an argument is no part of its type in the body.
        along, split = _named_axes_of(spec), _split_axes(spec)
        return replace(
            array, shape=shape, mesh=None, spec=None, varying=along, differs=split, memory=None,
            pieces=_axes_by_dimension(spec, array.rank),
        )  # fmt: skip

    given = call.args
    said = known_items(specs) or ()
    if len(said) == len(given):  # what is not known has the structure of its specs
        given = tuple(with_structure(one, spec) for one, spec in zip(given, said, strict=True))
    found: tuple[Value, ...] = map_spread(part_of_leaf, specs, given)
    return found


def _named_axes_of(spec: PartitionSpec) -> frozenset[str] | None:
    return None if None in spec.axes_of_entries() else _split_axes(spec)


def _axes_by_dimension(spec: Value, rank: int | None) -> Pieces:
    """The axes that a spec surely gives each dimension."""
    return (
        trim_pieces([one or () for one in spec.axes_of_entries()[:rank]])
        if isinstance(spec, PartitionSpec)
        else NO_PIECES
    )


def _split_axes(spec: Value) -> frozenset[str]:
    """The axes that a spec surely names."""
    axes = spec.axes_of_entries() if isinstance(spec, PartitionSpec) else ()
    return frozenset(axis for one in axes for axis in one or ())


def _check_same(call: Call, array: Layout, spec: PartitionSpec, mesh: Mesh, where: Place, path: str) -> None:
    """Record `in_specs` that differ from the type of an array over Explicit axes: shard_map does not reshard."""
    wanted, own = pad_spec(array, spec), explicit_spec(array)
    if array.shape is not None and own is not None and None not in own and wanted != own:
        have, asked = (str(array.with_shape(array.shape, one)) for one in (own, wanted))
        said = {"line": str(array.made), "operation": "shard_map", "types": "default" if mesh.by_default else "written"}
        call.interpreter.record_violation("argument.sharding", where, array=path, have=have, wanted=asked, **said)


def _size_of_part(size: Size, mesh: Mesh, axes: tuple[str, ...]) -> Size:
    if not axes:
        return size
    parts = mesh.size_of_axes(axes)
    if size is not None and size == parts:
        return 1
    if isinstance(size, int) and isinstance(parts, int) and parts and size % parts == 0:
        return size // parts
    return None


def _join_results(
    call: Call, again: Call, mesh: Mesh, out_specs: Value, value: Value, checked: bool
) -> Value:
    """The whole arrays of the parts that the devices return."""
    where = place_of(call, 3, "out_specs")

    def whole_of_leaf(path: str, leaf: Value, spec: Value) -> Value:
        array = layout_as_array(leaf)
        if not isinstance(leaf, Layout | int | float):
            return AnyTree(Layout()) if isinstance(leaf, Unknown) else leaf
        if not isinstance(spec, PartitionSpec) or spec.open:
            return Layout(None if array.rank is None else (None,) * array.rank, array.dtype)
        axes = [one or () for one in spec.axes_of_entries()]
        if array.rank is not None and len(axes) > array.rank:
            again.interpreter.record_violation(
                "spec.rank", where, array=f"result{path}", shape=str(array), entries=str(len(axes)),
                rank=str(array.rank), operation="jax.shard_map",
            )  # fmt: skip
        elif checked and array.varying is not None:
            named = {axis for one in axes for axis in one}
            left = array.varying.intersection(mesh.names) - named
            if left and None not in spec.axes_of_entries() and named <= set(mesh.names):
                again.interpreter.record_violation(
                    "varying.declared-equal",
                    where,
                    axes=", ".join(sorted(left)),
                    result=path,
                    shape=str(array),
                )
        check_summed(again, array, tuple(axis for one in axes for axis in one), "out_specs")
        known = Layout(
            None, array.dtype, mesh, committed=True, memory="device", host=False, varying=frozenset(),
            sources=array.sources,
        )
        if array.shape is None:
            return known
        axes += [NO_AXES] * (len(array.shape) - len(axes))
        sizes = zip(array.shape, axes, strict=False)
        shape = tuple(_size_of_whole(size, mesh.size_of_axes(one) if one else 1) for size, one in sizes)
        placed = replace(known, shape=shape, spec=tuple(axes))
        if mesh.is_mixed and again.interpreter.traced:
            on, spec = typed_sharding(placed)
            return replace(placed, mesh=on, spec=spec)
        return placed

    return (
        Unknown("what shard_map returns")
        if isinstance(value, Unknown)
        else map_spread(whole_of_leaf, out_specs, value)
    )


def _size_of_whole(size: Size, parts: Size) -> Size:
    if parts == 1:
        return size
    if size == 1:
        return parts
    return size * parts if isinstance(size, int) and isinstance(parts, int) else None


register_function("jax.shard_map", "flax.nnx.shard_map")(transform_decorator(_shard_map))


def _run_pmap(call: Call, value: Value) -> Value:
    name = call.argument_at(1, "axis_name", None)
    default = Unknown("arrays alone") if call.name == "equinox.filter_pmap" else 0
    in_axes, out_axes = call.argument_at(2, "in_axes", default), call.argument_at(3, "out_axes", 0)
    static = call.argument_at(4, "static_broadcasted_argnums", ())
    numbers = {static} if isinstance(static, int) else set(static) if isinstance(static, tuple) else set()
    everywhere = call.keywords.get("devices") is None
    if not call.keywords.keys() <= _PMAP_SETTINGS:
        return Unknown("a call that raises")

    def run_mapped(again: Call) -> Value:
        interpreter = again.interpreter
        in_context = interpreter.mesh if interpreter.mesh_known and not interpreter.traced else None
        if in_context is not None and interpreter.releases.get("jax", (99,)) >= _PMAP_CONTEXT:
            interpreter.record_violation("pmap.context", again.place, mesh=str(in_context), line=str(in_context.line))
        check_axes(again, value, in_axes, len(numbers), place_of(call, 2, "in_axes"))
        size: Size = None

        def local_leaf(place: int, keyword: str, path: str, leaf: Value, at: Value) -> Value:
            nonlocal size
            array = layout_as_array(leaf)
            if not isinstance(leaf, Layout | int | float):
                return leaf if is_function(leaf) else Layout()
            if at is None:
                return replace(make_tracer(leaf), varying=frozenset())
            if isinstance(at, int):
                check_entry_contract(again, array, "rows.missing", place_of(again, place, keyword), path)
            repeats = has_copies(array) or (array.figure is not None and array.figure.kind == "repeated")
            if not isinstance(at, int) or (array.shape is None and not repeats):
                return _unknown_part(at, name, "" if array.is_key else _parameter_name(value, place))
            if array.shape is not None and len(array.shape) - (array.dtype == RAW_KEY) <= at:
                kind = "key" if array.is_key else "number" if array.literal else "array"
                interpreter.record_violation("pmap.unmapped", place_of(again, place, keyword), array=path, of=kind)
                return Layout()
            own = array.shape[at] if array.shape is not None else None
            too_many = isinstance(own, Symbol) and own.factor > 1 and own.name in _DEVICE_COUNTS and everywhere
            if too_many or are_surely_different(size, own):
                other = "devices" if too_many else f"another argument (`{size}`)"
                where = place_of(again, place, keyword)
                if where != again.place:  # one that a star hides has no name
                    interpreter.record_violation("pmap.sizes", where, array=path, size=str(own), other=other)
                return Layout()
            size = own if size is None else size
            along = frozenset((_pmap_axis_of(name),))
            differs = not repeats and (array.is_key or not _COPIED.search(_parameter_name(value, place)))
            row = without_dimension(make_tracer(array), at) if array.shape is not None else make_tracer(array)
            return replace(
                row, mesh=None, spec=None, varying=along, reduced=frozenset(), rows=None,
                figure=array.figure if repeats and array.is_key else None,
                equal=along if repeats else frozenset(), differs=along if differs else frozenset(),
                pieces=(tuple(along),) if differs and (array.rank or 0) > 1 else NO_PIECES,
            )  # fmt: skip

        def split_argument(place: int, keyword: str, one: Value, axis: Value) -> Value:
            """The part of an argument that a device gets."""
            if not isinstance(one, Unknown):
                return map_spread(partial(local_leaf, place, keyword), axis, one)
            return (
                AnyTree(_unknown_part(axis, name, _parameter_name(value, place)))
                if isinstance(axis, int | None)
                else one
            )

        parts: list[Value] = []
        for place, one in enumerate(again.args):
            axis = in_axes
            if isinstance(in_axes, tuple):
                axis = in_axes[place] if place < len(in_axes) else Unknown()
            parts.append(one if place in numbers else split_argument(place, "", one, axis))
        keywords = {
            key: split_argument(_parameter_position(value, key), key, one, 0) for key, one in again.keywords.items()
        }
        before = interpreter.axes, interpreter.checks_varying, interpreter.binder
        entered = _enter_body(interpreter, value)
        named = isinstance(name, str | None) and before[2] != SOME_MESH and (before[2] or not before[0])
        interpreter.binder = f"jax.pmap with {f'axis {name}' if name else 'no axis name'}" if named else ""
        interpreter.axes = {**interpreter.axes, _pmap_axis_of(name): size}
        interpreter.checks_varying = False
        try:
            result = run_traced(again, value, tuple(parts), keywords, again.open)
            check_results(again, value, out_axes, result, "", place_of(call, 3, "out_axes"))
        finally:
            interpreter.axes, interpreter.checks_varying, interpreter.binder = before
            interpreter.mapped_at, interpreter.body = entered

        def out_of_leaf(_: str, leaf: Value, at: Value) -> Value:
            array = leaf if isinstance(leaf, Layout) else Layout()
            axis = None if name is None else _pmap_axis_of(name)
            rows = rows_of(array, axis, again.place) if at == 0 and size != 1 else None
            if array.shape is None or not isinstance(at, int | None):
                return Layout(rows=rows)
            shape = array.shape if at is None else (size, *array.shape)
            return Layout(shape, array.dtype, committed=True, host=False, memory="device", rows=rows)

        result = map_tree(lambda part: AnyTree(Layout()) if _is_unknown(part) else part, result, stop=_is_unknown)
        if isinstance(result, AnyTree) and isinstance(out_axes, tuple):
            result = (result,) * len(out_axes)
        return map_spread(out_of_leaf, out_axes, result)

    return call.interpreter.note_transformed(Transformed("pmap", run_mapped, value, call.place))


def _is_unknown(tree: Value) -> bool:
    """Return whether neither the parts nor the arrays of a tree's part are known."""
    return isinstance(tree, Unknown) or (getattr(tree, "open", False) and not tree_children(tree))


def _unknown_part(at: Value, name: Value, parameter: str) -> Layout:
    """Return the shard of an argument of which only the parameter of the function is known."""
    if at is None:
        return Layout(varying=frozenset())
    along = frozenset((_pmap_axis_of(name),)) if isinstance(at, int) else frozenset[str]()
    if _COPIED.search(parameter):
        return Layout(varying=along or None)
    return Layout(varying=along or None, differs=along, pieces=(tuple(along),) if along else NO_PIECES)


def _parameter_name(function: Value, place: int) -> str:
    """The name of a positional parameter of the function that something runs."""
    inner = function_of(function)
    names = inner.positional_parameters if inner is not None else []
    place += names[:1] == ["self"]
    return names[place] if place < len(names) else ""


def _parameter_position(function: Value, name: str) -> int:
    """The place of a parameter that a call names."""
    inner = function_of(function)
    names = inner.positional_parameters if inner is not None else []
    return names.index(name) - (names[:1] == ["self"]) if name in names else len(names)


def _pmap_axis_of(name: Value) -> str:
    """The axis of a pmap in `varying`: "" where it has no name, or one that is not known."""
    return name if isinstance(name, str) else ""


register_function("jax.pmap", "flax.nnx.pmap", "equinox.filter_pmap")(transform_decorator(_run_pmap))

"""haliax: mappings of named axes to mesh axes, and what places arrays by them: `shard`, `auto_sharded`, `named_jit`.

Facts of haliax 1.4, each tried: a mapping that is given or in context gives each axis of an array its mesh axes; axes
that it does not name stay whole. `shard` places outside of jit and constrains within; without a mapping or a mesh it
does nothing. `named_jit` puts its first mapping in context and places its results by the one for outputs, else by that
one, other arrays whole; without a mesh it raises then. Meshes of `jax.set_mesh` and of `with mesh:` count.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from shardlint.layouts.layout import Axes, Layout, Mesh, Size
from shardlint.layouts.values import (
    AnyTree,
    Call,
    DictValue,
    Library,
    Native,
    PartitionSpec,
    Sharding,
    Transformed,
    Unknown,
    Value,
    known_items,
    map_tree,
)
from shardlint.libraries.contexts import Entered
from shardlint.libraries.haliax_axes import Axis, NamedArray, axes_of, map_named, selected_axes
from shardlint.libraries.jax_sharding import check_fits, constrain_array, place_array, place_of
from shardlint.libraries.jax_transforms import transform_decorator
from shardlint.libraries.meeting import mark_computed
from shardlint.libraries.registry import register_function
from shardlint.model.values import Place

MAPPING = "axis mapping of haliax"
_UNKNOWN = Unknown("a mapping")
_RESOURCES = ("axis_resources", "in_axis_resources", "out_axis_resources")


# the mapping and the mesh in context


def _mapping_in_context(call: Call) -> Value:
    """The mapping in context: None where there surely is none."""
    run = call.interpreter
    if MAPPING in run.contexts:
        return run.contexts[MAPPING]
    known = run.rooted and (run.mesh_known or run.legacy is not None)  # else something unknown was entered
    return None if known else _UNKNOWN


def _mesh_in_context(call: Call, value: Value = None) -> Mesh | Unknown | None:
    """The mesh that haliax finds; None where there surely is none."""
    run = call.interpreter
    if value is not None:
        return value if isinstance(value, Mesh) else Unknown("a mesh")
    if run.axes:
        return Unknown("a mesh with manual axes")
    if run.mesh_known and (run.mesh is not None or run.rooted):
        return run.mesh
    return run.legacy if run.legacy is not None else Unknown("the mesh in context")


@register_function("haliax axis_mapping")
def axis_mapping(call: Call) -> Value:
    """A mapping in context. With `merge` the outer one wins, but for keywords."""
    given, outer = call.argument_at(0, "mapping"), _mapping_in_context(call)
    _check_kind(call, given, 0, "mapping")
    merge = call.keywords.get("merge", False)
    more = {name: one for name, one in call.keywords.items() if name not in ("mapping", "merge")}
    made: Value = _UNKNOWN
    if isinstance(given, DictValue) and not call.open and isinstance(merge, bool):
        entries, is_open = dict(given.entries), given.open
        if merge and outer is not None:
            if isinstance(outer, DictValue):
                _check_outer(call, given, outer)
                entries.update(outer.entries)
            is_open |= not isinstance(outer, DictValue) or outer.open
        made = DictValue({**entries, **more}, is_open, written=given.written)
    return Entered(call.name, sets={MAPPING: made})


def _check_outer(call: Call, dict_value: DictValue, outer: DictValue) -> None:
    """Record an entry that a mapping in context replaces by another one."""
    for name, one in dict_value.entries.items():
        theirs = outer.entries.get(name, one)
        if _mesh_axes(theirs) is not None and _mesh_axes(one) not in (None, _mesh_axes(theirs)):
            line = str(outer.written.line) if outer.written is not None else ""
            call.interpreter.record_violation(
                "mapping.outer", _place_of_key(call, dict_value, name), axis=str(name), line=line
            )


@register_function("haliax.partitioning current_thread_local_mapping")
def current_mapping(call: Call) -> Value:
    """The mapping in context."""
    return _mapping_in_context(call)


# what a mapping says


def _mesh_axes(value: Value) -> Axes | None:
    """The mesh axes of an entry of a mapping; None where they are not known."""
    return () if value is None else PartitionSpec((known_items(value) or value,)).axes_of_entries()[0]


def _place_of_key(call: Call, mapping: Value, name: Value) -> Place:
    """Where the entry of a mapping is written, if its text is known; else the call."""
    written = mapping.written if isinstance(mapping, DictValue) else None
    for key in getattr(written.node, "keys", ()) if written is not None else ():
        if isinstance(key, ast.Constant) and key.value == name and written is not None:
            return Place(written.file, key)
    return call.place


def _violate_at_key(call: Call, kind: str, mapping: Value, name: Value, **said: str) -> None:
    """Record a contract that an entry of a mapping breaks in a call."""
    call.interpreter.record_violation(
        kind, _place_of_key(call, mapping, name), *call.interpreter.calls, call.place, **said
    )


def _mapping_entry(mapping: Value, name: str) -> Value:
    """Return the entry of a mapping for an axis; None if it has none."""
    if isinstance(mapping, DictValue) and (name in mapping.entries or not mapping.open):
        return mapping.entries.get(name)
    return Unknown("a mesh axis")


def _spec_of_names(mapping: Value, names: list[str]) -> PartitionSpec:
    """The spec of an array with axes of some names."""
    entries = [_mapping_entry(mapping, name) for name in names]
    return PartitionSpec(tuple(one if isinstance(one, str | None) else known_items(one) or one for one in entries))


def _check_kind(call: Call, mapping: Value, position: int, name: str) -> bool:
    """Record a mesh in the place of a mapping; whether it may be one."""
    if isinstance(mapping, Mesh):
        call.interpreter.record_violation("mapping.mesh", place_of(call, position, name), operation=call.function_name)
    return not isinstance(mapping, Mesh)


def _check_mapping(call: Call, mapping: Value, mesh: Value) -> None:
    """Record entries that name an axis that the mesh does not have: the first array with such an axis raises."""
    if not isinstance(mapping, DictValue) or not isinstance(mesh, Mesh):
        return
    for name, one in mapping.entries.items():
        missing = [axis for axis in _mesh_axes(one) or () if axis not in mesh.names]
        if missing:
            said = {"axis": str(name), "missing": missing[0], "mesh": str(mesh), "line": str(mesh.line)}
            _violate_at_key(call, "mapping.axis", mapping, name, **said)


def _mapping_fits(
    call: Call, named: NamedArray, mapping: Value, mesh: Value, spec: PartitionSpec, raises: bool
) -> bool:
    """Record what keeps the axes of an array from being placed by a mapping; whether nothing does."""
    if not isinstance(mesh, Mesh):
        return True
    axes = [one or () for one in spec.axes_of_entries()]
    flat = [axis for one in axes for axis in one]
    if any(axis not in mesh.names for axis in flat):
        call.interpreter.record_violation("mapping.missing", call.place, array=str(named), axis=next(
            axis for axis in flat if axis not in mesh.names), mesh=str(mesh), line=str(mesh.line))  # fmt: skip
        return False
    again = next((axis for axis in flat if flat.count(axis) > 1), None)
    if again is not None:
        names = [name for name, one in zip(named.axis_names, axes, strict=True) if again in one]
        said = {"axis": again, "first": names[0], "second": names[-1], "array": str(named)}
        _violate_at_key(call, "mapping.twice", mapping, names[-1], **said)
        return False
    return check_fits(call, named.plain_array, spec, mesh, call.place, "", raises)


# what places arrays by it


@register_function("haliax shard auto_sharded")
def shard_arrays(call: Call) -> Value:
    """The NamedArrays of a tree, placed by a mapping; nothing without one, or without a mesh."""
    automatic = call.function_name == "auto_sharded"
    given = None if automatic else call.argument_at(1, "mapping", None)
    if not _check_kind(call, given, 1, "mapping"):
        return Unknown("what raises")
    mapping = _mapping_in_context(call) if given is None else given
    mesh = _mesh_in_context(call, call.argument_at(1 if automatic else 2, "mesh", None))
    tree = call.argument_at(0, "x")
    if mapping is None or mesh is None:
        if not call.open:
            kind = "mapping.none" if mapping is None else "mapping.no-mesh"
            said = {"operation": call.function_name, "traced": "yes" if call.interpreter.traced else ""}
            call.interpreter.record_violation(kind, call.function_place, **said)
        return tree
    _check_mapping(call, mapping, mesh)
    return _shard_tree(call, tree, mapping, mesh)


def auto_sharded(call: Call, named: Value) -> Value:
    """Return the result of a function of haliax that places it by the mapping in context."""
    mapping, mesh = _mapping_in_context(call), _mesh_in_context(call)
    if mapping is None or mesh is None:
        return named
    _check_mapping(call, mapping, mesh)
    return _shard_tree(call, named, mapping, mesh)


def _shard_tree(call: Call, tree: Value, mapping: Value, mesh: Mesh | Unknown) -> Value:
    if isinstance(tree, Unknown | AnyTree):
        return AnyTree(Unknown())
    traced = bool(call.interpreter.traced)

    def shard_leaf(leaf: Value) -> Value:
        if not isinstance(leaf, NamedArray):
            return leaf
        if not isinstance(leaf.attributes["array"], Layout):
            return leaf
        if leaf.axes is None or isinstance(mapping, Unknown):  # which may be None
            return leaf.with_parts({"array": Layout(leaf.plain_array.shape, leaf.plain_array.dtype)})
        spec = _spec_of_names(mapping, leaf.axis_names)
        if not _mapping_fits(call, leaf, mapping, mesh, spec, raises=not traced):
            return leaf if traced else Unknown("what raises")
        target = Sharding(mesh, spec)
        if not traced:
            return leaf.with_parts({"array": place_array(call, leaf.plain_array, target, call.place)})
        again = replace(call, name="jax.lax.with_sharding_constraint", args=(leaf.plain_array, target), keywords={})
        # What leaves the jit need not lie so: under `with mesh:` haliax constrains nothing on new releases of jax.
        return leaf.with_parts({"array": mark_computed(constrain_array(again))})

    return map_named(shard_leaf, tree)


def _shardings_of_tree(call: Call, tree: Value, mapping: Value, mesh: Mesh | Unknown) -> Value:
    """The shardings that `infer_resource_partitions` gives for a tree: of arrays without axes whole ones."""

    def sharding_of_leaf(leaf: Value) -> Value:
        if isinstance(mapping, Unknown):
            return Unknown("a sharding, or none")
        if isinstance(leaf, NamedArray):
            if leaf.axes is None:
                return leaf.with_parts({"array": Unknown("a sharding")})
            spec = _spec_of_names(mapping, leaf.axis_names)
            fits = _mapping_fits(call, leaf, mapping, mesh, spec, raises=True)
            return leaf.with_parts({"array": Sharding(mesh, spec) if fits else Unknown("what raises")})
        if isinstance(leaf, Layout | int | float):
            return Sharding(mesh, PartitionSpec(()))
        return Unknown("a sharding")

    return map_named(sharding_of_leaf, tree) if not isinstance(tree, Unknown) else tree


@register_function("haliax.partitioning infer_resource_partitions pspec_for")
def mapped_partitions(call: Call) -> Value:
    """Shardings, or specs, by a mapping; of arrays that have a sharding, that one, where it is not told otherwise."""
    tree, given = call.argument_at(0, "tree"), call.argument_at(1, "resource_mapping", None)
    mapping = _mapping_in_context(call) if given is None else given
    if call.argument_at(2, "preserve_existing_shardings", True) is not False or mapping is None:
        return Unknown("shardings")
    found = _shardings_of_tree(
        call, tree, mapping, _mesh_in_context(call, call.argument_at(3, "mesh", None)) or Unknown("a mesh")
    )
    if call.function_name == "pspec_for":
        return map_tree(lambda leaf: leaf.spec if isinstance(leaf, Sharding) else leaf, found)
    return found


@register_function("haliax.partitioning pspec_for_axis sharding_for_axis")
def spec_for_axis(call: Call) -> Value:
    """The spec of some axes, or a sharding of it."""
    chosen, given = selected_axes(call.argument_at(0, "axis")), call.argument_at(1, "mapping", None)
    mapping = _mapping_in_context(call) if given is None else given
    if chosen is None or call.open:
        return Unknown("a spec")
    spec = _spec_of_names(DictValue() if mapping is None else mapping, [name for name, _ in chosen])
    return (
        spec
        if call.function_name == "pspec_for_axis"
        else Sharding(_mesh_in_context(call, call.argument_at(2, "mesh", None)), spec)
    )


@register_function("haliax.partitioning physical_axis_name physical_axis_size round_axis_for_partitioning")
def physical_axes(call: Call) -> Value:
    """The mesh axes of an axis, their size, or the axis with a size that they divide."""
    chosen, given, mesh = (
        selected_axes(call.argument_at(0, "axis")),
        call.argument_at(1, "mapping", None),
        _mesh_in_context(call),
    )
    mapping = _mapping_in_context(call) if given is None else given
    found = None if mapping is None or not chosen else _mapping_entry(mapping, chosen[0][0])
    axes = _mesh_axes(found)
    if call.function_name == "physical_axis_name" or chosen is None or axes is None:
        return found
    size: Size = mesh.size_of_axes(axes) if isinstance(mesh, Mesh) else None
    if call.function_name == "physical_axis_size":
        return None if found is None else Unknown("a size") if size is None else size
    (axis, *_) = axes_of(call.argument_at(0, "axis")) or (None,)
    if axis is None or found is None or not isinstance(size, int) or not isinstance(axis.size, int):
        return axis if found is None else Unknown("an axis")
    return Axis(axis.name, -(-axis.size // size) * size)


register_function("haliax set_mesh", "haliax.partitioning set_mesh mesh_context")(
    lambda call: call.interpreter.call_value(Library("jax.set_mesh"), call.args, call.keywords, call.place)
)


# named_jit


def _named_jit(call: Call, value: Value) -> Value:
    for position, name in enumerate(_RESOURCES, 1):
        _check_kind(
            call,
            call.argument_at(position if position == 1 else -1, name, None),
            1 if position == 1 else -1,
            name,
        )
    resources = call.argument_at(1, "axis_resources", None)
    ins, outs = (call.keywords.get(name) for name in _RESOURCES[1:])

    def run_compiled(again: Call) -> Value:
        interpreter = again.interpreter
        around = _mapping_in_context(again)
        mapping = around if resources is None else resources
        results = mapping if outs is None else outs
        mesh = _mesh_in_context(again)
        flags = known_items(call.keywords.get("donate_args"))
        donated = tuple(place for place, one in enumerate(flags or ()) if one is True)
        keywords: dict[str, Value] = {"donate_argnums": donated}
        is_placed = ins is not None or results is not None
        for one in {id(one): one for one in (mapping, ins, results)}.values():
            _check_mapping(call, one, mesh)
        if ins is not None:
            keywords["in_shardings"] = _shardings_of_tree(again, again.args, ins, mesh or Unknown())
        if results is not None:
            keywords["out_shardings"] = Native(
                "shardings",
                lambda found: _shardings_of_tree(again, found.args[0], results, mesh or Unknown()),
            )
        before = interpreter.contexts
        interpreter.contexts = {**before, MAPPING: mapping} if mapping is not None else before
        try:
            compiled = interpreter.call_value(Library("equinox.filter_jit"), (value,), keywords, call.place)
            found = interpreter.call_value(compiled, again.args, again.keywords, again.place, again.open)
        finally:
            interpreter.contexts = before
        if mesh is None and is_placed:  # haliax traces the function first
            interpreter.record_violation("mapping.meshless", again.function_place, operation="named_jit")
            return Unknown("what raises")
        return found

    return Transformed("haliax.named_jit", run_compiled, value, call.place)


register_function("haliax named_jit named_pjit")(transform_decorator(_named_jit))


@register_function("haliax fsdp")
def named_jit_fsdp(call: Call) -> Value:
    """`named_jit` with one mapping for arguments and results, and another one for what is computed."""
    first = call.args[0] if call.args else None
    given = call.keywords.get("fn", first if len(call.args) > 1 and not isinstance(first, DictValue | Mesh) else None)
    rest = call.args[1:] if given is not None and given is first else call.args
    parameters, computed = (
        call.keywords.get(name, rest[place] if place < len(rest) else None)
        for place, name in enumerate(("parameter_mapping", "compute_mapping"))
    )
    named = dict(zip(_RESOURCES, (computed, parameters, parameters), strict=True))
    made = replace(call, name="haliax.named_jit", args=() if given is None else (given,), keywords=named)
    return transform_decorator(_named_jit)(made)

"""Meshes, specs, shardings, and what places arrays by them: `device_put`, constraints, `reshard`."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import AutoConstraint, Axes, AxisType, Layout, Mesh, Spec, Symbol, divide_size
from shardlint.layouts.values import (
    AnyTree,
    AxisTypeValue,
    Call,
    Device,
    Devices,
    FunctionValue,
    Library,
    ListValue,
    Native,
    Partial,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
    known_items,
    map_spread,
    map_tree,
    spread_prefix,
    tree_children,
    tree_leaves,
)
from shardlint.libraries.jax_numpy import device_dtype, sizes_of
from shardlint.libraries.meeting import (
    NO_AXES,
    check_devices,
    check_moved,
    explicit_spec,
    fresh_array,
    is_whole,
    layout_as_array,
    typed_sharding,
)
from shardlint.libraries.registry import register_function
from shardlint.model.values import Place

# `jax.make_mesh` gives Explicit axes without `axis_types` since then; `Mesh` gives Auto ones.
_EXPLICIT_BY_DEFAULT = (0, 9)
# jax 0.10.2 reshards by a spec whose last entries are None and too many, 0.12 raises.
_REFUSES_LONG_SPECS = (0, 12)


@register_function("jax.devices", "jax.local_devices", "jax.experimental.mesh_utils create_device_mesh")
def all_devices(call: Call) -> Value:
    """The devices, in a list or in the shape of a mesh."""
    if call.name.endswith("create_device_mesh"):
        shape = sizes_of(call.argument_at(0, "mesh_shape"))
        return Devices(shape, None if call.has_argument(1, "devices") else "arranged") if shape else Unknown("a shape")
    every = call.name == "jax.devices" and not call.args and not call.keywords
    return Devices((None,), "all" if every else None)


@register_function("jax.device_count")
def device_count(call: Call) -> Value:
    """How many devices there are: not known, and the same each time."""
    return Symbol("jax.device_count()")


@register_function("jax.local_device_count", "jax.process_count", "jax.process_index")
def local_count(call: Call) -> Value:
    """Counts that the environment decides."""
    return Symbol(f"{call.name}()")


def axis_names(value: Value) -> tuple[str, ...] | None:
    """The axes that an argument names, by a string or a tuple or list of them; None where that is not known."""
    items = (value,) if isinstance(value, str) else known_items(value)
    return items if items is not None and all(isinstance(one, str) for one in items) else None


def _axis_types(value: Value, count: int, default: AxisType | None) -> tuple[AxisType | None, ...]:
    if value is None:
        return (default,) * count
    items = (
        value if isinstance(value, tuple) else (value,) * count if isinstance(value, AxisTypeValue) else ()
    )
    found = tuple(one.name if isinstance(one, AxisTypeValue) else None for one in items)
    return found if len(found) == count else (None,) * count


@register_function("jax.make_mesh", "jax.sharding.Mesh", "jax.sharding.AbstractMesh")
def make_mesh(call: Call) -> Value:
    """A mesh. The default of `axis_types` is Explicit for `jax.make_mesh` since jax 0.9, else Auto."""
    names = axis_names(call.argument_at(1, "axis_names"))
    if names is None or call.open:
        return Unknown("a mesh whose axes are not known")
    if call.name == "jax.sharding.Mesh":
        held = call.argument_at(0, "devices")
        shape = held.shape if isinstance(held, Devices) else (None,) * len(names)
        where = held.order if isinstance(held, Devices) else None
        default: AxisType | None = "auto"
    else:
        before_0_12 = call.argument_at(0, "axis_shapes")
        shape = sizes_of(call.argument_at(0, "axis_sizes", before_0_12)) or (None,) * len(names)
        where = "arranged" if call.argument_at(-1, "devices", None) is None else None
        release = call.interpreter.releases.get("jax", (99,))
        default = "explicit" if release >= _EXPLICIT_BY_DEFAULT and call.name == "jax.make_mesh" else "auto"
    sizes = tuple(None if isinstance(one, int) and one < 0 else one for one in shape)
    if len(sizes) != len(names):
        sizes = (None,) * len(names)
    written = call.argument_at(2, "axis_types", None)
    types = _axis_types(written, len(names), default)
    return Mesh(names, sizes, types, where, call.place.line, by_default=written is None)


@register_function("jax.sharding.PartitionSpec")
def partition_spec(call: Call) -> Value:
    """A spec as written."""
    entries = []
    for one in call.args:
        if isinstance(one, ListValue) and not one.open:
            one = tuple(one.items)
        entries.append(one if one is None or isinstance(one, str | tuple) else Unknown("an entry"))
    return PartitionSpec(tuple(entries), call.open)


@register_function("jax.sharding.NamedSharding")
def named_sharding(call: Call) -> Value:
    """Mesh and spec. An axis that the mesh lacks, or that shards two dimensions, raises here."""
    mesh_, spec = call.argument_at(0, "mesh"), call.argument_at(1, "spec")
    memory = call.keywords.get("memory_kind", "device")
    found = mesh_ if isinstance(mesh_, Mesh) else Unknown("a mesh")
    known = spec if isinstance(spec, PartitionSpec) else Unknown("a spec")
    if isinstance(found, Mesh) and isinstance(known, PartitionSpec):
        if not check_axes(call, found, known):
            return Unknown("what raises")
    return Sharding(found, known, memory if isinstance(memory, str) else None)


@register_function("jax.sharding.SingleDeviceSharding")
def single_device(call: Call) -> Value:
    """A sharding on one device."""
    device = call.argument_at(0, "device")
    return Sharding(None, PartitionSpec(()), "device", device.name if isinstance(device, Device) else None)


def check_axes(call: Call, mesh_: Mesh, spec: PartitionSpec, tell: bool = False) -> bool:
    """Record an axis that the mesh does not have; whether the spec fits. `tell`: and one that shards two dimensions.

    Where a spec is given to jax itself, the rules find both in the text.
    """
    for axes in spec.axes_of_entries():
        for axis in axes or ():
            if axis not in mesh_.names:
                call.interpreter.record_violation(
                    "axis.missing" if tell else "axis.unknown",
                    call.place,
                    axis=axis,
                    mesh=str(mesh_),
                    line=str(mesh_.line),
                )
                return False
    named = [axis for axes in spec.axes_of_entries() for axis in axes or ()]
    again = next((axis for axis in named if named.count(axis) > 1), None)
    if again is not None and tell:
        shown = ", ".join(str(one) if isinstance(one, tuple) else repr(one) for one in spec.entries)
        call.interpreter.record_violation(
            "axis.twice", call.place, axis=again, spec=f"P({shown})", line=str(mesh_.line)
        )
    return again is None


def place_of(call: Call, position: int, name: str) -> Place:
    """Where an argument stands."""
    nodes = call.argument_nodes
    if 0 <= position < len(nodes):
        return Place(call.place.file, nodes[position])
    for keyword in getattr(call.place.node, "keywords", ()):
        if keyword.arg == name:
            return Place(call.place.file, keyword.value)
    return call.place


def argument_place(call: Call, path: str) -> tuple[Place, str]:
    """Where the argument stands that a path into all arguments begins with, and the rest of the path."""
    number, found, rest = path.removeprefix("[").partition("]")
    if path.startswith("[") and found and number.isdigit():
        return place_of(call, int(number), ""), rest
    return call.place, path


def spec_and_mesh(call: Call, target: Value) -> tuple[PartitionSpec | None, Mesh | None]:
    """The spec of a sharding, and its mesh: of a spec alone that in context. None where it is not known whole."""
    spec = target if isinstance(target, PartitionSpec) else getattr(target, "spec", None)
    mesh_ = call.interpreter.mesh if isinstance(target, PartitionSpec) else getattr(target, "mesh", None)
    known = spec if isinstance(spec, PartitionSpec) and not spec.open else None
    return known, mesh_ if isinstance(mesh_, Mesh) else None


def check_fits(
    call: Call,
    array: Layout,
    spec: PartitionSpec,
    mesh_: Mesh | None,
    where: Place,
    path: str,
    raises: bool = True,
) -> bool:
    """Record a spec with more entries than the array has dimensions, or a size that its axes do not divide."""
    if array.shape is None:
        return True
    axes = spec.axes_of_entries()
    if len(axes) > len(array.shape):
        call.interpreter.record_violation(
            "spec.rank",
            where,
            array=path,
            shape=str(array),
            entries=str(len(axes)),
            rank=str(len(array.shape)),
            operation=call.name,
        )
        return False
    if mesh_ is None:
        return True
    for place, (size, one) in enumerate(zip(array.shape, axes, strict=False)):
        parts = mesh_.size_of_axes(one) if one else 1
        if isinstance(size, int) and isinstance(parts, int) and parts and size % parts:
            call.interpreter.record_violation(
                "spec.indivisible" if raises else "spec.padded", where, array=path, shape=str(array),
                axes="/".join(one or ()), size=str(size), parts=str(parts), dimension=str(place), operation=call.name,
            )  # fmt: skip
            return False
        if isinstance(size, int) and size > 1 and size % 2 and one == mesh_.names and mesh_.devices == "all":
            call.interpreter.record_violation(
                "spec.odd", where, array=path, shape=str(array), axes=one[0], size=str(size),
                dimension=str(place), raises="yes" if raises else "", operation=call.name,
            )  # fmt: skip
    return True


def place_array(call: Call, array: Value, target: Value, where: Place, path: str = "") -> Value:
    """An array on a sharding or device."""
    known = replace(layout_as_array(array), unplaced=None, built=None)
    if known.host is not False:
        known = replace(known, dtype=device_dtype(known.dtype))
    match target:
        case Sharding(device=str() as device):
            return replace(
                known,
                mesh=None,
                spec=None,
                device=device,
                committed=True,
                host=False,
                memory="device",
                made=call.place.line,
                literal=False,
            )
        case Sharding(mesh=mesh_, spec=spec, memory=memory):
            on = mesh_ if isinstance(mesh_, Mesh) else None
            full = None
            if isinstance(spec, PartitionSpec) and not spec.open:
                check_fits(call, known, spec, on, where, path)
                if known.shape is not None and len(spec.entries) <= len(known.shape):
                    axes = spec.axes_of_entries()
                    full = (*axes, *((NO_AXES,) * (len(known.shape) - len(axes))))
            return replace(
                known,
                mesh=on,
                spec=full,
                device=None,
                committed=True,
                host=False,
                memory=memory,
                made=call.place.line,
                literal=False,
            )
        case Device(name=name):
            return replace(
                known,
                mesh=None,
                spec=None,
                device=name,
                committed=True,
                host=False,
                memory="device",
                made=call.place.line,
                literal=False,
            )
        case None:
            if known.host is None:
                return replace(known, mesh=None, spec=None)
            if not known.host:
                return known
            return fresh_array(call, known.shape, known.dtype)
    return Layout(known.shape, known.dtype, varying=known.varying)


def with_mesh_in_context(call: Call, target: Value) -> Value:
    """A sharding: of a spec alone, the one over the mesh in context."""
    return Sharding(call.interpreter.mesh, target) if isinstance(target, PartitionSpec) else target


def place_tree(call: Call, tree: Value, target: Value, where: Place) -> Value:
    """A tree whose arrays are placed by one target, or by a tree of them."""
    target = with_mesh_in_context(call, target)
    if isinstance(target, Unknown | Symbol | Devices):
        target = Unknown()
    for_all = tree_children(target) is None

    def place_leaf(path: str, leaf: Value, value: Value) -> Value:
        if for_all and not isinstance(leaf, Layout | int | float):
            return AnyTree(Layout()) if isinstance(leaf, Unknown) else leaf
        return place_array(call, leaf, with_mesh_in_context(call, value), where, path)

    if for_all and isinstance(tree, Unknown):
        return AnyTree(Layout())
    if for_all and isinstance(tree, ListValue) and all(isinstance(one, int | float) for one in tree.items):
        if layout_as_array(tree).shape is not None:
            return place_array(call, tree, target, where)
    return map_spread(place_leaf, target, tree)


@register_function("jax.device_put")
def device_put(call: Call) -> Value:
    """Places arrays. Within jit a sharding has no effect on a tracer, but for memory kinds; a spec must still fit."""
    tree, target = call.argument_at(0, "x"), call.argument_at(1, "device", None)
    if call.interpreter.traced:
        if isinstance(target, Sharding):
            where = place_of(call, 1, "device")
            return map_spread(lambda path, leaf, _: _place_tracer(call, leaf, target, where, path), None, tree)
        memory = None
        if isinstance(target, Library) and target.name.startswith("jax.memory.Space"):
            memory = "device" if target.name.endswith("Device") else "pinned_host"

        def change_memory(leaf: Value) -> Value:
            array = layout_as_array(leaf)
            return (
                replace(array, memory=memory, host=False, literal=False)
                if memory
                else replace(array, spec=None, memory=None)
            )

        return map_tree(change_memory, tree) if not isinstance(tree, Unknown) else AnyTree(Layout())
    where = place_of(call, 1, "device")
    _check_context(call, target, where)
    return place_tree(call, tree, target, where)


def _place_tracer(call: Call, leaf: Value, target: Sharding, where: Place, path: str) -> Value:
    """A tracer that `device_put` gives a memory, and over Explicit axes a sharding."""
    array, mesh_ = layout_as_array(leaf), target.mesh if isinstance(target.mesh, Mesh) else None
    if isinstance(leaf, Unknown):
        return leaf
    moved = replace(array, memory=target.memory, host=False, literal=False)
    if not isinstance(target.spec, PartitionSpec) or target.spec.open:
        return replace(moved, mesh=None, spec=None)
    fits = check_fits(call, array, target.spec, mesh_, where, path)
    if mesh_ is None or mesh_.is_automatic:
        return replace(moved, committed=moved.committed or None)  # releases differ in whether it commits a result
    known = fits and array.shape is not None
    placed_ = replace(moved, mesh=mesh_, spec=pad_spec(array, target.spec) if known else None)
    on, spec = typed_sharding(placed_)
    return replace(placed_, mesh=on, spec=spec, committed=moved.committed if on is not None else None)


@register_function("jax.lax.with_sharding_constraint", "equinox.filter_shard")
def constrain_array(call: Call) -> Value:
    """A constraint: over Auto axes alone. Outside of jit it places like `device_put`."""
    position = (1, "shardings") if call.name.startswith("jax") else (1, "device_or_shardings")
    tree, target = call.argument_at(0, "x"), call.argument_at(*position)
    where = place_of(call, *position)
    _check_context(call, target, where)
    for path, leaf, one in spread_prefix(target, tree):
        if isinstance(leaf, Layout) and call.name.startswith("equinox") and not call.interpreter.traced:
            check_moved(call, leaf, one)
        mesh_ = call.interpreter.mesh if isinstance(one, PartitionSpec) else getattr(one, "mesh", None)
        spec = one if isinstance(one, PartitionSpec) else getattr(one, "spec", None)
        named = (
            [axis for axes in spec.axes_of_entries() for axis in axes or ()]
            if isinstance(spec, PartitionSpec)
            else []
        )
        manual = [axis for axis in named if axis in call.interpreter.axes]
        if manual and call.interpreter.manual is not None:
            call.interpreter.record_violation("constraint.manual", call.place, axes=", ".join(manual))
            continue
        if not isinstance(mesh_, Mesh) or not isinstance(spec, PartitionSpec) or spec.open:
            continue
        explicit = [axis for axis in named if mesh_.type_of(axis) == "explicit"]
        array = layout_as_array(leaf)
        own = explicit_spec(array)
        holds = pad_spec(array, spec) == own if own is not None else None
        in_context = mesh_ == call.interpreter.mesh
        if mesh_.is_explicit and in_context and (array.mesh == mesh_ or is_whole(array)) and holds is False:
            explicit = explicit or list(mesh_.names)
        if explicit and not mesh_.is_mixed and in_context and holds is not False:
            continue  # an assertion, which holds or of which nothing is known
        if explicit:
            call.interpreter.record_violation(
                "constraint.explicit",
                call.place,
                axes=", ".join(explicit),
                mesh=str(mesh_),
                line=str(mesh_.line),
            )
            return Unknown("what raises")
        if isinstance(leaf, Layout):
            if call.name.startswith("jax"):
                check_devices(call, [array], mesh_, call.function_name)
            check_fits(call, array, spec, mesh_, where, path, raises=not call.interpreter.traced)
    if call.interpreter.traced:  # what a jit returns may be committed by it
        for _, leaf in tree_leaves(tree):
            if isinstance(leaf, Layout) and leaf.unplaced is not None:
                call.interpreter.forget_unplaced(leaf.unplaced)
        return map_spread(lambda path, leaf, one: _constrain_traced(call, leaf, one), target, tree)
    if call.name.startswith("equinox") and isinstance(tree, bool | int | float):
        return tree  # filter_shard leaves numbers of Python alone
    result = place_tree(call, tree, target, where)
    if target == Device("device 0") and call.interpreter.releases.get("jax", (99,)) < (0, 8, 3):
        # A new array that lies on its device already comes back as it was: uncommitted.
        return map_tree(lambda leaf: replace(leaf, committed=None) if isinstance(leaf, Layout) else leaf, result)
    return result


# Before, the compiler may place an array by another constraint of the jit.
_PLACES = (0, 7)


def _constrain_traced(call: Call, leaf: Value, target: Value) -> Value:
    """An array of traced code with the constraint that it was given over Auto axes."""
    if not isinstance(leaf, Layout):
        return leaf
    run = call.interpreter
    array = replace(leaf, committed=None, unplaced=None, built=None, asked=None)
    if run.releases.get("jax", (99,)) < _PLACES:
        return array
    spec, mesh_ = spec_and_mesh(call, target)
    if isinstance(target, PartitionSpec) and run.mesh is None:
        mesh_ = run.legacy
    if (
        spec is None
        or mesh_ is None
        or not mesh_.is_automatic
        or run.axes
        or not _spec_divides_array(array, spec, mesh_)
    ):
        return array
    kept = tuple(None if axes is None else _without_single(axes, mesh_) for axes in pad_spec(array, spec))
    return replace(array, asked=AutoConstraint(mesh_, kept, run.traced))


def _without_single(axes: Axes, mesh: Mesh) -> Axes | None:
    """Axes without those of one device, which the compiler leaves out; None where a size is not known."""
    sizes = [mesh.size_of_axes((one,)) for one in axes]
    return None if None in sizes else tuple(one for one, size in zip(axes, sizes, strict=True) if size != 1)


def _spec_divides_array(array: Layout, spec: PartitionSpec, mesh: Mesh) -> bool:
    """Return whether a spec divides an array, as far as the array's sizes are known."""
    axes = spec.axes_of_entries()
    if array.shape is None or len(axes) > len(array.shape):
        return False
    sizes = zip(array.shape, (mesh.size_of_axes(one) if one else 1 for one in axes), strict=False)
    return all(divide_size(size, parts) is not None for size, parts in sizes if parts != 1 and isinstance(size, int))


def _check_context(call: Call, target: Value, where: Place) -> None:
    """Record a bare spec where no mesh is in context, on a way that is all known.

    `jax.device_put` does not read the mesh of `with mesh:`.
    """
    run = call.interpreter
    bare = any(isinstance(one, PartitionSpec) for _, one in tree_leaves(target))
    unread = run.legacy is not None and call.function_name == "device_put"
    if bare and run.rooted and not run.axes and (unread or (run.mesh_known and run.mesh is None)):
        context = "`with mesh:`" if unread else ""
        run.record_violation("mesh.missing", where, operation=call.function_name, context=context)


def pad_spec(array: Layout, spec: PartitionSpec) -> Spec:
    """The axes of all dimensions of an array: a spec leaves out those at the end that are whole."""
    axes = spec.axes_of_entries()
    return (*axes, *((NO_AXES,) * ((array.rank or 0) - len(axes))))


def _mark_committed(leaf: Value) -> Value:
    """A leaf where it was; in which memory it is then, releases differ."""
    if not isinstance(leaf, Layout):
        return leaf
    memory = leaf.memory if leaf.memory == "device" else None
    return replace(leaf, memory=memory) if leaf.committed else Layout(leaf.shape, leaf.dtype)


def _check_automatic(call: Call, kind: str, target: Value) -> bool:
    """Record a sharding over Auto axes where jax takes one over Explicit axes only."""
    spec, mesh_ = getattr(target, "spec", None), getattr(target, "mesh", None)
    if not isinstance(spec, PartitionSpec) or not isinstance(mesh_, Mesh):
        return False
    automatic = [axis for axes in spec.axes_of_entries() for axis in axes or () if mesh_.type_of(axis) == "auto"]
    if automatic:
        said = {"operation": call.function_name, "mesh": str(mesh_), "line": str(mesh_.line)}
        call.interpreter.record_violation(kind, call.place, axes=", ".join(automatic), **said)
    return bool(automatic)


@register_function("shardlint.out_sharding")
def check_output(call: Call) -> Value:
    """Report an `out_sharding` that a function of jax refuses, and return whether it does."""
    target = with_mesh_in_context(call, call.keywords["out_sharding"])
    return call.name.startswith("jax.") and _check_automatic(call, "output.auto", target)


def _is_longer_by_none(spec: PartitionSpec, array: Layout) -> bool:
    """Return whether a spec has more entries than an array has dimensions, the last of which are None."""
    entries = spec.axes_of_entries()
    return array.shape is not None and len(entries) > len(array.shape) and not any(entries[len(array.shape) :])


@register_function("jax.reshard")
def reshard_array(call: Call) -> Value:
    """Another sharding, over Explicit axes alone: it becomes part of the type, also within jit."""
    tree, target = call.argument_at(0, "xs"), with_mesh_in_context(call, call.argument_at(1, "out_shardings"))
    where = place_of(call, 1, "out_shardings")
    if _check_automatic(call, "reshard.auto", target):
        return Unknown("what raises")
    arrays = [leaf for _, leaf in tree_leaves(tree) if isinstance(leaf, Layout)]
    on, spec = (target.mesh, target.spec) if isinstance(target, Sharding) else (None, None)
    if call.interpreter.releases.get("jax", (99,)) < _REFUSES_LONG_SPECS and any(
        isinstance(spec, PartitionSpec) and _is_longer_by_none(spec, leaf) for leaf in arrays
    ):
        return Unknown("releases differ in whether the last entries may be None")
    if isinstance(on, Mesh):
        check_devices(call, arrays, on, call.function_name)
    if isinstance(on, Mesh) and on.is_automatic and isinstance(spec, PartitionSpec):
        return map_tree(_mark_committed, tree)  # a spec without axes asks for nothing there
    memories = {leaf.memory for leaf in arrays if not leaf.host}
    if isinstance(target, Sharding) and (target.memory != "device" or memories - {"device"}):
        target = replace(target, memory=None)  # releases differ in what they make of it
    stays = any(_has_automatic_axes(leaf) for _, leaf in tree_leaves(tree))
    found = place_tree(call, tree, target, where)
    if stays and not call.interpreter.traced:
        return map_tree(lambda leaf: replace(leaf, spec=None) if isinstance(leaf, Layout) else leaf, found)
    return map_tree(_sharding_from_type, found) if call.interpreter.traced else found


def _has_automatic_axes(leaf: Value) -> bool:
    """Return whether Auto axes of a mixed mesh shard an array, or may. They still do after it was resharded."""
    if not isinstance(leaf, Layout) or leaf.mesh is None or not leaf.mesh.is_mixed:
        return False
    mesh = leaf.mesh
    return leaf.spec is None or any(mesh.type_of(axis) != "explicit" for axes in leaf.spec for axis in axes or ())


def _sharding_from_type(leaf: Value) -> Value:
    """An array with what its type says of its sharding."""
    if not isinstance(leaf, Layout) or leaf.mesh is None:
        return leaf
    mesh, spec = typed_sharding(leaf)
    return replace(leaf, mesh=mesh, spec=spec, committed=leaf.committed if mesh is not None else None)


# Modules whose functions compute of arrays, and of these those that do not.
_COMPUTING = ("jax.numpy.", "jax.flatten_util.", "jax.nn.", "jax.lax.", "jax.scipy.", "jax.ops.", "shardlint.index")
_CALLING = ("jax.lax.with_sharding_constraint",)


@register_function("shardlint.typed")
def check_types(call: Call) -> Value:
    """Record what a function refuses of arrays over some Explicit axes: outside of jit too their types name these."""
    plain = not any(isinstance(one, FunctionValue | Native | Partial | Library) for one in call.args)
    if plain and call.name.startswith(_COMPUTING) and call.name not in _CALLING:
        typed = tuple(map_tree(_sharding_from_type, one) for one in call.args)
        call.interpreter.libraries[call.name](replace(call, args=typed))
    return None


@register_function("jax.ShapeDtypeStruct")
def shape_struct(call: Call) -> Value:
    """A description of an array: read as the array, and placed where it has a sharding."""
    from shardlint.libraries.jax_numpy import dtype_of

    found = Layout(sizes_of(call.argument_at(0, "shape")), dtype_of(call.argument_at(1, "dtype", None)))
    target = call.argument_at(-1, "sharding", None)
    return place_array(call, found, target, call.place) if isinstance(target, Sharding) else found


@register_function("jax.typeof", "jax.block_until_ready", "jax.lax.stop_gradient")
def return_argument(call: Call) -> Value:
    """Its argument."""
    return call.argument_at(0, "x")

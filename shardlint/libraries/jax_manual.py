"""shard_map, pmap and collectives: code that each device runs on its own part."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from shardlint.layouts.layout import Layout, Mesh, Shape, Size, Symbol, surely_differ
from shardlint.layouts.values import (
    AnyTree,
    Call,
    ListValue,
    Native,
    PartitionSpec,
    Unknown,
    Value,
    leaves,
    map_spread,
    map_tree,
)
from shardlint.libraries.jax_sharding import argument_place, axis_names, check_fits, padded, place_of
from shardlint.libraries.jax_transforms import decorator, traced, tracer, without
from shardlint.libraries.meeting import (
    NO_AXES,
    as_array,
    check_devices,
    explicit_spec,
    is_recent,
    typed_sharding,
)
from shardlint.libraries.registry import function
from shardlint.model.values import Place

# The axes along which values vary are part of their types since then, and `check_vma` checks them.
_VARYING = (0, 7)
# pmap is a shard_map over a mesh of its own since then, which must be that in context.
_PMAP_CONTEXT = (0, 8, 3)
_PMAP_SETTINGS = frozenset(
    "fun axis_name in_axes out_axes static_broadcasted_argnums devices backend axis_size donate_argnums".split()
)
_DEVICE_COUNTS = ("jax.device_count()", "jax.local_device_count()")


def _shard_map(call: Call, given: Value) -> Value:
    mesh, in_specs, out_specs = (
        call.get(place, name, None) for place, name in ((1, "mesh"), (2, "in_specs"), (3, "out_specs"))
    )
    some_axes = call.keywords.get("axis_names") is not None

    def run(again: Call) -> Value:
        interpreter = again.interpreter
        on = (
            mesh
            if isinstance(mesh, Mesh)
            else interpreter.mesh
            if mesh is None and interpreter.mesh_known
            else None
        )
        if on is None or some_axes or again.open or in_specs is None:
            return _unknown_map(again, given)
        declared = call.keywords.get("check_vma", call.keywords.get("check_rep", True)) is True
        checked = declared and interpreter.releases.get("jax", (99,)) >= _VARYING
        if not interpreter.traced:
            check_devices(again, [leaf for _, leaf in leaves(again.args) if isinstance(leaf, Layout)], on)
        specs = in_specs if isinstance(in_specs, tuple | ListValue) else tuple(in_specs for _ in again.args)
        parts = _enter(again, on, specs)
        before = interpreter.axes, interpreter.checks_varying, interpreter.manual
        interpreter.manual = place_of(call, 2, "in_specs")
        interpreter.axes = {**interpreter.axes, **dict(zip(on.names, on.sizes, strict=True))}
        interpreter.checks_varying = checked
        try:
            found = traced(again, given, parts, {})
        finally:
            interpreter.axes, interpreter.checks_varying, interpreter.manual = before
        return _leave(call, again, on, out_specs, found, declared)

    return Native("shard_map", run)


def _unknown_map(call: Call, given: Value) -> Value:
    run = call.interpreter
    before = run.axes, run.checks_varying, run.rooted
    run.rooted, run.checks_varying = False, False
    try:
        traced(call, given, tuple(Unknown() for _ in call.args), {}, call.open)
    finally:
        run.axes, run.checks_varying, run.rooted = before
    return Unknown("what shard_map returns")


def _enter(call: Call, mesh: Mesh, specs: Value) -> tuple[Value, ...]:
    """The parts of the arguments that one device gets."""

    def part(path: str, leaf: Value, spec: Value) -> Value:
        where, path = argument_place(call, path)
        if isinstance(leaf, Unknown) and isinstance(spec, PartitionSpec) and not spec.open:
            return AnyTree(Layout(varying=_axes_of(spec)))
        if not isinstance(leaf, Layout | int | float):
            return leaf if isinstance(leaf, Unknown) else Layout()
        array = tracer(leaf)
        if not isinstance(spec, PartitionSpec) or spec.open or None in spec.axes():
            unknown = (None,) * len(array.shape) if array.shape is not None else None
            return replace(array, shape=unknown, mesh=None, spec=None, varying=None)
        # In jax 0.8 it reshards.
        if check_fits(call, array, spec, mesh, where, path) and mesh.explicit and is_recent(call):
            _check_same(call, array, spec, where, path)
        shape: Shape | None = None
        if array.shape is not None:
            own = (axes or () for axes in padded(array, spec))
            shape = tuple(_part(size, mesh, axes) for size, axes in zip(array.shape, own, strict=False))
        # The memory of an argument is no part of its type in the body.
        return replace(array, shape=shape, mesh=None, spec=None, varying=_axes_of(spec), memory=None)

    found: tuple[Value, ...] = map_spread(part, specs, call.args)
    return found


def _axes_of(spec: PartitionSpec) -> frozenset[str] | None:
    axes = spec.axes()
    return None if None in axes else frozenset(axis for one in axes for axis in one or ())


def _check_same(call: Call, array: Layout, spec: PartitionSpec, where: Place, path: str) -> None:
    """Record `in_specs` that differ from the type of an array over Explicit axes: shard_map does not reshard."""
    wanted, own = padded(array, spec), explicit_spec(array)
    if array.shape is not None and own is not None and None not in own and wanted != own:
        have, asked = (str(array.shaped(array.shape, one)) for one in (own, wanted))
        call.interpreter.violate(
            "argument.sharding", where, array=path, have=have, wanted=asked, line=str(array.made)
        )


def _part(size: Size, mesh: Mesh, axes: tuple[str, ...]) -> Size:
    if not axes:
        return size
    parts = mesh.size(axes)
    if size is not None and size == parts:
        return 1
    if isinstance(size, int) and isinstance(parts, int) and parts and size % parts == 0:
        return size // parts
    return None


def _leave(call: Call, again: Call, mesh: Mesh, out_specs: Value, found: Value, checked: bool) -> Value:
    """The whole arrays of the parts that the devices return."""
    where = place_of(call, 3, "out_specs")

    def whole(path: str, leaf: Value, spec: Value) -> Value:
        array = as_array(leaf)
        if not isinstance(leaf, Layout | int | float) or not isinstance(spec, PartitionSpec) or spec.open:
            return Layout()
        axes = [one or () for one in spec.axes()]
        if array.rank is not None and len(axes) > array.rank:
            again.interpreter.violate(
                "spec.rank", where, array=f"result{path}", shape=str(array), entries=str(len(axes)),
                rank=str(array.rank), operation="jax.shard_map",
            )  # fmt: skip
        elif checked and array.varying is not None:
            named = {axis for one in axes for axis in one}
            left = array.varying.intersection(mesh.names) - named
            if left and None not in spec.axes():
                again.interpreter.violate(
                    "varying.declared-equal",
                    where,
                    axes=", ".join(sorted(left)),
                    result=path,
                    shape=str(array),
                )
        _check_summed(again, array, tuple(axis for one in axes for axis in one), "out_specs")
        known = Layout(
            None, array.dtype, mesh, committed=True, memory="device", host=False, varying=frozenset(),
            sources=array.sources,
        )
        if array.shape is None:
            return known
        axes += [NO_AXES] * (len(array.shape) - len(axes))
        sizes = zip(array.shape, axes, strict=False)
        shape = tuple(_whole(size, mesh.size(one) if one else 1) for size, one in sizes)
        placed = replace(known, shape=shape, spec=tuple(axes))
        if mesh.mixed and again.interpreter.traced:
            on, spec = typed_sharding(placed)
            return replace(placed, mesh=on, spec=spec)
        return placed

    return (
        Unknown("what shard_map returns")
        if isinstance(found, Unknown)
        else map_spread(whole, out_specs, found)
    )


def _check_summed(call: Call, array: Layout, axes: tuple[str, ...], use: str) -> None:
    """Record a gradient that is summed over an axis, and reduced over it again or returned as one for each device."""
    if array.summed is None or use not in ("psum", "pmean", "out_specs"):
        return
    again, where = array.summed[0].intersection(axes), array.summed[1]
    if again and isinstance(where, Place):
        call.interpreter.violate("gradient.summed", where, axes=", ".join(sorted(again)), use=use)


def _whole(size: Size, parts: Size) -> Size:
    if parts == 1:
        return size
    if size == 1:
        return parts
    return size * parts if isinstance(size, int) and isinstance(parts, int) else None


function("jax.shard_map", "flax.nnx.shard_map")(decorator(_shard_map))


def _pmap(call: Call, given: Value) -> Value:
    name = call.get(1, "axis_name", None)
    in_axes, out_axes = call.get(2, "in_axes", 0), call.get(3, "out_axes", 0)
    static = call.get(4, "static_broadcasted_argnums", ())
    numbers = {static} if isinstance(static, int) else set(static) if isinstance(static, tuple) else set()
    everywhere = call.keywords.get("devices") is None
    if not call.keywords.keys() <= _PMAP_SETTINGS:
        return Unknown("a call that raises")

    def run(again: Call) -> Value:
        interpreter = again.interpreter
        in_context = interpreter.mesh if interpreter.mesh_known and not interpreter.traced else None
        if in_context is not None and interpreter.releases.get("jax", (99,)) >= _PMAP_CONTEXT:
            interpreter.violate("pmap.context", again.place, mesh=str(in_context), line=str(in_context.line))
        size: Size = None

        def local(place: int, path: str, leaf: Value, at: Value) -> Value:
            nonlocal size
            array = as_array(leaf)
            if not isinstance(leaf, Layout | int | float):
                return Layout()
            if at is None:
                return replace(tracer(leaf), varying=frozenset())
            if not isinstance(at, int) or array.shape is None:
                return Layout(varying=None)
            if len(array.shape) <= at:
                shape, rank = str(replace(array, literal=False)), str(len(array.shape))
                interpreter.violate(
                    "pmap.unmapped", place_of(again, place, ""), array=path, shape=shape, rank=rank
                )
                return Layout()
            own = array.shape[at]
            too_many = isinstance(own, Symbol) and own.factor > 1 and own.name in _DEVICE_COUNTS and everywhere
            if too_many or surely_differ(size, own):
                other = "one for each device" if too_many else f"another argument {size}"
                where = place_of(again, place, "")
                if where != again.place:  # one that a star hides has no name
                    interpreter.violate("pmap.sizes", where, array=path, size=str(own), other=other)
                return Layout()
            size = own if size is None else size
            return replace(without(tracer(array), at), mesh=None, spec=None, varying=frozenset((str(name),)))

        parts: list[Value] = []
        for place, one in enumerate(again.args):
            axis = in_axes
            if isinstance(in_axes, tuple):
                axis = in_axes[place] if place < len(in_axes) else Unknown()
            stays = place in numbers or isinstance(one, Unknown)
            parts.append(one if stays else map_spread(partial(local, place), axis, one))
        before = interpreter.axes, interpreter.checks_varying
        interpreter.axes = {**interpreter.axes, **({name: size} if isinstance(name, str) else {})}
        interpreter.checks_varying = False
        try:
            result = traced(
                again, given, tuple(parts), {key: Unknown() for key in again.keywords}, again.open
            )
        finally:
            interpreter.axes, interpreter.checks_varying = before

        def out(_: str, leaf: Value, at: Value) -> Value:
            if not isinstance(leaf, Layout) or leaf.shape is None:
                return Layout()
            if at is None:
                return Layout(leaf.shape, leaf.dtype, committed=True, host=False)
            return Layout((size, *leaf.shape), leaf.dtype, committed=True, host=False, memory="device")

        return (
            Unknown("what pmap returns") if isinstance(result, Unknown) else map_spread(out, out_axes, result)
        )

    return Native("pmap", run)


function("jax.pmap")(decorator(_pmap))


# collectives


def _bound(call: Call, axes: tuple[str, ...]) -> bool:
    """Record an axis that nothing binds where all calls that lead here are known."""
    run = call.interpreter
    for axis in axes:
        if axis not in run.axes:
            if run.rooted:
                run.violate("collective.unbound", call.place, axis=axis, operation=call.function_name)
            return False
    return True


@function("jax.lax psum pmean pmax pmin")
def all_reduce(call: Call) -> Value:
    """The same on all devices of the axis."""
    axes = axis_names(call.get(1, "axis_name"))
    if axes is None:
        return map_tree(lambda leaf: replace(as_array(leaf), varying=None, literal=False), call.get(0, "x"))
    known = _bound(call, axes)

    def reduced(leaf: Value) -> Value:
        array = as_array(leaf)
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            return Unknown("the size of an axis")
        varying = array.varying - set(axes) if array.varying is not None and known else None
        _check_summed(call, array, axes, call.function_name)
        dtype = None if array.dtype == "bool" else array.dtype  # they are counted
        return replace(array, varying=varying, literal=False, summed=None, dtype=dtype)

    tree = call.get(0, "x")
    return map_tree(reduced, tree) if not isinstance(tree, Unknown) else Unknown()


@function("jax.lax all_gather psum_scatter all_to_all ppermute pshuffle pvary pcast")
def moved(call: Call) -> Value:
    """Values that vary along the axis as before; shapes change but for `ppermute` and `pvary`."""
    axes = axis_names(call.get(1, "axis_name"))
    last = call.function_name
    if axes is not None and last not in ("pvary", "pcast"):
        _bound(call, axes)

    def change(leaf: Value) -> Value:
        array = as_array(leaf)
        varying = array.varying | set(axes) if array.varying is not None and axes is not None else None
        if last == "pcast" and call.get(-1, "to", None) != "varying":
            varying = None
        keeps = last in ("ppermute", "pshuffle", "pvary", "pcast")
        return replace(array, shape=array.shape if keeps else None, spec=None, varying=varying, literal=False)

    tree = call.get(0, "x")
    return map_tree(change, tree) if not isinstance(tree, Unknown) else Unknown()


@function("jax.lax axis_index")
def axis_index(call: Call) -> Value:
    """The number of the device along an axis."""
    axes = axis_names(call.get(0, "axis_name"))
    if axes is None:
        return Layout((), "int32")
    known = _bound(call, axes)
    return Layout(
        (), "int32", committed=False, memory="device", host=False, varying=frozenset(axes) if known else None
    )


@function("jax.lax axis_size")
def axis_size(call: Call) -> Value:
    """The size of an axis."""
    axes = axis_names(call.get(0, "axis_name"))
    if axes is None or not _bound(call, axes):
        return Unknown("the size of an axis")
    size = call.interpreter.axes[axes[0]]
    return size if size is not None else Symbol(f"size of {axes[0]}")


@function("flax.jax_utils.replicate")
def replicate(call: Call) -> Value:
    """Each leaf once for each device, along a new first dimension."""
    tree = call.get(0, "tree")

    def each(leaf: Value) -> Value:
        array = as_array(leaf)
        return (
            Layout((None, *array.shape), array.dtype, committed=True, host=False, memory="device")
            if array.shape is not None
            else Layout()
        )

    return map_tree(each, tree) if not isinstance(tree, Unknown) else Unknown()


@function("flax.jax_utils.unreplicate")
def unreplicate(call: Call) -> Value:
    """The first entry of each leaf."""
    tree = call.get(0, "tree")
    return (
        map_tree(lambda leaf: without(leaf, 0) if isinstance(leaf, Layout) and leaf.shape else Layout(), tree)
        if not isinstance(tree, Unknown)
        else Unknown()
    )


@function("flax.training.common_utils.shard")
def shard(call: Call) -> Value:
    """Each leaf divided along a new first dimension."""
    tree = call.get(0, "xs")
    return (
        map_tree(
            lambda leaf: (
                Layout((None, None, *leaf.shape[1:]), leaf.dtype, host=leaf.host)
                if isinstance(leaf, Layout) and leaf.shape
                else Layout()
            ),
            tree,
        )
        if not isinstance(tree, Unknown)
        else Unknown()
    )

"""Requirements on arrays that meet in one operation (devices, memory, mesh), and the layout of the result.

Facts of jax 0.4.35 to 0.12, each tried there: arrays committed to different devices raise ValueError outside of jit;
memory kinds that differ raise ValueError on jax 0.7 and newer; axes of an Explicit mesh raise ShardingTypeError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardlint.layouts.layout import Axes, Figure, Layout, Mesh, Order, Shape, Size, Spec, Statistic
from shardlint.layouts.values import AnyTree, Call, Device, ListValue, Sharding, Value, as_operand
from shardlint.libraries.draws import keep_draw

NO_AXES: Axes = ()
# A rule over Explicit axes that changed: it was tried on releases before the first of these, and from the second on.
Change = tuple[tuple[int, ...], tuple[int, ...]]
_EXPLICIT: Change = ((0, 8, 4), (0, 10, 2))
LATE_CHANGE: Change = ((0, 10, 3), (0, 12))
NEWEST_CHANGE: Change = ((0, 8, 4), (0, 12))
# By what a dtype, or a number of Python, counts in promotion.
_RANKS = {"bool": 0, "int": 1, "uint": 1, "float": 2, "bfloat": 2, "complex": 3}
_LITERALS = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}
_SCALING = ("divide", "true_divide", "multiply", "div", "mul", "floor_divide")
# What is computed under `with mesh:` alone stays on one device; that was tried from here on.
_LEGACY_PLACES_NOTHING = (0, 6, 2)


def layout_as_array(value: Value) -> Layout:
    """The layout of something that is used as an array; unknown in all parts where it may be anything."""
    value = as_operand(value)
    if isinstance(value, AnyTree):  # an operation on it says that it is one array
        value = value.leaf
    if isinstance(value, Layout):
        return value
    if isinstance(value, bool | int | float | complex):
        kind = _LITERALS.get(type(value), "int32")  # the size of a dimension is a number of its own type
        return Layout((), kind, host=True, literal=True, committed=False, varying=frozenset())
    if isinstance(value, tuple | ListValue):
        items = value if isinstance(value, tuple) else value.items
        first = layout_as_array(items[0]) if items else Layout()
        open = isinstance(value, ListValue) and value.open
        if first.shape is not None and all(
            isinstance(one, int | float | tuple | ListValue | Layout) for one in items
        ):
            literal = all(not isinstance(one, Layout) for one in items)
            size = None if open else len(items)
            if literal:
                return Layout(
                    (size, *first.shape), first.dtype, host=True, committed=False, varying=frozenset()
                )
            return Layout((size, *first.shape), first.dtype)
    return Layout()


def mark_computed(leaf: Value) -> Value:
    """A leaf that is computed anew: no constraint places it."""
    return replace(leaf, asked=None) if isinstance(leaf, Layout) else leaf


def meet_operands(call: Call, operands: Sequence[Layout], in_one_memory: bool = True) -> Layout:
    """Return the properties of an operation's result, except shape and spec. Record operands that cannot meet."""
    arrays = [one for one in operands if not one.literal]
    if in_one_memory:
        check_memory(call, arrays)
    if call.interpreter.manual is not None and _is_closed_over(call, arrays):
        operands = [replace(one, mesh=None, spec=None, committed=None) for one in operands]
    check_devices(call, arrays)
    found = common_properties(operands)
    mixed = found.mesh is not None and found.mesh.is_mixed
    if not call.interpreter.traced and (mixed or is_recent(call) is not True):
        found = replace(found, memory=settled_memory(call, found))
    if call.interpreter.traced or found.host or found.committed:
        return found
    commits = context_commits(call)
    return found if commits is False else replace(found, committed=commits)


def _is_closed_over(call: Call, arrays: Sequence[Layout]) -> bool:
    """Record an array over Explicit axes that the body of a shard_map over these axes takes from around it."""
    bound = call.interpreter.axes.keys()
    for one in arrays:
        if one.committed and one.is_explicit and one.mesh is not None and set(one.mesh.names) <= bound:
            call.interpreter.record_violation("closure.explicit", call.place, array=str(one), line=str(one.made))
            return True
    return False


def settled_memory(call: Call, array: Layout) -> str | None:
    """The memory of what the compiler computes: it may be another one than that of the operands.

    Before jax 0.10 always, since then where it is a number, or only some axes are Explicit.
    """
    mesh = array.mesh
    stays = is_recent(call) and array.shape != () and not (mesh is not None and (mesh.partial or mesh.is_mixed))
    return array.memory if array.memory == "device" or stays else None


def common_properties(operands: Sequence[Layout]) -> Layout:
    """Return the common properties of arrays, except shape and spec."""
    arrays = [one for one in operands if not one.literal]
    if not arrays:
        return Layout(
            host=True, committed=False, varying=frozenset(), dtype=operands[0].dtype if operands else None
        )
    varying: frozenset[str] | None = frozenset()
    for one in arrays:
        varying = None if varying is None or one.varying is None else varying | one.varying
    mesh = next((one.mesh for one in arrays if one.mesh is not None), None)
    memories = {one.memory for one in arrays if not one.host}
    device = next((one.device for one in arrays if one.device is not None), None)
    if mesh is not None and device is not None:  # one of them is not used, or it raises
        mesh, device = None, None
    known = {one.committed for one in arrays}
    committed = True if True in known else None if None in known else False
    exchanged = frozenset[str]().union(*(one.exchanged for one in arrays))
    marks = [one.statistic for one in arrays if one.statistic is not None]
    return Layout(
        dtype=_promoted_dtype(operands),
        mesh=mesh,
        device=device,
        committed=committed,
        memory=next(iter(memories)) if len(memories) == 1 else None,
        host=_combine_truths(one.host for one in arrays),
        varying=varying,
        equal=_still_equal(arrays),
        differs=frozenset[str]().union(*(one.differs for one in arrays)) - exchanged,
        exchanged=exchanged,
        reduced=frozenset[str]().union(*(one.reduced for one in arrays)),
        figure=_figure_of(arrays),
        weak=False if all(one.weak is False for one in arrays) else None,
        statistic=_combined_mark(marks) if marks else None,
        made=next((one.made for one in arrays if one.made), 0),
        built=all(one.is_new for one in arrays) or None,
        sources=frozenset[int]().union(*(one.sources for one in arrays)),
    )


def _promoted_dtype(operands: Sequence[Layout]) -> str | None:
    """The dtype of an operation on arrays and numbers; None where it is not known."""
    counts = [one.literal or one.weak is True for one in operands]
    if all(counts):
        counts = [one.literal for one in operands]
    arrays = {one.dtype for one, is_number in zip(operands, counts, strict=True) if not is_number}
    numbers = {one.dtype for one, is_number in zip(operands, counts, strict=True) if is_number}
    if len(arrays | numbers) > 1 and any(one.weak is None for one in operands):
        return None
    if len(arrays) == 1 and (not numbers or all(one.host for one in operands)):
        return next(iter(arrays))
    ranks = {one: _RANKS.get((one or "").rstrip("0123456789")) for one in arrays | numbers}
    if None in ranks.values() or arrays & {"int64", "float64"}:
        return None
    highest = max(rank for rank in ranks.values() if rank is not None)
    found = {one for one in arrays if ranks[one] == highest} or {one for one in numbers if ranks[one] == highest}
    if len(found) > 1 and found <= {"float32", "bfloat16", "float16"} and "float32" in found:
        return "float32"
    return next(iter(found)) if len(found) == 1 else None


def is_recent(call: Call, change: Change = _EXPLICIT) -> bool | None:
    """Return whether Explicit axes follow the rules after a change of jax; None for an untested release."""
    release = call.interpreter.releases.get("jax", (99,))
    return True if release >= change[1] else False if release < change[0] else None


def _figure_of(arrays: Sequence[Layout]) -> Figure | None:
    """Return the figure of an array that is computed from others."""
    found = [one.figure for one in arrays if one.figure is not None]
    if len(arrays) > 1:
        found = [one for one in found if one.kind != "repeated"]
    first = ("gradient", "copies", "counted", "term")
    return min(found, key=lambda one: (*first, one.kind, "unseen").index(one.kind), default=None)


def _combined_mark(marks: Sequence[Statistic]) -> Statistic | None:
    """The mark of what is computed of arrays with marks: what is wrong stays so, and a term of a sum one."""
    wrong = next((one for one in marks if one.is_wrong), None)
    parts = [one for one in marks if one.kind in ("part", "sum")]
    if wrong is not None or not parts:
        return wrong
    of = "sum" if all(one.kind == "sum" or one.of == "sum" for one in parts) else ""
    return Statistic("part", frozenset[str]().union(*(one.axes for one in parts)), parts[0].place, of)


def _still_equal(arrays: Sequence[Layout]) -> frozenset[str]:
    """The axes along which some of the arrays are equal in fact though jax says that they vary, and none differs."""
    equal = frozenset[str]().union(*(one.equal for one in arrays))
    return equal - frozenset[str]().union(*(one.differing_axes or () for one in arrays)) if equal else equal


def _combine_truths(values: Iterable[bool | None]) -> bool | None:
    found = set(values)
    return False if False in found else True if found == {True} else None


def check_memory(call: Call, arrays: Sequence[Layout]) -> None:
    """Record that arrays in different memories meet."""
    if call.interpreter.releases.get("jax", (99,)) < (0, 7):
        return
    # A single number goes to whichever memory the other operand is in.
    known = [one for one in arrays if one.memory is not None and not one.host and one.shape != ()]
    for one in known:
        if one.memory != known[0].memory and "unpinned_host" not in (one.memory, known[0].memory):
            call.interpreter.record_violation(
                "memory.differ", call.place, left=str(known[0].memory), right=str(one.memory),
                made=str(max(known[0].made, one.made)),
            )  # fmt: skip
            return


def where_committed(array: Layout) -> Order | str | None:
    """The devices to which an array is committed: one by its name, or those of a mesh; None where not known."""
    if not array.committed:
        return None
    return array.device if array.device is not None else _devices_of(array.mesh)


def _devices_of(mesh: Mesh | None) -> Order | None:
    return mesh.devices if mesh is not None and mesh.device_count != 1 else None


def _cannot_meet(one: Order | str, two: Order | str) -> bool:
    """Return whether two groups of devices surely differ, in their members or in their order."""
    for first, second in ((one, two), (two, one)):
        if first in ("all", "arranged") and isinstance(second, tuple):
            return first == "all" and second != tuple(range(len(second)))
    return one != two and {one, two} != {"all", "arranged"}


def _name_devices(place: Order | str) -> str:
    if isinstance(place, tuple):
        return f"devices {', '.join(map(str, place))}"
    return "all devices" if place in ("all", "arranged") else place


def check_devices(
    call: Call, arrays: Sequence[Layout], on: Mesh | None = None, asked_by: str = "jax.set_mesh"
) -> None:
    """Record that arrays which are committed to different devices meet, or meet a mesh: `on`, or that in context.

    In traced code nothing is compared: the call of the compiled function is.
    """
    if call.interpreter.traced:
        return
    places = [(where, one) for one in arrays if (where := where_committed(one)) is not None]
    mesh = on or (call.interpreter.mesh if call.interpreter.mesh_known else None)
    for where, one in places:
        first, other = places[0]
        if _cannot_meet(first, where):
            left, right = _name_devices(first), _name_devices(where)
            if left == "all devices" and right.count(",") > 0:
                left += " as jax.devices() lists them"
            lines = {"left_line": str(other.made), "right_line": str(one.made)}
            call.interpreter.record_violation("devices.differ", call.place, left=left, right=right, **lines)
            return
    asked = _devices_of(mesh)
    if places and mesh is not None and asked is not None:
        where, one = places[0]
        if _cannot_meet(where, asked):
            call.interpreter.record_violation(
                "devices.context",
                call.place,
                left=_name_devices(where),
                right=f"mesh ({mesh})",
                by=asked_by if on is not None else "jax.set_mesh",
                left_line=str(one.made),
                right_line=str(mesh.line),
            )


def check_moved(call: Call, array: Layout, to: Value) -> None:
    """Record that a constraint outside of jit is given an array that is committed to other devices."""
    held = where_committed(array)
    asked: Order | str | None = None
    match to:
        case Sharding(device=str() as device) | Device(name=device):
            asked = device
        case Sharding(mesh=Mesh() as mesh):
            asked = _devices_of(mesh)
    if held is not None and asked is not None and _cannot_meet(held, asked):
        left, right = _name_devices(held), _name_devices(asked)
        call.interpreter.record_violation(
            "constraint.devices", call.place, left=left, right=right, line=str(array.made)
        )


def context_type(call: Call, rank: int) -> tuple[Mesh | None, Spec | None]:
    """Mesh and spec of a fresh array: replicated over the mesh in context, within jit over Explicit axes alone."""
    mesh = call.interpreter.mesh
    if mesh is not None and set(mesh.names) <= call.interpreter.axes.keys():
        return None, None  # in what shard_map runs on each device
    if mesh is not None and (mesh.is_explicit or not call.interpreter.traced):
        return mesh, (NO_AXES,) * rank
    return None, None


def fresh_array(call: Call, shape: Shape | None, dtype: str | None) -> Layout:
    """An array that jax makes of nothing, or of what the host holds."""
    mesh, spec = context_type(call, len(shape or ()))
    return Layout(
        shape, dtype, mesh, spec if shape is not None else None, committed=context_commits(call), memory="device",
        host=False, varying=frozenset(), built=call.interpreter.traced == 1 or None,
    )  # fmt: skip


def host_array(shape: Shape | None, dtype: str | None) -> Layout:
    """An array of numpy."""
    return Layout(shape, dtype, host=True, committed=False, varying=frozenset())


def context_commits(call: Call) -> bool | None:
    """Return whether computed arrays are committed because of a mesh in context alone; None if there may be one."""
    run = call.interpreter
    if run.traced:
        return False
    if run.legacy is not None and run.releases.get("jax", (99,)) >= _LEGACY_PLACES_NOTHING:
        return False
    return run.mesh is not None if run.mesh_known else None


def broadcast_shapes(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that shapes broadcast to; None where one is unknown or they do not fit."""
    if any(one is None for one in shapes):
        return None
    rank = max(len(one) for one in shapes if one is not None)
    found: list[Size] = []
    for place in range(rank):
        sizes = {one[place - rank] for one in shapes if one is not None and len(one) >= rank - place}
        known = sizes - {1, None}
        if len(known) > 1:
            return None
        found.append(next(iter(known)) if known else None if None in sizes else 1)
    return tuple(found)


def _trace_mixed_mesh(array: Layout) -> Layout:
    """An array of a mixed mesh as a traced function sees it that took it from around."""
    if array.mesh is None or not array.mesh.is_mixed:
        return array
    mesh, spec = typed_sharding(array)
    return replace(array, mesh=mesh, spec=spec)


def _settled_spec(operands: Sequence[Layout], shape: Shape | None, mesh: Mesh | None) -> Spec | None:
    """The spec of an operation outside of jit that leaves the compiler no choice: all arrays are sharded alike.

    A number has nothing to shard, and axes of one device are left out. Tried on jax 0.4.38 to 0.12, with Auto axes.
    """
    if shape == ():
        return ()
    specs = {one.spec if one.shape == shape and one.mesh == mesh else None for one in operands if one.shape != ()}
    spec = next(iter(specs)) if len(specs) == 1 else None
    if spec is None or mesh is None or not mesh.is_automatic:
        return None
    return tuple(None if axes is None else tuple(one for one in axes if mesh.size_of_axes([one]) != 1) for axes in spec)


def broadcast_values(call: Call, values: Sequence[Value]) -> Layout:
    """The result of an elementwise operation."""
    operands = [layout_as_array(one) for one in values]
    if call.interpreter.traced:
        operands = [_trace_mixed_mesh(one) for one in operands]
    shape = broadcast_shapes([one.shape for one in operands])
    base = meet_operands(call, operands)
    if call.interpreter.axes:
        figure = _figure_of_operation(call, operands, base.figure)
        base = replace(base, figure=figure, drawn=keep_draw(call, operands))
    if not base.is_explicit:
        return base.with_shape(shape, None if call.interpreter.traced else _settled_spec(operands, shape, base.mesh))
    rank = len(shape) if shape is not None else None
    if rank is None:
        return base.with_shape(None)
    spec: list[Axes | None] = []
    for place in range(rank):
        entry: Axes | None = NO_AXES
        for one in operands:
            own = _axes_of_dimension(one, place - rank)
            if own is None:
                entry = None
                break
            if entry and own and entry != own:
                call.interpreter.record_violation(
                    "elementwise.conflict", call.place, left=str(operands[0]), right=str(operands[-1]),
                    axes=" and ".join(f"{'/'.join(axes)}" for axes in (entry, own)), dimension=str(place),
                )  # fmt: skip
                return replace(base, mesh=None).with_shape(shape)
            entry = entry or own
        spec.append(entry)
    used = [axis for axes in spec if axes for axis in axes]
    if len(used) != len(set(used)):
        call.interpreter.record_violation(
            "elementwise.conflict", call.place, left=str(operands[0]), right=str(operands[-1]),
            axes=next(axis for axis in used if used.count(axis) > 1), dimension="",
        )  # fmt: skip
        return replace(base, mesh=None).with_shape(shape)
    return base.with_shape(shape, tuple(spec))


def _figure_of_operation(call: Call, operands: Sequence[Layout], figure: Figure | None) -> Figure | None:
    """Return the figure of the result of an elementwise operation."""
    adds = call.function_name in ("add", "subtract")
    if figure is not None and figure.kind in ("copies", "counted") and call.function_name in _SCALING:
        return None
    if figure is not None and figure.kind == "term" and not adds:
        return None
    if call.function_name != "add" or len(operands) != 2 or (figure is not None and figure.kind != "unseen"):
        return figure
    for one, other in (operands, reversed(operands)):
        same = None if other.literal or other.is_new or other.figure is not None else other.differing_axes
        axes = one.differs - same if same is not None else None
        if axes:
            return Figure("term", axes, call.interpreter.place_in_body(call.place))
    return figure


def _axes_of_dimension(array: Layout, place: int) -> Axes | None:
    """The axes of a dimension, counted from the last one, in an operand that may have fewer dimensions."""
    if array.shape is not None and len(array.shape) < -place:
        return NO_AXES
    if array.shape is not None and array.shape[place] == 1:
        return NO_AXES
    if is_whole(array):
        return NO_AXES
    return spec_entry(array, place)


def spec_entry(array: Layout, place: int) -> Axes | None:
    """The axes of a dimension; None where they are not known."""
    if array.spec is None or array.shape is None:
        return None
    return array.spec[place] if -len(array.spec) <= place < len(array.spec) else NO_AXES


def typed_sharding(array: Layout) -> tuple[Mesh | None, Spec | None]:
    """Return the sharding in the type of an array: the mesh with its Explicit axes, and their entries in the spec."""
    mesh, spec = array.mesh, array.spec
    if mesh is None or mesh.is_automatic or mesh.is_explicit:
        return (mesh, spec) if array.is_explicit else (None, None)
    if not mesh.is_mixed or None in mesh.types or spec is None or None in spec:
        return None, None
    names = mesh.explicit_part.names
    return mesh.explicit_part, tuple(tuple(axis for axis in axes or () if axis in names) for axes in spec)


def is_whole(array: Layout) -> bool:
    """Return whether an array counts as replicated next to arrays on a mesh: a number, a host array, or an array on no
    mesh.
    """
    return array.literal or bool(array.host) or (array.mesh is None and array.committed is False)


def explicit_spec(array: Layout) -> Spec | None:
    """The whole spec of an array as an operand on an Explicit mesh: replicated for one that is on no mesh."""
    if array.shape is None:
        return None
    return (NO_AXES,) * len(array.shape) if is_whole(array) else array.spec


def report_split(call: Call, kind: str, array: Layout, axes: Iterable[str]) -> None:
    """Record that an operation refuses an array which is split over axes."""
    said = {"array": str(array), "axes": "/".join(axes), "operation": call.function_name}
    call.interpreter.record_violation(kind, call.place, **said)


def check_whole(call: Call, array: Layout) -> None:
    """Record an array that is split over Explicit axes, for a function that takes whole ones alone."""
    axes = [axis for entry in array.typed_spec or () for axis in entry or ()]
    if axes:
        report_split(call, "whole.split", array, axes)


def typed_like(layout: Layout, array: Layout, spec: Spec | None) -> Layout:
    """A result with a spec over the Explicit axes of the array of which it is computed."""
    return replace(layout, mesh=array.mesh, spec=spec) if array.is_explicit and spec is not None else layout


def searches_whole(call: Call) -> bool:
    """Return whether a function that searches all entries refuses sharded arrays. In between, this was not tried."""
    return is_recent(call, NEWEST_CHANGE) is not None


def refuses_outside(call: Call) -> bool:
    """Return whether a function that fills a new array refuses sharded ones. Before jax 0.12 it does without a mesh in
    context.
    """
    recent, run = is_recent(call, NEWEST_CHANGE), call.interpreter
    return bool(recent) or (recent is False and run.mesh is None and run.mesh_known)


def computed_array(
    call: Call, arrays: Sequence[Layout], shape: Shape | None, dtype: str | None = None, whole: bool | None = False
) -> Layout:
    """Return the result, of a shape and a type, of an operation on arrays that is not elementwise.

    Over Explicit axes its spec is known where all arrays are whole; `whole`: jax refuses others. Where numbers are
    counted, which are in device memory, it is not known in which memory the result is.
    """
    for one in arrays if whole else ():
        check_whole(call, one)
    base = meet_operands(call, arrays, in_one_memory=False)
    if base.figure is not None and base.figure.kind == "term":
        base = replace(base, figure=None)
    specs = [explicit_spec(one) for one in arrays]
    whole = base.is_explicit and all(spec is not None and not any(spec) and None not in spec for spec in specs)
    base = replace(
        base, dtype=dtype, memory=base.memory if base.memory == "device" else None,
        mesh=base.mesh if whole or not base.is_explicit else None,
    )  # fmt: skip
    return base.with_shape(shape, (NO_AXES,) * len(shape) if whole and shape is not None else None)

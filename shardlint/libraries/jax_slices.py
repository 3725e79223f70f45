"""Indexing, and the functions of jax.lax that slice: shapes, and specs over Explicit axes.

Facts of jax, each tried: rows that an array chooses have no sharding of their own where the index, or the dimension, is
split; a dynamic slice keeps the axes of its dimensions where they divide it; `top_k` and `unstack` run along a whole
dimension; an update has the sharding of what it updates.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Axes, Layout, Shape, Size, Spec
from shardlint.layouts.values import AnyTree, Call, ListValue, Unknown, Value
from shardlint.libraries.device_rows import check_first
from shardlint.libraries.jax_numpy import check_whole_along, place_by_module, sizes_of
from shardlint.libraries.meeting import (
    LATE_CHANGE,
    NO_AXES,
    check_memory,
    common_properties,
    computed_array,
    explicit_spec,
    fresh_array,
    is_recent,
    layout_as_array,
    meet_operands,
    report_split,
    spec_entry,
    typed_like,
)
from shardlint.libraries.registry import register_function

_ROWS = 64


@register_function("shardlint.index")
def index_array(call: Call) -> Value:
    """`array[index]` with numbers, slices, None and Ellipsis; of any other index the shape is not followed."""
    array, key = layout_as_array(call.args[0]), call.args[1]
    keys = key if isinstance(key, tuple) else (key,)
    base = replace(meet_operands(call, [array]), summed=array.summed)
    if array.rows is not None and isinstance(keys[0], int) and keys[0] == 0:
        check_first(call, array)
    if None in keys:
        base = replace(base, reduced=frozenset())  # a dimension for the devices
    if any(isinstance(one, Unknown | AnyTree) for one in keys) and not base.differs:
        base = replace(base, varying=None)
    takes = any(one is not None and one is not ... and one != slice(None) for one in keys)
    if takes and not call.interpreter.traced and array.memory is not None and not array.host:
        check_memory(call, [array, fresh_array(call, (1,), None)])  # the index is an array in device memory
    if (
        array.shape is None
        or any(not isinstance(one, int | slice | None) and one is not ... for one in keys)
        or any(isinstance(one, bool) for one in keys)
    ):
        others = [layout_as_array(one) for one in keys if isinstance(one, Layout)]
        if others:
            base = meet_operands(call, [array, *others])
        if (
            array.shape is not None
            and len(keys) == 1
            and isinstance(keys[0], Layout)
            and keys[0].shape is not None
            and keys[0].dtype != "bool"
        ):
            return _gather_rows(call, array, keys[0], base)
        return replace(base, mesh=None, dtype=array.dtype).with_shape(None)
    used = sum(1 for one in keys if one is not None and one is not ...)
    missing = len(array.shape) - used
    if missing < 0:
        return base.with_shape(None)
    if array.is_explicit and used == len(array.shape) and all(isinstance(one, int) for one in keys):
        entry = _one_entry(call, array, base)
        if entry is not None:
            return entry
    full: list[Value] = []
    seen = False
    for one in keys:
        if one is ...:
            full += [slice(None)] * missing
            seen = True
        else:
            full.append(one)
    if not seen:
        full += [slice(None)] * missing
    shape: list[Size] = []
    spec: list[Axes | None] | None = [] if array.typed_spec is not None else None
    place = 0
    for one in full:
        if one is None:
            shape.append(1)
            if spec is not None:
                spec.append(NO_AXES)
            continue
        size, axes = array.shape[place], spec_entry(array, place) if array.is_explicit else None
        whole = isinstance(one, slice) and one == slice(None)
        if not whole and axes:
            cut = _length_of_slice(size, one) if isinstance(one, slice) else 1
            parts = array.mesh.size_of_axes(axes) if array.mesh is not None else None
            if cut != size and not call.interpreter.traced:
                record_gather(call, array, axes)
                spec = None
            elif not isinstance(cut, int) or not isinstance(parts, int):
                spec = None
            elif cut % parts:  # within jit a slice keeps its axes where they divide it
                record_gather(call, array, axes)
                spec = None
            elif isinstance(one, slice) and one.step not in (None, 1) and is_recent(call) is not True:
                if is_recent(call) is False:
                    record_gather(call, array, axes)
                spec = None
        if isinstance(one, slice):
            shape.append(size if whole else _length_of_slice(size, one))
            if spec is not None:
                spec.append(axes if whole else axes or NO_AXES)
        place += 1
    found = base.with_shape(tuple(shape), tuple(spec) if spec is not None else None)
    return place_by_module(replace(call, name="numpy.index"), found) if array.host else found


def _one_entry(call: Call, array: Layout, base: Layout) -> Layout | None:
    """A single entry: a traced function takes it out of a split array since jax 0.12. None where it does not."""
    if not call.interpreter.traced or not any(array.typed_spec or ()) or is_recent(call, LATE_CHANGE) is False:
        return None
    return base.with_shape((), () if is_recent(call, LATE_CHANGE) else None)


def _gather_rows(call: Call, array: Layout, index: Layout, base: Layout) -> Layout:
    """Rows that an array of integers chooses: neither they nor the index may be split over Explicit axes."""
    assert array.shape is not None and index.shape is not None
    shape = (*index.shape, *array.shape[1:])
    base = replace(base, dtype=array.dtype)
    if not array.is_explicit and not index.is_explicit:
        return base.with_shape(shape)
    split = {axis for axes in index.typed_spec or () for axis in axes or ()} if index.is_explicit else set()
    if array.is_explicit and spec_entry(array, 0):
        record_gather(call, array, spec_entry(array, 0))
    elif split:
        call.interpreter.record_violation("index.by-split", call.place, array=str(index), axes="/".join(sorted(split)))
    elif array.is_explicit and array.typed_spec is not None:
        return base.with_shape(shape, (*(NO_AXES for _ in index.shape), *array.typed_spec[1:]))
    return replace(base, mesh=None).with_shape(shape)


def record_gather(call: Call, array: Layout, axes: Axes | None) -> None:
    """Record that entries are gathered along a dimension that is split over Explicit axes."""
    call.interpreter.record_violation("index.split", call.place, array=str(array), axes="/".join(axes or ()))


def _length_of_slice(size: Size, part: slice) -> Size:
    bounds = (part.start, part.stop, part.step)
    if not isinstance(size, int) or any(one is not None and not isinstance(one, int) for one in bounds):
        return None
    return len(range(*part.indices(size)))


# slices


def _base_of_slice(call: Call, array: Layout) -> Layout:
    """Return the properties of a slice, except shape and spec, that follow from its array."""
    return replace(meet_operands(call, [array]), dtype=array.dtype, summed=array.summed)


def shape_with_size(array: Layout, place: int, size: Size) -> Shape:
    """The shape of an array with another size of one dimension."""
    shape = array.shape or ()
    return (*shape[:place], size, *shape[place + 1 :])


def dimension_of(call: Call, array: Layout, position: int, default: Value = 0) -> int | None:
    """The dimension that an `axis` argument names; None where it is not known."""
    axis = call.argument_at(position, "axis", default)
    if array.shape is None or not isinstance(axis, int) or not -len(array.shape) <= axis < len(array.shape):
        return None
    return axis % len(array.shape)


def _resize_dimension(call: Call, array: Layout, place: int | None, size: Size) -> Layout:
    """An array with another size of a dimension, which keeps its axes where they divide it."""
    if array.shape is None or place is None:
        return replace(_base_of_slice(call, array), mesh=None).with_shape(None)
    shape = (*array.shape[:place], size, *array.shape[place + 1 :])
    if array.rank == 1 and size == 1 and is_recent(call, LATE_CHANGE) is not False:
        return _base_of_slice(call, array).with_shape(shape, (NO_AXES,) if is_recent(call, LATE_CHANGE) else None)
    return _base_of_slice(call, array).with_shape(shape, resized_spec(call, array, place, size))


def resized_spec(call: Call, array: Layout, place: int, size: Size) -> Spec | None:
    """The spec of an array with another size of a dimension, which keeps its axes where they divide it."""
    axes = spec_entry(array, place) if array.is_explicit else NO_AXES
    if not axes and axes is not None:
        return array.typed_spec
    parts = array.mesh.size_of_axes(axes) if array.mesh is not None and axes else None
    divides = size % parts == 0 if isinstance(parts, int) and isinstance(size, int) else None
    if divides is False:
        report_split(call, "size.split", array, axes or ())
    return array.typed_spec if divides else None


def compute_resized(call: Call, array: Layout, shape: Shape | None, dtype: str | None = None) -> Layout:
    """Return the result of an operation that may change the sizes of dimensions. Each keeps its axes if they divide
    the new size.
    """
    found = computed_array(call, [array], shape, dtype)
    if not array.is_explicit or array.shape is None or shape is None or len(shape) != len(array.shape):
        return found
    changed = [place for place, size in enumerate(shape) if size is None or size != array.shape[place]]
    if changed and set(shape) == {1} and is_recent(call, LATE_CHANGE) is not False:
        return found
    kept = all(resized_spec(call, array, place, shape[place]) is not None for place in changed)
    return typed_like(found, array, array.typed_spec if kept else None)


def _choose_part(call: Call, value: Value) -> Value:
    """A part of an array that other arrays choose: it differs along their axes too."""
    starts = [layout_as_array(one) for one in call.args[1:] if isinstance(one, Layout | AnyTree | Unknown)]
    if not call.interpreter.axes or not starts:
        return value
    both = common_properties([layout_as_array(value), *starts])
    return replace(layout_as_array(value).varying_like(both), figure=None)


@register_function("jax.lax dynamic_slice_in_dim slice_in_dim dynamic_index_in_dim index_in_dim")
def slice_in_dimension(call: Call) -> Value:
    """A part of one dimension; with `index` one row, which stays a dimension unless `keepdims` says otherwise."""
    array = layout_as_array(call.argument_at(0, "operand"))
    if "index" in call.function_name:
        place = dimension_of(call, array, 2, 0)
        kept = _resize_dimension(call, array, place, 1)
        if call.argument_at(3, "keepdims", True) is True or kept.shape is None or place is None:
            return _choose_part(call, kept)
        spec = kept.typed_spec
        rest = (*spec[:place], *spec[place + 1 :]) if spec is not None else None
        return _choose_part(call, kept.with_shape((*kept.shape[:place], *kept.shape[place + 1 :]), rest))
    if call.function_name.startswith("dynamic"):
        sized, place = call.argument_at(2, "slice_size"), dimension_of(call, array, 3, 0)
        return _choose_part(
            call, _resize_dimension(call, array, place, sized if isinstance(sized, int) else None)
        )
    place = dimension_of(call, array, 4, 0)
    size = array.shape[place] if array.shape is not None and place is not None else None
    part = slice(
        call.argument_at(1, "start_index"),
        call.argument_at(2, "limit_index"),
        call.argument_at(3, "stride", 1),
    )
    return _choose_part(call, _resize_dimension(call, array, place, _length_of_slice(size, part)))


@register_function("jax.lax.dynamic_slice")
def dynamic_slice(call: Call) -> Value:
    """A block of the sizes given."""
    array, sizes = layout_as_array(call.argument_at(0, "operand")), sizes_of(call.argument_at(2, "slice_sizes"))
    if array.shape is None or sizes is None or len(sizes) != len(array.shape):
        return _choose_part(call, replace(_base_of_slice(call, array), mesh=None).with_shape(sizes))
    for place, size in enumerate(sizes):
        if size is None or size != array.shape[place]:
            array = _resize_dimension(call, array, place, size)
            if array.shape is None:
                return _choose_part(call, array)
    return _choose_part(call, array)


@register_function("jax.lax dynamic_update_slice dynamic_update_slice_in_dim dynamic_update_index_in_dim")
def dynamic_update(call: Call) -> Value:
    """An array with a part of it replaced: it stays as it is."""
    array, update = layout_as_array(call.argument_at(0, "operand")), layout_as_array(call.argument_at(1, "update"))
    base = replace(meet_operands(call, [array, update]), dtype=array.dtype)
    specs = [explicit_spec(array), explicit_spec(update)] if array.is_explicit else []
    if specs and None not in specs and len({len(one or ()) for one in specs}) == 1 and _specs_differ(*specs):
        call.interpreter.record_violation("update.conflict", call.place, left=str(array), right=str(update))
    return _choose_part(call, base.with_shape(array.shape, array.typed_spec))


@register_function("jax.lax top_k approx_max_k approx_min_k")
def top_k(call: Call) -> Value:
    """The greatest entries along the last dimension, and where they were."""
    array, count = layout_as_array(call.argument_at(0, "operand")), call.argument_at(1, "k")
    if array.shape is None or not array.shape:
        found = _base_of_slice(call, array).with_shape(None)
        return found, replace(found, dtype="int32")
    spec, last = array.typed_spec, len(array.shape) - 1
    shape = (*array.shape[:-1], count if isinstance(count, int) else None)
    if call.function_name != "top_k" or is_recent(call):
        check_whole_along(call, array, last)
    elif spec is not None and spec[-1]:
        spec = resized_spec(call, array, last, shape[-1]) if is_recent(call) is False else None
    found = _base_of_slice(call, array).with_shape(shape, spec)
    return found, replace(found, dtype="int32")


@register_function("jax.nn.one_hot")
def one_hot(call: Call) -> Value:
    """A row of numbers for each entry."""
    array, count = layout_as_array(call.argument_at(0, "x")), call.argument_at(1, "num_classes")
    if array.shape is None or call.keywords.get("axis", -1) != -1:
        return replace(_base_of_slice(call, array), mesh=None, dtype=None).with_shape(None)
    spec, size = array.typed_spec, count if isinstance(count, int) else None
    found = _base_of_slice(call, array).with_shape(
        (*array.shape, size), (*spec, NO_AXES) if spec is not None else None
    )
    return replace(found, dtype=None)


@register_function("jax.numpy.unstack")
def unstack_rows(call: Call) -> Value:
    """The rows along a dimension, which must not be split."""
    array = layout_as_array(call.argument_at(0, "x"))
    place = dimension_of(call, array, 1, 0)
    if array.shape is None or place is None:
        return ListValue([_base_of_slice(call, array).with_shape(None)], True)
    check_whole_along(call, array, place)
    spec = array.typed_spec
    rest = (*spec[:place], *spec[place + 1 :]) if spec is not None else None
    row = _base_of_slice(call, array).with_shape((*array.shape[:place], *array.shape[place + 1 :]), rest)
    count = array.shape[place]
    return (row,) * count if isinstance(count, int) and count <= _ROWS else ListValue([row], True)


def _specs_differ(one: Spec | None, other: Spec | None) -> bool:
    """Return whether two specs surely differ."""
    pairs = zip(one or (), other or (), strict=True)
    return any(left != right for left, right in pairs if left is not None and right is not None)


@register_function("jax.ad_checkpoint.checkpoint_name")
def name_arrays(call: Call) -> Value:
    """The same arrays, with a name for policies."""
    return call.argument_at(0, "x")

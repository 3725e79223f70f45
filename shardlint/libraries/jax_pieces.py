"""Functions of one array that take parts of it, repeat it, pad it or broadcast it.

Facts of jax 0.8, 0.10 and 0.12 over Explicit axes, each tried: a part keeps the axes of a dimension that they divide.
What is tiled, or gathered along, is whole in that dimension. A dimension that is padded is divided by its axes then.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from shardlint.layouts.layout import Axes, Figure, Layout, Shape, Size, Spec, multiply_size
from shardlint.layouts.values import Call, ListValue, Unknown, Value, known_items
from shardlint.libraries.jax_numpy import check_whole_along, place_by_module, sizes_of
from shardlint.libraries.jax_slices import dimension_of, record_gather, resized_spec, shape_with_size
from shardlint.libraries.meeting import NO_AXES, is_recent, layout_as_array, meet_operands, spec_entry
from shardlint.libraries.registry import register_function

_BOTH = ("jax.numpy", "numpy")


def _base_of_result(call: Call, array: Layout, *chosen: Layout) -> Layout:
    """Return the properties of the result, except shape and spec, that follow from the array and the arrays that
    choose parts of it.
    """
    return replace(
        meet_operands(call, [array, *chosen]), dtype=array.dtype, summed=array.summed, reduced=frozenset()
    )


def _result_with_spec(
    call: Call, array: Layout, shape: Shape | None, spec: Spec | None, *chosen: Layout
) -> Layout:
    """The result; without a mesh where its spec is not known."""
    base = _base_of_result(call, array, *chosen)
    if array.is_explicit and spec is None:
        base = replace(base, mesh=None)
    return place_by_module(call, base.with_shape(shape, spec))


def _resize_dimension(call: Call, array: Layout, place: int, size: Size) -> Layout:
    """The array with another size of a dimension, which keeps its axes where they divide it."""
    return _result_with_spec(
        call, array, shape_with_size(array, place, size), resized_spec(call, array, place, size)
    )


@register_function(*(f"{module} broadcast_to" for module in _BOTH), "jax.lax broadcast broadcast_in_dim")
def broadcast_array(call: Call) -> Value:
    """An array with further dimensions, or with one of size 1 repeated."""
    array, sizes = layout_as_array(call.argument_at(0, "a")), sizes_of(call.argument_at(1, "shape"))
    found = _broadcast_to_sizes(call, array, sizes)
    grown = found.rank is None or found.rank != array.rank
    return replace(found, figure=Figure("repeated", frozenset(), None)) if grown else found


def _broadcast_to_sizes(call: Call, array: Layout, sizes: Shape | None) -> Layout:
    if array.shape is None or sizes is None:
        return _result_with_spec(call, array, sizes if call.function_name != "broadcast" else None, None)
    spec = array.typed_spec
    if call.function_name == "broadcast_in_dim":
        places = known_items(call.argument_at(2, "broadcast_dimensions"))
        if places is None or len(places) != len(array.shape) or not all(isinstance(one, int) for one in places):
            return _result_with_spec(call, array, sizes, None)
        entries: list[Axes | None] = [NO_AXES] * len(sizes)
        for place, axes in zip(places, spec or (), strict=False):
            entries[place] = axes
        return _result_with_spec(call, array, sizes, tuple(entries) if spec is not None else None)
    shape = (*sizes, *array.shape) if call.function_name == "broadcast" else sizes
    more = (NO_AXES,) * (len(shape) - len(array.shape))
    return _result_with_spec(call, array, shape, (*more, *spec) if spec is not None else None)


@register_function(*(f"{module} tril triu" for module in _BOTH))
def triangle_of_array(call: Call) -> Value:
    """An array with a triangle of zeros."""
    array = layout_as_array(call.argument_at(0, "m"))
    in_context = call.interpreter.mesh is not None or not call.interpreter.mesh_known
    split = any(array.typed_spec or (None,)) if array.is_explicit else False
    mask_is_typed = in_context and is_recent(call) is not True  # the mask has a type of its own there
    if split and mask_is_typed:
        if call.interpreter.mesh is not None and is_recent(call) is False:
            axes = "/".join(axis for one in array.typed_spec or () for axis in one or ())
            call.interpreter.record_violation(
                "elementwise.conflict", call.place, left="the mask", right=str(array), axes=axes, dimension=""
            )
        return _result_with_spec(call, array, array.shape, None)
    return _result_with_spec(call, array, array.shape, array.typed_spec)


@register_function(*(f"{module} tile" for module in _BOTH))
def tile_array(call: Call) -> Value:
    """An array repeated along dimensions."""
    array, times = layout_as_array(call.argument_at(0, "A")), sizes_of(call.argument_at(1, "reps"))
    if array.shape is None or times is None:
        return _result_with_spec(call, array, None, None)
    rank = max(len(array.shape), len(times))
    times = (*(1,) * (rank - len(times)), *times)
    more = rank - len(array.shape)
    for place, count in enumerate(times[more:]):
        if count != 1:
            check_whole_along(call, array, place)
    sizes = zip((*(1,) * more, *array.shape), times, strict=True)
    spec = array.typed_spec
    known = spec is not None and (is_recent(call) is True or not any(spec))
    found = (*(NO_AXES,) * more, *spec) if known and spec is not None else None
    return _result_with_spec(call, array, tuple(multiply_size(size, count) for size, count in sizes), found)


@register_function(*(f"{module} repeat" for module in _BOTH))
def repeat_entries(call: Call) -> Value:
    """Each entry several times along a dimension. With a mesh in context it raises where that is split."""
    array, count = layout_as_array(call.argument_at(0, "a")), call.argument_at(1, "repeats")
    place = dimension_of(call, array, 2, None)
    if array.shape is None or place is None or not isinstance(count, int):
        return _result_with_spec(call, array, None, None)
    spec = array.typed_spec
    if call.interpreter.mesh is not None:
        check_whole_along(call, array, place)
    elif not call.interpreter.mesh_known:
        spec = None
    return _result_with_spec(
        call, array, shape_with_size(array, place, multiply_size(array.shape[place], count)), spec
    )


@register_function(*(f"{module} pad" for module in _BOTH))
def pad_array(call: Call) -> Value:
    """An array with more entries at its ends."""
    array, widths = layout_as_array(call.argument_at(0, "array")), _padding_widths(call.argument_at(1, "pad_width"))
    if array.shape is None or widths is None:
        return _result_with_spec(call, array, None, None)
    if len(widths) == 1:
        widths *= len(array.shape)
    if len(widths) != len(array.shape):
        return _result_with_spec(call, array, None, None)
    found = array
    for place, (size, more) in enumerate(zip(array.shape, widths, strict=True)):
        if more:
            found = _resize_dimension(call, found, place, size + more if isinstance(size, int) else None)
            if found.shape is None or (array.is_explicit and found.mesh is None):
                pairs = zip(array.shape, widths, strict=True)
                wider = tuple(one + two if isinstance(one, int) else None for one, two in pairs)
                return _result_with_spec(call, array, wider, None)
    return found


def _padding_widths(value: Value) -> tuple[int, ...] | None:
    """How many entries each dimension gains: one number for all of them, or a pair for each."""
    if isinstance(value, int):
        return (2 * value,)
    pairs = known_items(value)
    if pairs is not None and len(pairs) == 2 and all(isinstance(one, int) for one in pairs):
        return (sum(pairs),)
    found = [known_items(one) for one in pairs or ()]
    if not found or any(one is None or len(one) != 2 or not all(isinstance(n, int) for n in one) for one in found):
        return None
    return tuple(sum(one) for one in found if one is not None)


@register_function(*(f"{module} split array_split" for module in _BOTH))
def split_array(call: Call) -> Value:
    """The parts of an array along a dimension."""
    array, sections = layout_as_array(call.argument_at(0, "ary")), call.argument_at(1, "indices_or_sections")
    place = dimension_of(call, array, 2)
    size = array.shape[place] if array.shape is not None and place is not None else None
    if place is None or not isinstance(size, int):
        return Unknown("pieces of an array")
    ends = known_items(sections)
    if isinstance(sections, int) and 0 < sections <= size:
        each, rest = divmod(size, sections)
        sizes = [each + (number < rest) for number in range(sections)]
    elif ends is not None and all(isinstance(one, int) for one in ends):
        bounds = [0, *ends, size]
        sizes = [max(last - first, 0) for first, last in pairwise(bounds)]
    else:
        return Unknown("pieces of an array")
    return ListValue(
        [_resize_dimension(call, array, place, one) for one in sizes], region=call.interpreter.region
    )


@register_function(*(f"{module} take" for module in _BOTH))
def take_entries(call: Call) -> Value:
    """The entries of a dimension that an array of numbers chooses."""
    array, index = layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "indices"))
    place = dimension_of(call, array, 2, None)
    if array.shape is None or index.shape is None or place is None:
        return _result_with_spec(call, array, None, None, index)
    _check_gathered(call, array, place)
    shape = (*array.shape[:place], *index.shape, *array.shape[place + 1 :])
    spec = array.typed_spec
    if spec is None or any(index.typed_spec or ()):
        return _result_with_spec(call, array, shape, None, index)
    entries = (*spec[:place], *((NO_AXES,) * len(index.shape)), *spec[place + 1 :])
    return _result_with_spec(call, array, shape, entries, index)


@register_function(*(f"{module} take_along_axis" for module in _BOTH))
def take_along(call: Call) -> Value:
    """Entries that an array of numbers of the same rank chooses along a dimension."""
    array, index = layout_as_array(call.argument_at(0, "arr")), layout_as_array(call.argument_at(1, "indices"))
    place = dimension_of(call, array, 2, -1)
    if array.shape is None or index.shape is None or place is None or len(index.shape) != len(array.shape):
        return _result_with_spec(call, array, None, None, index)
    _check_gathered(call, array, place)
    spec, other = array.typed_spec, index.typed_spec
    same = (
        spec is not None
        and other is not None
        and _entries_except(spec, place) == _entries_except(other, place)
    )
    shape = shape_with_size(array, place, index.shape[place])
    entries = (*spec[:place], NO_AXES, *spec[place + 1 :]) if same and spec else None
    return _result_with_spec(call, array, shape, entries, index)


def _entries_except(spec: Spec, place: int) -> Spec:
    return (*spec[:place], *spec[place + 1 :])


@register_function(*(f"{module} diag" for module in _BOTH))
def diagonal_of_array(call: Call) -> Value:
    """The diagonal of a matrix, or a matrix with a diagonal."""
    array = layout_as_array(call.argument_at(0, "v"))
    if array.shape is None or len(array.shape) not in (1, 2) or call.argument_at(1, "k", 0) != 0:
        return _result_with_spec(call, array, None, None)
    spec = array.typed_spec
    if len(array.shape) == 2:
        for place in (0, 1):
            if spec_entry(array, place) and array.is_explicit:
                _check_gathered(call, array, place)
                break
        size = array.shape[0] if array.shape[0] == array.shape[1] else None
        return _result_with_spec(
            call, array, (size,), (NO_AXES,) if spec is not None and not any(spec) else None
        )
    recent = is_recent(call)
    placed: Spec | None = None
    if spec is not None and (recent is not None or not any(spec)):
        placed = (spec[0], NO_AXES) if recent else (NO_AXES, spec[0])
    return _result_with_spec(call, array, array.shape * 2, placed)


def _check_gathered(call: Call, array: Layout, place: int) -> None:
    axes = spec_entry(array, place) if array.is_explicit else NO_AXES
    if axes:
        record_gather(call, array, axes)


@register_function("jax.numpy atleast_1d atleast_2d atleast_3d", "numpy atleast_1d atleast_2d atleast_3d")
def ensure_rank(call: Call) -> Value:
    """An array with so many dimensions or more."""
    array, least = layout_as_array(call.argument_at(0, "a")), int(call.name[-2])
    if array.shape is None:
        return _result_with_spec(call, array, None, None)
    before = {1: 0, 2: 1, 3: 1}[least] if len(array.shape) == 1 else least if not array.shape else 0
    after = least - before - len(array.shape)
    spec = array.typed_spec
    if before + after <= 0:
        same = call.name.startswith("numpy") == bool(array.host)
        kept = replace(array, spec=None) if array.mesh is not None and array.mesh.is_mixed else array
        return kept if same else _result_with_spec(call, array, array.shape, spec)
    shape = (*(1,) * before, *array.shape, *(1,) * after)
    return _result_with_spec(
        call, array, shape, (*(NO_AXES,) * before, *spec, *(NO_AXES,) * after) if spec is not None else None
    )

"""haliax: what gives named arrays other axes: order, names, broadcasts, indexes, flattened and joined axes.

Facts of haliax 1.4, each tried: `rename` passes over axes that the array lacks; a broadcast puts new axes in front; an
index by a number drops its axis, one by an array has the axes of that; `rearrange` of text places its result by the
mapping in context, of axes it does not.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Size, are_surely_different, multiply_size
from shardlint.layouts.values import Call, DictValue, Unknown, Value, known_items
from shardlint.libraries.haliax import order_axes
from shardlint.libraries.haliax_axes import (
    NAMED_ARRAY,
    Axis,
    NamedArray,
    axes_of,
    call_jax,
    check_unique,
    make_named,
    permute_axes,
    positions_of_axes,
    record_violation,
    selected_axes,
    sizes_of_axes,
    widen_axes,
)
from shardlint.libraries.haliax_mappings import auto_sharded
from shardlint.libraries.jax_numpy import size_of
from shardlint.libraries.registry import register_function

Place = int | None


def _named_array_argument(call: Call, name: str = "array") -> NamedArray | None:
    """The array that a call is given, if its axes are known."""
    given = call.argument_at(0, "a" if "a" in call.keywords else name)
    return given if isinstance(given, NamedArray) and given.axes is not None and not call.open else None


def _unknown_array(call: Call) -> Value:
    """An array whose axes are not known."""
    return make_named(call, Layout(), None)


def _names_of_methods(*names: str) -> tuple[str, ...]:
    """Functions that are methods too."""
    return tuple(f"{home} {name}" for home in ("haliax", NAMED_ARRAY) for name in names)


def _place_of_axis(call: Call, array: NamedArray, value: Value) -> Place:
    """The dimension of one axis; None where it is not known, or haliax raises."""
    chosen = selected_axes(value)
    places = positions_of_axes(call, array, chosen) if chosen is not None and len(chosen) == 1 else None
    return places[0] if places else None


def _axes_with_replacement(call: Call, array: NamedArray, place: int, *axes: Axis) -> list[Axis]:
    """The axes of an array with others in the place of one."""
    own = list(array.axes or ())
    return [*own[:place], *axes, *own[place + 1 :]]


def _finish_named_array(call: Call, array: Layout, axes: list[Axis]) -> Value:
    return make_named(call, array, axes) if check_unique(call, axes) else Unknown("what raises")


# order and names


@register_function(*_names_of_methods("rearrange"))
def rearrange_axes(call: Call) -> Value:
    """The axes in another order, also as text without parentheses."""
    array, given = (
        _named_array_argument(call),
        call.argument_at(1, "axes" if "axes" in call.keywords else "expression"),
    )
    if array is None:
        return _unknown_array(call)
    if isinstance(given, str):
        return _rearranged_by_text(call, array, given)
    axes = order_axes(call, array.axes or (), given)
    if axes is None:
        return _unknown_array(call)
    return permute_axes(call, array, [one.name for one in axes])


def _rearranged_by_text(call: Call, array: NamedArray, text: str) -> Value:
    left, _, right = text.partition("->")
    letters, out = left.split(), right.split()
    plain = not any(one in text for one in "(){}:") and "..." not in text and not call.keywords.keys() - {"expression"}
    if not plain or len(letters) != len(array.axis_names) or sorted(letters) != sorted(out):
        return _unknown_array(call)
    names = dict(zip(letters, array.axis_names, strict=True))
    return auto_sharded(call, permute_axes(call, array, [names[one] for one in out]))


@register_function(*_names_of_methods("rename"))
def rename_axes(call: Call) -> Value:
    """Other names for some axes."""
    array, given = _named_array_argument(call), call.argument_at(1, "renames")
    if array is None or not isinstance(given, DictValue) or given.open:
        return _unknown_array(call)
    axes = []
    for one in array.axes or ():
        new = given.entries.get(one, given.entries.get(one.name))
        chosen = selected_axes(new) if new is not None else None
        if new is not None and (chosen is None or len(chosen) != 1):
            return _unknown_array(call)
        name, size = chosen[0] if chosen else (one.name, None)
        if are_surely_different(one.size, size):
            record_violation(call, "named.sizes", axis=one.name, left=str(array), right=str(Axis(name, size)))
            return Unknown("what raises")
        axes.append(Axis(name, one.size))
    return _finish_named_array(call, array.plain_array, axes)


@register_function(*_names_of_methods("broadcast_to", "broadcast_axis"))
def broadcast_axes(call: Call) -> Value:
    """An array with further axes, in front; those given in their order."""
    array = _named_array_argument(call)
    chosen = selected_axes(call.argument_at(1, "axis" if "axis" in call.keywords else "axes"))
    if array is None or chosen is None:
        return _unknown_array(call)
    extra = [name for name in array.axis_names if name not in dict(chosen)]
    if call.function_name == "broadcast_to" and call.argument_at(3, "enforce_no_extra_axes", True) is True and extra:
        record_violation(
            call, "named.subset", left=str(array), right=f"[{', '.join(str(Axis(*one)) for one in chosen)}]"
        )
        return Unknown("what raises")
    if positions_of_axes(call, array, [one for one in chosen if one[0] in array.axis_names]) is None:
        return Unknown("what raises")
    own = {one.name: one for one in array.axes or ()}
    axes = [own.get(name, Axis(name, size)) for name, size in chosen]
    return widen_axes(call, array, axes, call.argument_at(2, "ensure_order", True) is True)


# parts of an array


@register_function(f"{NAMED_ARRAY} __getitem__", "haliax index")
def index_array(call: Call) -> Value:
    """A part of an array: pairs of an axis and an index, or a dict of these."""
    array, given = _named_array_argument(call), call.argument_at(1, "slices")
    pairs = _index_pairs(given)
    if array is None or pairs is None:
        return _unknown_array(call)
    keys: list[Value] = [slice(None)] * len(array.axis_names)
    arrays: list[tuple[int, NamedArray]] = []
    for chosen, key in pairs:
        place = _place_of_axis(call, array, chosen)
        if place is None:
            return _unknown_array(call) if selected_axes(chosen) is None else Unknown("what raises")
        keys[place] = key
        if isinstance(key, NamedArray):
            arrays.append((place, key))
        elif not isinstance(key, int | slice):
            return _unknown_array(call)
    if arrays:
        place, key = arrays[0]
        plain = len(pairs) == 1 and key.axes is not None and not set(key.axis_names) & set(array.axis_names)
        return _take_entries(call, array, place, key) if plain else _unknown_array(call)
    made = call_jax(call, "shardlint.index", array.plain_array, tuple(keys))
    kept = [one for one, key in zip(array.axes or (), keys, strict=True) if isinstance(key, slice)]
    sizes = made.shape if made.shape is not None else (None,) * len(kept)
    return make_named(call, made, [Axis(one.name, size) for one, size in zip(kept, sizes, strict=False)])


def _index_pairs(value: Value) -> list[tuple[Value, Value]] | None:
    """The axes of an index, each with what is taken of it."""
    if isinstance(value, DictValue):
        return None if value.open else list(value.entries.items())
    items = known_items(value)
    if items is None or len(items) % 2:
        return None
    return list(zip(items[::2], items[1::2], strict=True))


def _take_entries(call: Call, array: NamedArray, place: int, key: NamedArray) -> Value:
    """The entries along an axis that an array of numbers chooses, whose axes stand in its place."""
    axes = _axes_with_replacement(call, array, place, *(key.axes or ()))
    own, chosen = array.plain_array, key.plain_array
    if place == 0:
        return make_named(call, call_jax(call, "shardlint.index", own, chosen), axes)
    known = Layout()
    if not own.is_explicit and not chosen.is_explicit:
        known = call_jax(call, "jax.numpy.add", own.with_shape(()), chosen.with_shape(()))
    shape = tuple(one.size for one in axes)
    return make_named(call, replace(known, dtype=own.dtype, mesh=None).with_shape(shape), axes)


@register_function(*_names_of_methods("take"))
def take_entries(call: Call) -> Value:
    """Entries along an axis."""
    array, key = _named_array_argument(call), call.argument_at(2, "index")
    place = _place_of_axis(call, array, call.argument_at(1, "axis")) if array is not None else None
    if array is None or place is None:
        return _unknown_array(call)
    if isinstance(key, int):
        keys = (*((slice(None),) * place), key)
        made = call_jax(call, "shardlint.index", array.plain_array, keys)
        return make_named(call, made, _axes_with_replacement(call, array, place))
    if not isinstance(key, NamedArray) or key.axes is None or set(key.axis_names) & set(array.axis_names):
        return _unknown_array(call)
    return _take_entries(call, array, place, key)


@register_function(*_names_of_methods("slice"))
def slice_axis(call: Call) -> Value:
    """A stretch of an axis, under its name or another one."""
    array, given = _named_array_argument(call), call.argument_at(1, "axis")
    place = (
        _place_of_axis(call, array, given) if array is not None and isinstance(given, Axis | str) else None
    )
    if array is None or place is None:
        return _unknown_array(call)
    new, size = call.argument_at(2, "new_axis", None), call.argument_at(4, "length", None)
    own = (array.axes or ())[place]
    length: Size = new.size if isinstance(new, Axis) and size is None else size_of(size)
    name = new.name if isinstance(new, Axis) else new if isinstance(new, str) else own.name
    args = array.plain_array, call.argument_at(3, "start", 0), Unknown("a size") if length is None else length
    made = call_jax(call, "jax.lax.dynamic_slice_in_dim", *args, axis=place)
    return _finish_named_array(call, made, _axes_with_replacement(call, array, place, Axis(name, length)))


@register_function(*_names_of_methods("unbind"))
def unbind_axis(call: Call) -> Value:
    """The entries along an axis, in a list."""
    array = _named_array_argument(call)
    place = _place_of_axis(call, array, call.argument_at(1, "axis")) if array is not None else None
    if array is None or place is None:
        return Unknown("arrays")
    size, axes = (array.axes or ())[place].size, _axes_with_replacement(call, array, place)
    made = make_named(call, call_jax(call, "shardlint.index", array.plain_array, (*((slice(None),) * place), 0)), axes)
    found = auto_sharded(call, made)
    return (found,) * size if isinstance(size, int) and size <= 64 else Unknown("arrays")


@register_function(*_names_of_methods("split"))
def split_axis(call: Call) -> Value:
    """The parts of an axis, each with an axis of its own."""
    array, new = _named_array_argument(call), axes_of(call.argument_at(2, "new_axes"))
    place = _place_of_axis(call, array, call.argument_at(1, "axis")) if array is not None else None
    if array is None or place is None or new is None:
        return Unknown("arrays")
    found = []
    for one in new:
        part = slice(0, one.size) if isinstance(one.size, int) else Unknown()
        made = call_jax(call, "shardlint.index", array.plain_array, (*((slice(None),) * place), part))
        found.append(make_named(call, made, _axes_with_replacement(call, array, place, one)))
    return tuple(found)


@register_function(*_names_of_methods("updated_slice"))
def update_entries(call: Call) -> Value:
    """The array with other entries."""
    array = _named_array_argument(call)
    return (
        array.with_parts({"array": replace(array.plain_array, spec=array.plain_array.typed_spec)})
        if array
        else _unknown_array(call)
    )


# flattened and joined axes


@register_function(*_names_of_methods("flatten_axes", "ravel", "flatten"))
def flatten_axes(call: Call) -> Value:
    """Several axes as one, in the place of the first of them."""
    array = _named_array_argument(call)
    if array is None:
        return _unknown_array(call)
    every = call.function_name != "flatten_axes"
    chosen = (
        tuple((one.name, one.size) for one in array.axes or ())
        if every
        else selected_axes(call.argument_at(1, "old_axes"))
    )
    new = selected_axes(call.argument_at(1, "new_axis_name") if every else call.argument_at(2, "new_axis"))
    places = positions_of_axes(call, array, chosen) if chosen is not None else None
    if not places or new is None or len(new) != 1:
        return _unknown_array(call)
    size: Size = 1
    for place in places:
        size = multiply_size(size, (array.axes or ())[place].size)
    name, given = new[0]
    if are_surely_different(size, given):
        record_violation(call, "named.sizes", axis=name, left=str(array), right=str(Axis(name, given)))
        return Unknown("what raises")
    first = min(places)
    before = [one for one in range(first) if one not in places]
    after = [one for one in range(first, len(array.axis_names)) if one not in places]
    made = permute_axes(call, array, [array.axis_names[one] for one in (*before, *places, *after)])
    kept = array.axes or ()
    axes = [*(kept[one] for one in before), Axis(name, size), *(kept[one] for one in after)]
    return _reshape_to_axes(call, made.plain_array, axes)


def _reshape_to_axes(call: Call, array: Layout, axes: list[Axis]) -> Value:
    if not check_unique(call, axes):
        return Unknown("what raises")
    return make_named(call, call_jax(call, "jax.numpy.reshape", array, sizes_of_axes(axes)), axes)


@register_function(*_names_of_methods("unflatten_axis"))
def unflatten_axis(call: Call) -> Value:
    """One axis as several."""
    array, new = _named_array_argument(call), axes_of(call.argument_at(2, "new_axes"))
    place = _place_of_axis(call, array, call.argument_at(1, "axis")) if array is not None else None
    if array is None or place is None or not new:
        return _unknown_array(call)
    own = (array.axes or ())[place]
    size: Size = 1
    for one in new:
        size = multiply_size(size, one.size)
    if are_surely_different(own.size, size):
        record_violation(
            call, "named.sizes", axis=own.name, left=str(array), right=f"[{', '.join(map(str, new))}]"
        )
        return Unknown("what raises")
    return _reshape_to_axes(call, array.plain_array, _axes_with_replacement(call, array, place, *new))


@register_function("haliax stack concatenate")
def join_arrays(call: Call) -> Value:
    """Arrays along a new first axis, or one after the other along an axis that they have."""
    chosen, items = selected_axes(call.argument_at(0, "axis")), known_items(call.argument_at(1, "arrays"))
    arrays = [one for one in items or () if isinstance(one, NamedArray) and one.axes is not None]
    if chosen is None or len(chosen) != 1 or not arrays or len(arrays) != len(items or ()):
        return _unknown_array(call)
    (name, size), first = chosen[0], arrays[0]
    parts: list[Layout] = []
    sizes: list[Size] = []
    for one in arrays:
        alike = [(other.name, None if other.name == name else other.size) for other in first.axes or ()]
        if set(one.axis_names) != set(first.axis_names) or positions_of_axes(call, one, alike) is None:
            return Unknown("what raises")
        parts.append(permute_axes(call, one, first.axis_names).plain_array)
        sizes += [other.size for other in one.axes or () if other.name == name]
    if call.function_name == "stack":
        made = call_jax(call, "jax.numpy.stack", tuple(parts), 0)
        return _finish_named_array(call, made, [Axis(name, len(arrays)), *(first.axes or ())])
    place = _place_of_axis(call, first, name)
    if place is None:
        return Unknown("what raises")
    known = [one for one in sizes if isinstance(one, int)]
    total: Size = sum(known) if len(known) == len(sizes) else None
    if are_surely_different(size, total):
        record_violation(call, "named.sizes", axis=name, left=str(first), right=str(Axis(name, size)))
        return Unknown("what raises")
    made = call_jax(call, "jax.numpy.concatenate", tuple(parts), place)
    return make_named(call, made, _axes_with_replacement(call, first, place, Axis(name, total)))

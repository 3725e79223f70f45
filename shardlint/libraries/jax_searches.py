"""Functions of jax.numpy and numpy that search, count and compare: what they find has a shape of its own.

How many entries fit is known where a `size` is given, as within jit it has to be.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Size, count_entries
from shardlint.layouts.values import Call, ListValue, Unknown, Value, known_items
from shardlint.libraries.jax_numpy import (
    apply_elementwise,
    check_sorted,
    make_array,
    place_by_module,
    ravel_array,
    size_of,
)
from shardlint.libraries.meeting import (
    NO_AXES,
    broadcast_shapes,
    computed_array,
    is_whole,
    layout_as_array,
    searches_whole,
    spec_entry,
    typed_like,
)
from shardlint.libraries.registry import FUNCTIONS, register_function

_BOTH = ("jax.numpy", "numpy")


def counting_dtype(call: Call) -> str:
    """The type of numbers that are counted: numpy counts in 64 bits."""
    return "int64" if call.name.startswith("numpy.") else "int32"


def _count_found(call: Call) -> Size:
    """How many entries are found."""
    return size_of(call.keywords.get("size"))


def nonzero_places(call: Call) -> Value:
    """A row of numbers for each dimension: where the entries are that are not zero."""
    array = layout_as_array(call.argument_at(0, "a"))
    each = place_by_module(
        call, computed_array(call, [array], (_count_found(call),), counting_dtype(call), searches_whole(call))
    )
    return (each,) * max(array.rank, 1) if array.rank is not None else ListValue([each], True)


register_function(*(f"{module} nonzero" for module in _BOTH))(nonzero_places)


@register_function(*(f"{module} where" for module in _BOTH))
def where_condition(call: Call) -> Value:
    """Entries of two arrays by a condition; of a condition alone, where it holds."""
    alone = len(call.args) == 1 and not call.open and not call.keywords.keys() & {"x", "y"}
    if alone:
        return nonzero_places(call)
    named = [call.keywords[name] for name in ("condition", "x", "y") if name in call.keywords]
    return apply_elementwise(replace(call, args=(*call.args, *named), keywords={}))


@register_function(*(f"{module} argwhere flatnonzero" for module in _BOTH))
def argwhere_rows(call: Call) -> Value:
    """The same as rows of one array, or as numbers in the flat array."""
    array = layout_as_array(call.argument_at(0, "a"))
    flat = call.function_name == "flatnonzero"
    shape = (_count_found(call),) if flat else (_count_found(call), array.rank)
    return place_by_module(call, computed_array(call, [array], shape, counting_dtype(call), searches_whole(call)))


@register_function(*(f"{module} unique" for module in _BOTH))
def unique_entries(call: Call) -> Value:
    """The entries of an array without those that repeat, and what else is asked for."""
    array, axis = layout_as_array(call.argument_at(0, "ar")), call.argument_at(4, "axis", None)
    shape = (_count_found(call),) if axis is None else None
    values = place_by_module(
        call, computed_array(call, [array], shape, array.dtype, axis is None and searches_whole(call))
    )
    asked = [
        call.argument_at(place, f"return_{name}", False)
        for place, name in enumerate(("index", "inverse", "counts"), 1)
    ]
    if not all(isinstance(one, bool) for one in asked):
        return Unknown("entries, and maybe where they are")
    counted = replace(values.with_shape((_count_found(call),)), dtype=counting_dtype(call))
    inverse = replace(counted.with_shape(None), mesh=None)  # releases differ in its shape
    others = [part for part, wanted in zip((counted, inverse, counted), asked, strict=True) if wanted]
    return (values, *others) if others else values


@register_function(*(f"{module} isin in1d" for module in _BOTH))
def is_in_entries(call: Call) -> Value:
    """For each entry whether it is one of others."""
    array, others = (
        layout_as_array(call.argument_at(0, "element")),
        layout_as_array(call.argument_at(1, "test_elements")),
    )
    ravel_array(replace(call, args=(array,), keywords={}))
    return place_by_module(call, computed_array(call, [array, others], array.shape, "bool"))


@register_function(*(f"{module} searchsorted digitize" for module in _BOTH))
def search_sorted(call: Call) -> Value:
    """For each number its place among sorted ones."""
    ordered, numbers = layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "v"))
    if call.function_name == "digitize":
        ordered, numbers = layout_as_array(call.argument_at(1, "bins")), layout_as_array(call.argument_at(0, "x"))
    split = searches_whole(call) and is_whole(ordered)
    return place_by_module(
        call, computed_array(call, [ordered, numbers], numbers.shape, counting_dtype(call), split)
    )


@register_function(*(f"{module} bincount" for module in _BOTH))
def count_bins(call: Call) -> Value:
    """How often each number occurs, or the sum of weights."""
    array, weights = layout_as_array(call.argument_at(0, "x")), call.argument_at(1, "weights", None)
    length = size_of(call.keywords.get("length"))
    arrays = [array] if weights is None else [array, layout_as_array(weights)]
    found = computed_array(call, arrays, (length,), counting_dtype(call) if weights is None else None)
    return place_by_module(call, found)


@register_function(*(f"{module} histogram histogram_bin_edges" for module in _BOTH))
def make_histogram(call: Call) -> Value:
    """Counts, and the ends of the intervals."""
    array, bins = layout_as_array(call.argument_at(0, "a")), call.argument_at(1, "bins", 10)
    count = bins if isinstance(bins, int) else None
    if count is None and layout_as_array(bins).rank == 1:
        size = layout_as_array(bins).shape or (None,)
        count = size[0] - 1 if isinstance(size[0], int) else None
    whole = searches_whole(call)
    ends = place_by_module(
        call, computed_array(call, [array], (count + 1 if count is not None else None,), None, whole)
    )
    counts = place_by_module(call, computed_array(call, [array], (count,)))
    return ends if call.function_name == "histogram_bin_edges" else (counts, ends)


@register_function(*(f"{module} array_equal allclose" for module in _BOTH))
def compare_arrays(call: Call) -> Value:
    """Return whether two arrays are equal; for numpy as a Python bool."""
    if call.name.startswith("numpy."):
        return Unknown("a comparison")
    arrays = [layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "b"))]
    return computed_array(call, arrays, (), "bool")


@register_function(*(f"{module} iscomplexobj isscalar" for module in _BOTH))
def test_as_bool(call: Call) -> Value:
    """Return whether a value is complex, or a scalar, as a Python bool."""
    array = layout_as_array(call.argument_at(0, "x"))
    if call.function_name == "iscomplexobj":
        return "complex" in array.dtype if array.dtype is not None else Unknown("a type")
    return True if isinstance(call.argument_at(0, "x"), int | float | complex) else Unknown("a test")


@register_function(*(f"{module} unravel_index" for module in _BOTH))
def unravel_numbers(call: Call) -> Value:
    """The numbers of entries in a flat array as rows of numbers, one for each dimension."""
    array, sizes = layout_as_array(call.argument_at(0, "indices")), known_items(call.argument_at(1, "shape"))
    each = place_by_module(call, computed_array(call, [array], array.shape))
    return (each,) * len(sizes) if sizes is not None else ListValue([each], True)


@register_function(*(f"{module} ravel_multi_index" for module in _BOTH))
def ravel_index(call: Call) -> Value:
    """The numbers of entries in the flat array."""
    arrays = [layout_as_array(one) for one in known_items(call.argument_at(0, "multi_index")) or ()] or [Layout()]
    return place_by_module(call, computed_array(call, arrays, broadcast_shapes([one.shape for one in arrays])))


@register_function(*(f"{module} tril_indices triu_indices diag_indices" for module in _BOTH))
def triangle_indices(call: Call) -> Value:
    """Where the entries of a triangle or diagonal are: a row of numbers for each dimension."""
    count, second = call.argument_at(0, "n"), call.argument_at(2, "m", None)
    size: Size = None
    if call.function_name.startswith("diag"):
        rank = call.argument_at(1, "ndim", 2)
        size = size_of(count)
        if not isinstance(rank, int):
            return ListValue([make_array(call, (size,), counting_dtype(call))], True)
    else:
        rank = 2
        if isinstance(count, int) and call.argument_at(1, "k", 0) == 0 and second is None:
            size = count * (count + 1) // 2
    return (make_array(call, (size,), counting_dtype(call)),) * rank


@register_function(*(f"{module} interp" for module in _BOTH))
def interpolate_values(call: Call) -> Value:
    """Values between those at known points."""
    arrays = [layout_as_array(call.argument_at(place, name)) for place, name in enumerate(("x", "xp", "fp"))]
    whole = searches_whole(call) and all(map(is_whole, arrays[1:]))
    return place_by_module(call, computed_array(call, arrays, arrays[0].shape, None, whole))


@register_function(*(f"{module} percentile quantile nanpercentile nanquantile" for module in _BOTH))
def array_quantiles(call: Call) -> Value:
    """The numbers of an array below which a part of it is, for each of these parts."""
    array, parts = layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "q"))
    axis, keep = call.argument_at(2, "axis", None), call.keywords.get("keepdims", False)
    places = tuple(range(array.rank)) if axis is None and array.rank is not None else known_items(axis)
    places = (axis,) if isinstance(axis, int) else places
    rank = array.rank or 0
    known = places is not None and all(isinstance(one, int) and -rank <= one < rank for one in places)
    if array.shape is None or parts.shape is None or not known or places is None or not isinstance(keep, bool):
        return place_by_module(call, computed_array(call, [array, parts], None))
    gone = {one % rank for one in places}
    check_sorted(call, array, gone)
    rest = [1 if place in gone else size for place, size in enumerate(array.shape) if keep or place not in gone]
    return place_by_module(call, computed_array(call, [array, parts], (*parts.shape, *rest)))


@register_function(*(f"{module} average" for module in _BOTH))
def average_array(call: Call) -> Value:
    """A mean, of which each entry may have a weight; with `returned` the sum of these too."""
    home = call.name.rpartition(".")[0]
    axis, keep = call.argument_at(1, "axis", None), call.keywords.get("keepdims", False)
    of_all = replace(call, name=f"{home}.mean", args=(call.argument_at(0, "a"), axis), keywords={"keepdims": keep})
    found = FUNCTIONS[of_all.name](of_all)
    weights = call.argument_at(2, "weights", None)
    if weights is not None:
        array = layout_as_array(found)
        found = place_by_module(call, computed_array(call, [array, layout_as_array(weights)], array.shape))
    return found if call.keywords.get("returned", False) is False else (found, found)


@register_function(*(f"{module} meshgrid" for module in _BOTH))
def mesh_grids(call: Call) -> Value:
    """Arrays of all combinations of some numbers: one for each of those given, all of one shape."""
    order, sparse = call.keywords.get("indexing", "xy"), call.keywords.get("sparse", False)
    if call.open or order not in ("xy", "ij") or not isinstance(sparse, bool):
        return ListValue([Layout()], True)
    arrays = [layout_as_array(one) for one in call.args]
    places = list(range(len(arrays)))
    if order == "xy":
        places[:2] = reversed(places[:2])
    sizes: list[Size] = [count_entries(arrays[place].shape) for place in places]
    made: list[Value] = []
    for array, own in zip(arrays, places, strict=True):
        shape = tuple(1 if sparse and place != own else size for place, size in enumerate(sizes))
        axes = spec_entry(array, 0) if array.rank == 1 else None
        spec = (
            None if axes is None else tuple(axes if place == own else NO_AXES for place in range(len(sizes)))
        )
        made.append(
            place_by_module(call, typed_like(computed_array(call, [array], shape, array.dtype), array, spec))
        )
    return tuple(made) if call.name.startswith("numpy.") else ListValue(made, region=call.interpreter.region)

"""Functions of jax.numpy and numpy that put arrays together, take entries out of them, or compute along a dimension."""

from __future__ import annotations

from dataclasses import replace

from shardlint.layouts.layout import Layout, Shape, Size
from shardlint.layouts.values import Call, ListValue, Native, Unknown, Value, known_items
from shardlint.libraries.jax_numpy import (
    add_sizes,
    apply_elementwise,
    check_whole_along,
    concatenate_arrays,
    dtype_of,
    make_array,
    place_by_module,
    ravel_array,
    size_of,
    sizes_of,
    swap_dimensions,
)
from shardlint.libraries.jax_slices import compute_resized, dimension_of, shape_with_size
from shardlint.libraries.meeting import (
    NEWEST_CHANGE,
    NO_AXES,
    broadcast_shapes,
    broadcast_values,
    check_whole,
    computed_array,
    is_recent,
    layout_as_array,
    meet_operands,
    refuses_outside,
    searches_whole,
)
from shardlint.libraries.registry import register_function

_BOTH = ("jax.numpy", "numpy")


@register_function(*(f"{module} astype" for module in _BOTH))
def cast_array(call: Call) -> Value:
    """An array of another type."""
    array = layout_as_array(call.argument_at(0, "x"))
    base = replace(meet_operands(call, [array]), summed=array.summed, rows=array.rows)
    found = replace(base, shape=array.shape, spec=array.typed_spec, rows=array.rows, literal=False)
    return replace(place_by_module(call, found), dtype=dtype_of(call.argument_at(1, "dtype", None)))


@register_function("jax.lax bitcast_convert_type")
def bitcast_array(call: Call) -> Value:
    """The same bits as another type: of another width the last dimension goes, or there is one more."""
    array, dtype = layout_as_array(call.argument_at(0, "operand")), dtype_of(call.argument_at(1, "new_dtype", None))
    one, two = _bits_of_dtype(array.dtype), _bits_of_dtype(dtype)
    same = one is not None and one == two
    shape, spec = array.shape, array.typed_spec
    if one is None or two is None or shape is None:
        shape, spec = None, None
    elif two < one:
        shape, spec = (*shape, one // two), (*spec, NO_AXES) if spec is not None else None
    elif two > one:
        shape, spec = shape[:-1], None
    base = meet_operands(call, [array])
    base = replace(base, mesh=None) if base.is_explicit and not same else base
    return replace(base.with_shape(shape, spec if same else None), dtype=dtype)


def _bits_of_dtype(dtype: str | None) -> int | None:
    digits = (dtype or "").lstrip("abcdefghijklmnopqrstuvwxyz").partition("_")[0]
    return int(digits) if digits.isdigit() else None


@register_function(*(f"{module} append" for module in _BOTH))
def append_arrays(call: Call) -> Value:
    """Two arrays one after the other: flat ones without an axis."""
    parts, axis = (call.argument_at(0, "arr"), call.argument_at(1, "values")), call.argument_at(2, "axis", None)
    home = call.name.rpartition(".")[0]
    if axis is None:
        flat = replace(call, name=f"{home}.ravel", keywords={})
        parts = (ravel_array(replace(flat, args=parts[:1])), ravel_array(replace(flat, args=parts[1:])))
    joined = replace(call, name=f"{home}.concatenate", args=(parts, 0 if axis is None else axis), keywords={})
    return concatenate_arrays(joined)


@register_function(*(f"{module} dstack column_stack" for module in _BOTH))
def stack_columns(call: Call) -> Value:
    """Arrays side by side, flat ones as columns."""
    given = known_items(call.argument_at(0, "tup"))
    if not given:
        return place_by_module(call, Layout())
    arrays = [layout_as_array(one) for one in given]
    place = 2 if call.function_name == "dstack" else 1
    shapes = [_as_column(one.shape, place) for one in arrays]
    first = shapes[0]
    if first is None or any(one is None or len(one) != len(first) for one in shapes):
        return place_by_module(call, computed_array(call, arrays, None))
    total = add_sizes([one[place] for one in shapes if one is not None])
    dtype = arrays[0].dtype if len({one.dtype for one in arrays}) == 1 else None
    return place_by_module(call, computed_array(call, arrays, (*first[:place], total, *first[place + 1 :]), dtype))


def _as_column(shape: Shape | None, place: int) -> Shape | None:
    """The shape of an array as it is put side by side with others."""
    if shape is None or len(shape) > place:
        return shape
    if place == 1:
        return (*shape, 1) if shape else (1, 1)
    return (1, *shape, 1) if len(shape) == 1 else (*shape, 1) if shape else (1, 1, 1)


@register_function(*(f"{module} delete insert" for module in _BOTH))
def changed_size(call: Call) -> Value:
    """An array without some entries of a dimension, or with more."""
    array, chosen, inserts = (
        layout_as_array(call.argument_at(0, "arr")),
        call.argument_at(1, "obj"),
        call.function_name == "insert",
    )
    axis = call.argument_at(3 if inserts else 2, "axis", None)
    if axis is None or array.shape is None or not isinstance(axis, int) or not array.shape:
        return place_by_module(call, computed_array(call, [array], (None,) if axis is None else None, array.dtype))
    place = axis % len(array.shape)
    size = array.shape[place]
    one = isinstance(chosen, int) and (not inserts or layout_as_array(call.argument_at(2, "values")).rank == 0)
    count = size + (1 if inserts else -1) if one and isinstance(size, int) else None
    shape = shape_with_size(array, place, count)
    if not inserts and isinstance(chosen, int):
        return place_by_module(call, compute_resized(call, array, shape, array.dtype))
    whole = inserts and refuses_outside(call)
    return place_by_module(call, computed_array(call, [array], shape, array.dtype, whole))


@register_function(*(f"{module} resize" for module in _BOTH))
def resize_array(call: Call) -> Value:
    """An array of another size, of which entries repeat."""
    array = layout_as_array(call.argument_at(0, "a"))
    if array.rank == 1:  # it is repeated, or cut
        check_whole(call, array)
    ravel_array(replace(call, args=(array,), keywords={}))
    return place_by_module(call, computed_array(call, [array], sizes_of(call.argument_at(1, "new_shape")), array.dtype))


@register_function(*(f"{module} select piecewise choose" for module in _BOTH))
def select_entries(call: Call) -> Value:
    """Entries of several arrays by conditions."""
    if call.function_name == "piecewise":
        array = layout_as_array(call.argument_at(0, "x"))
        return place_by_module(call, computed_array(call, [array], array.shape, array.dtype))
    conditions, choices = known_items(call.argument_at(0, "condlist")), known_items(call.argument_at(1, "choicelist"))
    if call.function_name == "choose":
        conditions = (call.argument_at(0, "a"),)
    arrays = [layout_as_array(one) for one in (*(conditions or ()), *(choices or ()))]
    if not conditions or not choices:
        return place_by_module(call, computed_array(call, arrays or [Layout()], None))
    return place_by_module(call, replace(broadcast_values(call, arrays), dtype=None))


@register_function(*(f"{module} divmod" for module in _BOTH))
def divide_entries(call: Call) -> Value:
    """A quotient and a rest, entry by entry."""
    home = call.name.rpartition(".")[0]
    return tuple(
        apply_elementwise(replace(call, name=f"{home}.{name}")) for name in ("floor_divide", "remainder")
    )


@register_function(*(f"{module} frexp modf" for module in _BOTH))
def split_in_two(call: Call) -> Value:
    """Two numbers for each entry."""
    array = layout_as_array(call.argument_at(0, "x"))
    each = place_by_module(call, compute_resized(call, array, array.shape))
    return (each, each)


@register_function(*(f"{module} tri" for module in _BOTH))
def triangle_of_ones(call: Call) -> Value:
    """A triangle of ones."""
    rows = size_of(call.argument_at(0, "N"))
    columns_ = call.argument_at(1, "M", None)
    dtype = dtype_of(call.argument_at(3, "dtype")) if call.has_argument(3, "dtype") else "float32"
    return make_array(call, (rows, rows if columns_ is None else size_of(columns_)), dtype)


@register_function(*(f"{module} hanning hamming blackman bartlett kaiser" for module in _BOTH))
def window_weights(call: Call) -> Value:
    """The weights of a window."""
    return make_array(call, (size_of(call.argument_at(0, "M")),), None)


@register_function(*(f"{module} logspace geomspace" for module in _BOTH))
def spaced_numbers(call: Call) -> Value:
    """Numbers between two others."""
    return make_array(call, (size_of(call.argument_at(2, "num", 50)),), None)


@register_function(*(f"{module} indices" for module in _BOTH))
def index_grid(call: Call) -> Value:
    """The places of all entries of a shape, along a new first dimension."""
    sizes = sizes_of(call.argument_at(0, "dimensions"))
    known = sizes is not None and call.argument_at(2, "sparse", False) is False
    return make_array(call, (len(sizes), *sizes) if known and sizes is not None else None, None)


@register_function(*(f"{module} diff" for module in _BOTH))
def differences_along(call: Call) -> Value:
    """Differences of neighbors along a dimension: each time one entry fewer."""
    array, count = layout_as_array(call.argument_at(0, "a")), call.argument_at(1, "n", 1)
    place = dimension_of(call, array, 2, -1)
    more = any(call.has_argument(position, name) for position, name in ((3, "prepend"), (4, "append")))
    if array.shape is None or place is None or more or not isinstance(count, int):
        return place_by_module(call, computed_array(call, [array], None))
    size = array.shape[place]
    shape = shape_with_size(array, place, max(size - count, 0) if isinstance(size, int) else None)
    return place_by_module(
        call, compute_resized(call, array, shape, array.dtype if "float" in (array.dtype or "") else None)
    )


@register_function(*(f"{module} convolve correlate" for module in _BOTH), "jax.scipy.signal convolve correlate")
def convolve_arrays(call: Call) -> Value:
    """A sum of products with each shift of another array."""
    left, right = layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "v"))
    mode = call.argument_at(
        2, "mode", "valid" if call.function_name == "correlate" and "numpy" in call.name else "full"
    )
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        return place_by_module(call, computed_array(call, [left, right], None))
    sizes = [_convolved_size(one, two, mode) for one, two in zip(left.shape, right.shape, strict=True)]
    both = len(sizes) == 1 and all(any(one.typed_spec or ()) for one in (left, right))
    return place_by_module(call, computed_array(call, [left, right], tuple(sizes), None, both))


def _convolved_size(one: Size, two: Size, mode: Value) -> Size:
    if not isinstance(one, int) or not isinstance(two, int):
        return None
    longer, shorter = max(one, two), min(one, two)
    known = {"full": longer + shorter - 1, "same": longer, "valid": longer - shorter + 1}
    return known.get(mode) if isinstance(mode, str) else None


@register_function(*(f"{module} cumulative_sum cumulative_prod nancumsum nancumprod" for module in _BOTH))
def cumulative_sums(call: Call) -> Value:
    """Sums of the entries so far along a dimension."""
    array, axis = layout_as_array(call.argument_at(0, "x")), call.argument_at(1, "axis", call.keywords.get("axis"))
    flat = axis is None and (call.function_name.startswith("nan") or array.rank == 1)
    shape = array.shape if isinstance(axis, int) or array.rank == 1 else None
    if axis is None and not flat:
        shape = None
    if call.keywords.get("include_initial", False) is not False:
        shape = None
    recent = is_recent(call, NEWEST_CHANGE)
    if recent and isinstance(axis, int) and array.rank:
        check_whole_along(call, array, axis % array.rank)
    dtype = array.dtype if "float" in (array.dtype or "") else None
    known = array if recent is not None else replace(array, spec=None)
    return place_by_module(call, compute_resized(call, known, shape, dtype))


@register_function(*(f"{module} partition argpartition" for module in _BOTH))
def partition_array(call: Call) -> Value:
    """An array whose smaller entries come first, or where they are."""
    array, counts = layout_as_array(call.argument_at(0, "a")), call.function_name.startswith("arg")
    axis = call.argument_at(2, "axis", -1)
    if array.rank and isinstance(axis, int) and is_recent(call):
        check_whole_along(call, array, axis % array.rank)
    whole = counts and searches_whole(call)
    return place_by_module(call, computed_array(call, [array], array.shape, None if counts else array.dtype, whole))


@register_function(*(f"{module} lexsort" for module in _BOTH))
def lexical_order(call: Call) -> Value:
    """Where the entries are in order."""
    keys = known_items(call.argument_at(0, "keys"))
    array = layout_as_array(keys[-1]) if keys else Layout()
    if array.rank and call.interpreter.mesh is None and call.interpreter.mesh_known and is_recent(call, NEWEST_CHANGE):
        check_whole_along(call, array, array.rank - 1)
    # The numbers that are sorted too are whole in a mesh in context.
    return place_by_module(
        call, computed_array(call, [array], array.shape, None, call.interpreter.mesh is not None)
    )


@register_function(*(f"{module} rot90 fliplr flipud" for module in _BOTH))
def turn_array(call: Call) -> Value:
    """An array that is turned or mirrored."""
    array, home = layout_as_array(call.argument_at(0, "m")), call.name.rpartition(".")[0]
    shape = array.shape
    if call.function_name == "rot90":
        odd = call.argument_at(1, "k", 1)
        known = isinstance(odd, int) and len(call.args) < 3 and "axes" not in call.keywords
        if shape is None or not known or len(shape) < 2:
            shape = None
        elif isinstance(odd, int) and odd % 2:
            return swap_dimensions(replace(call, name=f"{home}.swapaxes", args=(array, 0, 1), keywords={}))
    return place_by_module(call, compute_resized(call, array, shape, array.dtype))


@register_function(*(f"{module} broadcast_arrays" for module in _BOTH))
def broadcast_arrays(call: Call) -> Value:
    """Arrays, each broadcast to the shape of all."""
    if call.open:
        return ListValue([Layout()], True)
    arrays = [layout_as_array(one) for one in call.args]
    shape = broadcast_shapes([one.shape for one in arrays])
    made: list[Value] = [place_by_module(call, computed_array(call, [one], shape, one.dtype)) for one in arrays]
    if any(one.is_explicit for one in arrays):  # each takes the sharding of all
        made = [replace(one, mesh=None, spec=None, committed=None) for one in made]
    return tuple(made) if call.name.startswith("numpy.") else ListValue(made, region=call.interpreter.region)


@register_function(*(f"{module} put_along_axis" for module in _BOTH), "jax.numpy put place fill_diagonal")
def put_entries(call: Call) -> Value:
    """An array with some entries replaced: of jax a new one, numpy writes to its own."""
    if call.name.startswith("numpy."):
        return None
    array = layout_as_array(call.argument_at(0, "arr"))
    return computed_array(call, [array], array.shape, array.dtype)


@register_function("numpy copyto put place fill_diagonal save savez savez_compressed savetxt", "numpy.random shuffle",
          "numpy.random.Generator shuffle", "jax.numpy save savez")  # fmt: skip
def write_entries(call: Call) -> Value:
    """Return None, the result of writing to an array of numpy or to a file."""
    return None


@register_function(*(f"{module} frombuffer fromiter fromstring" for module in _BOTH))
def read_buffer(call: Call) -> Value:
    """Numbers of a buffer or an iterator, in a row."""
    dtype = dtype_of(call.argument_at(1, "dtype")) if call.has_argument(1, "dtype") else "float32"
    count = call.argument_at(2, "count", -1)
    return make_array(call, (count if isinstance(count, int) and count >= 0 else None,), dtype)


@register_function(*(f"{module} vectorize" for module in _BOTH))
def vectorize_function(call: Call) -> Value:
    """A function of numbers as one of arrays, which are broadcast."""
    inner, plain = (
        call.argument_at(0, "pyfunc"),
        not call.has_argument(-1, "signature") and not call.has_argument(-1, "excluded"),
    )

    def run_vectorized(again: Call) -> Value:
        if not plain or again.keywords or again.open:
            return again.interpreter.call_unknown("", again.args, again.keywords, again.place)
        arrays = [layout_as_array(one) for one in again.args]
        scalars = tuple(
            replace(one.with_shape((), () if one.is_explicit else None), literal=one.literal)
            for one in arrays
        )
        found = again.interpreter.call_value(inner, scalars, {}, again.place)
        shape = broadcast_shapes([one.shape for one in arrays])
        each = replace(call, interpreter=again.interpreter, place=again.place)
        one = place_by_module(each, computed_array(each, arrays, shape))
        return tuple(one for _ in found) if isinstance(found, tuple) else one

    return Native(call.name, run_vectorized) if inner is not None else Unknown("a decorator")

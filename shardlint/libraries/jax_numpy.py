"""jax.numpy, numpy, jax.nn and the array functions of jax.lax: shapes, and specs over Explicit axes.

Explicit axes follow the rules of jax's sharding in types: elementwise operands agree or are whole, a contracted
dimension is split in at most one operand, a dimension that is cut or sorted along is whole. An `out_sharding` argument
decides by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, prod

from shardlint.layouts.layout import (
    Axes,
    Figure,
    Layout,
    Mesh,
    Shape,
    Size,
    Spec,
    Symbol,
    count_entries,
    divide_size,
)
from shardlint.layouts.values import (
    Call,
    Library,
    ListValue,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
    known_items,
    map_tree,
)
from shardlint.libraries.device_rows import check_sum, rows_kept_elementwise
from shardlint.libraries.draws import keep_draw
from shardlint.libraries.gathered_shapes import check_reshaped, check_stacks
from shardlint.libraries.meeting import (
    LATE_CHANGE,
    NO_AXES,
    broadcast_shapes,
    broadcast_values,
    check_memory,
    check_whole,
    explicit_spec,
    fresh_array,
    host_array,
    is_recent,
    is_whole,
    layout_as_array,
    meet_operands,
    report_split,
    spec_entry,
)
from shardlint.libraries.registry import register_function

_BOTH = ("jax.numpy", "numpy")
UNARY = """abs absolute negative positive exp exp2 expm1 log log2 log10 log1p sqrt square cbrt reciprocal sin cos tan
sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh sign floor ceil round rint trunc isnan isinf isfinite
logical_not invert conj conjugate real imag angle nan_to_num deg2rad rad2deg copy sinc radians degrees acos acosh asin
asinh atan atanh bitwise_not bitwise_invert signbit fabs"""
BINARY = """add subtract multiply divide true_divide floor_divide remainder mod power float_power maximum minimum
fmax fmin logaddexp arctan2 hypot equal not_equal less less_equal greater greater_equal logical_and logical_or
logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift where clip pow atan2 bitwise_left_shift
bitwise_right_shift fmod copysign heaviside nextafter logaddexp2 isclose"""
NN = """relu relu6 sigmoid softplus silu swish tanh gelu elu celu selu leaky_relu soft_sign log_sigmoid hard_tanh
hard_sigmoid hard_silu hard_swish mish squareplus"""
LAX = """add sub mul div rem pow max min exp log log1p expm1 tanh sin cos sqrt rsqrt cbrt neg sign abs floor ceil round
is_finite square logistic erf erfc erf_inv integer_pow select select_n clamp stop_gradient convert_element_type
bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right_arithmetic shift_right_logical eq ne lt le gt ge
nextafter atan2 complex tan asin acos atan sinh cosh asinh acosh atanh exp2 lgamma digamma reduce_precision
optimization_barrier"""
REDUCTIONS = """sum mean max min prod any all var std nansum nanmean nanmax nanmin nanprod nanvar nanstd amax amin ptp
argmax argmin nanargmax nanargmin count_nonzero median"""

# Over one element they say nothing.
_STATISTICS = ("mean", "std", "var", "median")
# They keep the type of integers.
_ANY_TYPE = (
    "abs",
    "absolute",
    "negative",
    "positive",
    "square",
    "sign",
    "invert",
    "bitwise_not",
    "bitwise_invert",
    "copy",
    "conj",
    "relu",
    "relu6",
)
_BOOLEANS = frozenset(
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf "
    "isfinite is_finite isclose signbit eq ne lt le gt ge any all".split()
)
# Of these the result has the promoted type of the operands; others make floats of integers.
_KEEPS_INTEGERS = frozenset(
    "add subtract multiply floor_divide remainder mod maximum minimum where clip bitwise_and bitwise_or bitwise_xor "
    "left_shift right_shift sub mul rem max min neg abs sign select stop_gradient integer_pow square "
    "optimization_barrier fmax fmin power pow div clamp select_n bitwise_left_shift bitwise_right_shift fmod "
    "shift_left shift_right_arithmetic shift_right_logical bitwise_not reduce_precision".split()
)
# They are compiled as several operations, which the compiler may place elsewhere.
_EXPANDED = ("erf", "erfc", "erf_inv", "lgamma", "digamma")
# Arrays that are made like another one vary as it does since then.
_VARYING = (0, 7)
# They compare with counted numbers, which are in device memory.
_COUNTING = ("argmax", "argmin", "nanargmax", "nanargmin", "count_nonzero")


def dtype_of(value: Value) -> str | None:
    """The name of a dtype that is given."""
    if isinstance(value, Library):
        name = value.name.rpartition(".")[2]
        return {"float": "float32", "int": "int32", "bool_": "bool"}.get(name, name)
    return value if isinstance(value, str) else None


@register_function(
    *(f"{module} {BINARY}" for module in _BOTH),
    f"jax.lax {LAX}",
    "jax.numpy where",
    "jax.scipy.special erf expit logit",
)
def apply_elementwise(call: Call) -> Value:
    """An operation on each entry of arrays that are broadcast."""
    args = call.args if not call.open else (Layout(),)
    found = broadcast_values(call, args)
    found = replace(found, rows=rows_kept_elementwise([layout_as_array(one) for one in args]))
    if call.name.endswith(("convert_element_type",)):
        return replace(layout_as_array(call.args[0]), dtype=dtype_of(call.argument_at(1, "new_dtype")))
    last = call.function_name
    if last in _EXPANDED and not found.is_explicit:
        found = replace(found, spec=None)
    if last == "copysign" and found.is_explicit and is_whole(layout_as_array(args[0])):
        found = replace(found, mesh=None, spec=None)  # its type is that of the first array
    if last in _BOOLEANS:
        found = replace(found, dtype="bool")
    elif last == "complex":
        found = replace(found, dtype="complex64" if found.dtype == "float32" else None)
    elif last not in _KEEPS_INTEGERS and "float" not in (found.dtype or ""):
        found = replace(found, dtype=None)
    return place_by_module(call, found)


@register_function(
    *(f"{module} {UNARY}" for module in _BOTH), f"jax.nn {NN}", "jax.nn softmax log_softmax standardize"
)
def apply_unary(call: Call) -> Value:
    """An operation on each entry of one array."""
    array = layout_as_array(call.argument_at(0, "x"))
    if isinstance(call.argument_at(0, "x"), Unknown | Symbol):
        return Layout()
    if array.dtype is not None and "float" not in array.dtype and call.function_name not in _ANY_TYPE:
        array = replace(array, dtype=None)
    base = replace(meet_operands(call, [array]), shape=array.shape, spec=array.typed_spec, rows=array.rows)
    if call.function_name == "imag" and not call.interpreter.traced:
        base = Layout(array.shape, base.dtype)  # zeros, which are made anew
    elif call.function_name == "imag" and "float" in (array.dtype or ""):
        return array_like(
            replace(call, name=f"{call.name.rpartition('.')[0]}.zeros_like", args=(array,), keywords={})
        )
    elif call.function_name == "imag" and is_recent(call) is not True:
        base = replace(base, varying=None if base.varying else base.varying)  # of a real array it is made anew
    if (
        base.figure is not None
        and base.figure.kind == "term"
        and call.function_name not in ("negative", "copy")
    ):
        base = replace(base, figure=None)
    if array.drawn is not None or array.stacked is not None:
        base = replace(base, drawn=array.drawn, stacked=array.stacked)
    return place_by_module(call, replace(base, dtype="bool") if call.function_name in _BOOLEANS else base)


def place_by_module(call: Call, found: Layout) -> Layout:
    """numpy gives arrays of the host, jax.numpy of the device."""
    if call.name.startswith("numpy."):
        return replace(found, host=True, mesh=None, spec=None, device=None, committed=False, memory=None)
    if found.host:
        found = replace(
            fresh_array(call, found.shape, device_dtype(found.dtype)), varying=found.varying, rows=found.rows
        )
    return found


def device_dtype(dtype: str | None) -> str | None:
    """The dtype of an array of the host on a device: 64 bits are kept only if that is configured."""
    return None if dtype is not None and dtype.endswith("64") else dtype


# reductions


def _axes_given(call: Call, position: int, rank: int | None, name: str = "axis") -> tuple[int, ...] | None:
    """The dimensions that an axis argument names; all without one; None where that is not known."""
    axis = call.argument_at(position, name, None)
    if axis is None:
        return tuple(range(rank)) if rank is not None else None
    found = axis if isinstance(axis, tuple) else (axis,)
    if rank is None or not all(isinstance(one, int) and -rank <= one < rank for one in found):
        return None
    return tuple(one % rank for one in found)


@register_function(*(f"{module} {REDUCTIONS}" for module in _BOTH), "jax.nn logsumexp", "jax.scipy.special logsumexp")
def reduce_array(call: Call) -> Value:
    """A reduction over some dimensions: they go, or stay with size 1 under `keepdims`."""
    if isinstance(call.argument_at(0, "a"), Unknown | Symbol):
        return Layout()
    array = layout_as_array(call.argument_at(0, "a"))
    base = meet_operands(call, [array])
    last = call.function_name
    if array.has_rows and last == "sum" and call.argument_at(1, "axis", None) in (0, None):
        check_sum(call, array)
    if base.figure is not None and base.figure.kind == "term" and last != "sum":
        base = replace(base, figure=None)
    if last.startswith("nan") and last not in _COUNTING:
        check_memory(call, [array, fresh_array(call, (1,), None)])  # what is no number is replaced
    if last in _COUNTING:
        base = replace(base, dtype="int32")
        if last != "count_nonzero" and not call.interpreter.traced:  # within jit it raises once that is compiled
            check_memory(call, [array, fresh_array(call, (1,), None)])
    elif last in ("any", "all"):
        base = replace(base, dtype="bool")
    elif base.dtype is not None and "float" not in base.dtype:
        base = replace(base, dtype=base.dtype if last in ("max", "min", "amax", "amin") else None)
    if last == "median":
        check_sorted(call, array, _axes_given(call, 1, array.rank) or ())
    if base.memory != "device":
        base = replace(base, memory=None)  # releases differ in where the result is
    gone = _axes_given(call, 1, array.rank)
    if (
        last in ("argmax", "argmin")
        and array.is_explicit
        and not call.has_argument(1, "axis")
        and (array.rank or 0) > 1
    ):
        _spec_after_reshape(call, array, (count_entries(array.shape),))  # they flatten first
    keep = call.argument_at(3 if last == "logsumexp" else -1, "keepdims", False)
    if array.shape is None or gone is None or not isinstance(keep, bool):
        return place_by_module(call, base.with_shape(None))
    if last in _STATISTICS and array.varying and call.interpreter.manual is not None:
        if gone and all(array.shape[one] == 1 for one in gone) and len(gone) < len(array.shape):
            call.interpreter.record_violation(
                "statistics.single",
                call.interpreter.manual,
                operation=last,
                shape=str(array),
                line=str(call.place.line),
            )
    spec = array.typed_spec
    places = range(len(array.shape))
    if keep:
        shape: Shape = tuple(1 if one in gone else array.shape[one] for one in places)
        kept = None if spec is None else tuple(NO_AXES if one in gone else spec[one] for one in places)
    else:
        shape = tuple(array.shape[one] for one in places if one not in gone)
        kept = None if spec is None else tuple(spec[one] for one in places if one not in gone)
    # Releases and traces differ in which dimensions keep their axes.
    moves = (keep and last == "prod") or (last == "median" and len(gone) > 1)
    return place_by_module(call, base.with_shape(shape, None if moves and any(spec or ()) else kept))


def check_sorted(call: Call, array: Layout, places: Iterable[int]) -> None:
    """Record an array that is split over Explicit axes along dimensions that are joined and sorted."""
    for place in places:
        check_whole_along(call, array, place)


def check_whole_along(call: Call, array: Layout, place: int) -> None:
    """Record an array that is split over Explicit axes along a dimension that must be whole."""
    axes = spec_entry(array, place) if array.is_explicit else NO_AXES
    if axes:
        report_split(call, "along.split", array, axes)


@register_function(
    *(f"{module} cumsum cumprod sort argsort flip roll" for module in _BOTH),
    "jax.lax cumsum cumprod cummax cummin cumlogsumexp sort",
)
def apply_along(call: Call) -> Value:
    """An operation along one dimension that keeps the shape. Over Explicit axes that dimension has to be whole."""
    array = layout_as_array(call.argument_at(0, "a"))
    base = meet_operands(call, [array])
    last = call.function_name
    default = -1 if "sort" in last else None if call.name.startswith(("jax.numpy", "numpy")) else 0
    position = 2 if last == "roll" else 1
    axis = call.argument_at(position, "dimension" if "dimension" in call.keywords else "axis", default)
    if last == "argsort":
        # The counted numbers may decide along which axes it varies.
        memory = base.memory if base.memory == "device" else None
        base = replace(base, dtype="int32", varying=None if base.varying else base.varying, memory=memory)
    elif last in ("cumsum", "cumprod") and base.dtype == "bool":
        base = replace(base, dtype="int32")
    if axis is None and last in ("cumsum", "cumprod"):
        return place_by_module(call, base.with_shape((count_entries(array.shape),)))
    spec = array.typed_spec
    if array.is_explicit and isinstance(axis, int) and array.rank and last != "flip" and spec_entry(array, axis):
        recent = True if last == "roll" else is_recent(call)  # in between it is not known what sorts and sums
        if recent:
            check_whole_along(call, array, axis % array.rank)
        elif recent is None:
            spec = None
    if last == "argsort" and array.is_explicit and any(spec or ()) and is_recent(call) is not True:
        if is_recent(call) is False and call.interpreter.mesh is not None:
            check_whole(call, array)
        spec = None  # its counted numbers are whole in a mesh in context
    return place_by_module(call, base.with_shape(array.shape, spec))


# contractions


def contract_letters(call: Call, left: Layout, right: Layout, letters: tuple[str, str, str]) -> Layout:
    """A contraction: each letter is a dimension, those of the third part stay."""
    base = meet_operands(call, [left, right])
    if base.figure is not None and base.figure.kind == "term":
        base = replace(base, figure=None)
    if left.stacked is not None or right.stacked is not None:
        check_stacks(call, (left, right), letters)
    if left.drawn is not None or right.drawn is not None:
        base = replace(base, drawn=keep_draw(call, [left, right], is_product=True))
    if (
        left.shape is None
        or right.shape is None
        or len(left.shape) != len(letters[0])
        or len(right.shape) != len(letters[1])
    ):
        return base.with_shape(None)
    sizes: dict[str, Size] = {}
    for names, shape in ((letters[0], left.shape), (letters[1], right.shape)):
        for name, size in zip(names, shape, strict=True):
            if sizes.get(name) in (None, 1):
                sizes[name] = size
    shape = tuple(sizes[name] for name in letters[2])
    given = _out_sharding(call)
    if given is not None:
        return _placed_type(call, base.with_shape(shape), given)
    if not base.is_explicit:
        return base.with_shape(shape)
    specs = explicit_spec(left), explicit_spec(right)
    if specs[0] is None or specs[1] is None:
        return base.with_shape(shape)
    one, two = dict(zip(letters[0], specs[0], strict=False)), dict(zip(letters[1], specs[1], strict=False))
    for name in sizes:
        first, second = one.get(name, NO_AXES), two.get(name, NO_AXES)
        batched = name in one and name in two and name in letters[2]
        if batched and (not first or not second) and first != second and is_recent(call, LATE_CHANGE) is not True:
            # One that is whole agrees with any; the result is split as the left operand is.
            two[name] = first if is_recent(call, LATE_CHANGE) is False else None
            one[name] = two[name]
            continue
        if batched and None not in (first, second) and first != second:
            call.interpreter.record_violation(
                "contraction.conflict", call.place, left=str(left), right=str(right),
                axes="/".join(first or ()) or "none", other="/".join(second or ()) or "none",
            )  # fmt: skip
            return replace(base, mesh=None).with_shape(shape)
        if not first or not second:
            continue
        if name not in letters[2]:
            kind = "contraction.ambiguous" if first == second else "contraction.conflict"
            call.interpreter.record_violation(
                kind,
                call.place,
                left=str(left),
                right=str(right),
                axes="/".join(first),
                other="/".join(second),
            )
            return replace(base, mesh=None).with_shape(shape)
    spec: Spec = tuple(_either_axes(one.get(name, NO_AXES), two.get(name, NO_AXES)) for name in letters[2])
    used = [axis for axes in spec if axes for axis in axes]
    if len(used) != len(set(used)):
        twice = next(axis for axis in used if used.count(axis) > 1)
        call.interpreter.record_violation(
            "contraction.illegal", call.place, left=str(left), right=str(right), axes=twice
        )
        return replace(base, mesh=None).with_shape(shape)
    return base.with_shape(shape, spec)


def _either_axes(one: Axes | None, two: Axes | None) -> Axes | None:
    return None if one is None or two is None else one or two


def _out_sharding(call: Call) -> Value:
    return call.keywords.get("out_sharding") or call.keywords.get("out_shardings")


def _placed_type(call: Call, array: Layout, value: Value) -> Layout:
    """An array whose type an `out_sharding` argument decides."""
    spec = value.spec if isinstance(value, Sharding) else value
    mesh = value.mesh if isinstance(value, Sharding) else array.mesh or call.interpreter.mesh
    if isinstance(spec, PartitionSpec) and not spec.open and array.shape is not None:
        axes = spec.axes_of_entries()
        full = (*axes, *((NO_AXES,) * (len(array.shape) - len(axes))))
        return replace(array, mesh=mesh if not isinstance(mesh, Unknown) else None, spec=full)
    return replace(array, spec=None)


@register_function(*(f"{module} matmul dot" for module in _BOTH), "jax.lax dot")
def multiply_matrices(call: Call) -> Value:
    """Matrix product: the last dimension of the left meets the last but one of the right."""
    left, right = layout_as_array(call.argument_at(0, "a")), layout_as_array(call.argument_at(1, "b"))
    if left.shape is None or right.shape is None or not left.shape or not right.shape:
        return place_by_module(call, meet_operands(call, [left, right]).with_shape(None))
    one, two = len(left.shape), len(right.shape)
    if one == 1 and two == 1:
        letters = ("k", "k", "")
    elif one == 1:
        batch = "abcdefgh"[: two - 2]
        letters = ("k", f"{batch}kn", f"{batch}n")
    elif two == 1:
        batch = "abcdefgh"[: one - 1]
        letters = (f"{batch}k", "k", batch)
    elif call.name.endswith(".dot") and two > 2:
        batch, more = "abcdefgh"[: one - 1], "opqrst"[: two - 2]
        letters = (f"{batch}k", f"{more}kn", f"{batch}{more}n")
    else:
        batch = "abcdefgh"[: max(one, two) - 2]
        letters = (
            f"{batch[len(batch) - (one - 2) :]}mk",
            f"{batch[len(batch) - (two - 2) :]}kn",
            f"{batch}mn",
        )
    return place_by_module(call, contract_letters(call, left, right, letters))


@register_function(*(f"{module} einsum" for module in _BOTH))
def einsum_arrays(call: Call) -> Value:
    """Einstein summation, of one or two operands; of more only the shape is told."""
    text = call.argument_at(0, "subscripts")
    operands = [layout_as_array(one) for one in call.args[1:]]
    if not isinstance(text, str) or not operands or call.open:
        return place_by_module(call, meet_operands(call, operands or [Layout()]).with_shape(None))
    inputs, arrow, output = text.replace(" ", "").partition("->")
    letters = inputs.split(",")
    if len(letters) != len(operands) or "." in text:
        return place_by_module(call, meet_operands(call, operands).with_shape(None))
    if not arrow:
        flat = inputs.replace(",", "")
        output = "".join(sorted(one for one in set(flat) if flat.count(one) == 1))
    if len(operands) == 2:
        return place_by_module(
            call, contract_letters(call, operands[0], operands[1], (letters[0], letters[1], output))
        )
    base = meet_operands(call, operands)
    sizes: dict[str, Size] = {}
    for names, array in zip(letters, operands, strict=True):
        if array.shape is None or len(array.shape) != len(names):
            return place_by_module(call, base.with_shape(None))
        sizes.update(zip(names, array.shape, strict=True))
    shape = tuple(sizes.get(one) for one in output)
    spec = None
    own = operands[0].typed_spec
    if len(operands) == 1 and own is not None:
        spec = tuple(dict(zip(letters[0], own, strict=False)).get(one) for one in output)
    return place_by_module(call, base.with_shape(shape, spec))


# shapes


def sizes_of(value: Value) -> Shape | None:
    """A shape that is given as an argument."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, Symbol):
        return (value,)
    items = known_items(value)
    if items is None:
        return None
    return tuple(one if isinstance(one, int | Symbol) else None for one in items)


def size_of(value: Value) -> Size:
    """A size that is given as an argument; None where it is not known."""
    return value if isinstance(value, int | Symbol) and not isinstance(value, bool) else None


@register_function(*(f"{module} reshape" for module in _BOTH), "jax.lax reshape")
def reshape_array(call: Call) -> Value:
    """Another shape of the same size. Over Explicit axes the groups of dimensions decide."""
    array = layout_as_array(call.argument_at(0, "a"))
    wanted = sizes_of(call.argument_at(1, "shape")) if len(call.args) <= 2 else sizes_of(tuple(call.args[1:]))
    if call.open or (len(call.args) > 2 and isinstance(call.args[1], tuple)):
        wanted = None
    if wanted is not None and -1 in wanted:
        total, rest = count_entries(array.shape), count_entries(tuple(one for one in wanted if one != -1))
        known = divide_size(total, rest)
        wanted = tuple(known if one == -1 else one for one in wanted)
    check_reshaped(call, array, wanted)
    if wanted is not None and wanted == array.shape and None not in wanted and not array.host:
        return array  # there is nothing to do
    base = replace(meet_operands(call, [array]), summed=array.summed)
    if wanted is None:
        return place_by_module(call, base.with_shape(None))
    given = _out_sharding(call)
    if given is not None:
        return _placed_type(call, base.with_shape(wanted), given)
    if not array.is_explicit:
        return place_by_module(call, base.with_shape(wanted))
    return base.with_shape(wanted, _spec_after_reshape(call, array, wanted))


def _spec_after_reshape(call: Call, array: Layout, wanted: Shape) -> Spec | None:
    """The spec after a reshape over Explicit axes, by groups of dimensions of one size; records what jax refuses.

    A dimension that is split up keeps its axes on the first part, which they must divide. Dimensions that are joined
    keep theirs in order, where the first of them has any.
    """
    shape, spec, mesh = array.shape, array.spec, array.mesh
    if shape is None or spec is None or mesh is None or len(spec) != len(shape):
        return None
    old, new = [one for one in shape if isinstance(one, int)], [one for one in wanted if isinstance(one, int)]
    axes = [one for one in spec if one is not None]
    if len(old) != len(shape) or len(new) != len(wanted) or len(axes) != len(shape) or prod(old) != prod(new):
        return None
    found: list[Axes] = []
    left, right = 0, 0
    while right < len(new):
        if left < len(old) and old[left] == new[right]:
            found.append(axes[left])
            left, right = left + 1, right + 1
        elif new[right] == 1:
            found.append(NO_AXES)
            right += 1
        elif left < len(old) and old[left] == 1 and not axes[left]:
            left += 1
        else:
            group = _matching_group(old[left:], new[right:])
            if group is None:
                return None
            first, kept = axes[left : left + group[0]], group[1]
            joined = tuple(axis for one in first for axis in one)
            parts = mesh.size_of_axes(joined) if joined else 1
            placed = _spread_axes(mesh, joined, new[right : right + kept], is_recent(call)) if joined else []
            refused = (joined and not first[0]) or (group[0] > 1 and kept > 1 and joined)
            several = group[0] > 1 and any(first[1:])  # axes of two dimensions come together
            if refused or placed is None or (several and is_recent(call) is False):
                call.interpreter.record_violation("reshape.split", call.place, array=str(array), axes="/".join(joined))
                return None
            if not isinstance(parts, int) or (is_recent(call) is None and (several or placed[1:])):
                return None
            found += [*placed, *((NO_AXES,) * (kept - len(placed)))]
            left, right = left + group[0], right + kept
    return tuple(found)


def _spread_axes(mesh: Mesh, axes: Axes, sizes: list[int], recent: bool | None) -> list[Axes] | None:
    """The axes of the parts of a dimension that is split up: in order, each part filled before the next has any."""
    first = mesh.size_of_axes(axes)
    if isinstance(first, int) and sizes[0] % first == 0:
        return [axes]
    found: list[Axes] = []
    rest = list(axes)
    for size in sizes:
        taken: list[str] = []
        while rest and isinstance(parts := mesh.size_of_axes((*taken, rest[0])), int) and size % parts == 0:
            taken.append(rest.pop(0))
        found.append(tuple(taken))
        if not rest:
            return found if recent is not False else None
        if mesh.size_of_axes(tuple(taken)) != size:
            return None
    return None


def _matching_group(old: list[int], new: list[int]) -> tuple[int, int] | None:
    """How many dimensions of each come to the same size."""
    one, two, taken, made = old[0] if old else 1, new[0], 1, 1
    while one != two:
        if one < two:
            if taken >= len(old):
                return None
            one *= old[taken]
            taken += 1
        else:
            if made >= len(new):
                return None
            two *= new[made]
            made += 1
    return taken, made


@register_function(*(f"{module} ravel" for module in _BOTH))
def ravel_array(call: Call) -> Value:
    """One dimension of all entries."""
    array = layout_as_array(call.argument_at(0, "a"))
    shape = (count_entries(array.shape),)
    base = meet_operands(call, [array])
    return place_by_module(
        call, base.with_shape(shape, _spec_after_reshape(call, array, shape) if array.is_explicit else None)
    )


@register_function(*(f"{module} transpose permute_dims" for module in _BOTH), "jax.lax transpose")
def transpose_array(call: Call) -> Value:
    """Dimensions in another order, with their axes."""
    array = layout_as_array(call.argument_at(0, "a"))
    base = meet_operands(call, [array])
    if array.memory != "device" and not call.interpreter.traced:
        base = replace(base, memory=None)  # the compiler may bring it to a device
    order = call.argument_at(1, "axes", None)
    if len(call.args) > 2:
        order = tuple(call.args[1:])
    if array.shape is None:
        return place_by_module(call, base.with_shape(None))
    places = (
        tuple(reversed(range(len(array.shape))))
        if order is None
        else order.items
        if isinstance(order, ListValue)
        else order
    )
    if not isinstance(places, tuple | list) or not all(
        isinstance(one, int) and -len(array.shape) <= one < len(array.shape) for one in places
    ):
        return place_by_module(call, base.with_shape(None))
    spec = array.typed_spec
    kept = tuple(spec[one] for one in places) if spec is not None and len(spec) == len(array.shape) else None
    base = replace(base, stacked=array.stacked) if array.stacked is not None else base
    return place_by_module(call, base.with_shape(tuple(array.shape[one] for one in places), kept))


@register_function(*(f"{module} swapaxes moveaxis" for module in _BOTH))
def swap_dimensions(call: Call) -> Value:
    """Two dimensions change places, or one moves."""
    array = layout_as_array(call.argument_at(0, "a"))
    one, two = call.argument_at(1, "axis1"), call.argument_at(2, "axis2")
    rank = array.rank
    if rank is None or not all(isinstance(each, int) and -rank <= each < rank for each in (one, two)):
        return place_by_module(call, meet_operands(call, [array]).with_shape(None))
    order = list(range(rank))
    if call.name.endswith("swapaxes"):
        order[one], order[two] = order[two], order[one]
    else:
        order.insert(two % rank, order.pop(one % rank))
    return transpose_array(replace(call, args=(array, tuple(order)), keywords={}))


@register_function(*(f"{module} expand_dims" for module in _BOTH), "jax.lax expand_dims")
def expand_dimension(call: Call) -> Value:
    """A new dimension of size 1."""
    array, axis = layout_as_array(call.argument_at(0, "a")), call.argument_at(1, "axis")
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    base = replace(meet_operands(call, [array]), summed=array.summed, reduced=frozenset())
    if array.shape is None or not isinstance(axis, int):
        return place_by_module(call, base.with_shape(None))
    place = axis % (len(array.shape) + 1)
    spec = array.typed_spec
    kept = (*spec[:place], NO_AXES, *spec[place:]) if spec is not None else None
    return place_by_module(call, base.with_shape((*array.shape[:place], 1, *array.shape[place:]), kept))


@register_function(*(f"{module} squeeze" for module in _BOTH), "jax.lax squeeze")
def squeeze_dimensions(call: Call) -> Value:
    """Dimensions of size 1 go."""
    array = layout_as_array(call.argument_at(0, "a"))
    base = meet_operands(call, [array])
    axis = call.argument_at(1, "axis", None)
    if array.shape is None or (axis is None and None in array.shape):
        return place_by_module(call, base.with_shape(None))
    gone = (
        {place for place, size in enumerate(array.shape) if size == 1}
        if axis is None
        else set(_axes_given(call, 1, array.rank) or ())
    )
    places = [one for one in range(len(array.shape)) if one not in gone]
    spec = array.typed_spec
    return place_by_module(
        call,
        base.with_shape(
            tuple(array.shape[one] for one in places),
            tuple(spec[one] for one in places) if spec is not None else None,
        ),
    )


@register_function(*(f"{module} concatenate concat hstack vstack" for module in _BOTH), "jax.lax concatenate")
def concatenate_arrays(call: Call) -> Value:
    """Arrays one after the other along a dimension. Over Explicit axes all have one spec."""
    items = known_items(call.argument_at(0, "arrays"))
    if not items:
        return Layout()
    arrays = [layout_as_array(one) for one in items]
    base = meet_operands(call, arrays)
    axis = call.argument_at(1, "dimension" if "dimension" in call.keywords else "axis", 0)
    if call.function_name in ("hstack", "vstack") and base.rank is None:
        flat = arrays[0].rank == 1
        if call.function_name == "vstack" and flat:
            return stack_arrays(replace(call, keywords={}))
        axis = 0 if flat or call.function_name == "vstack" else 1
    shapes = [one.shape for one in arrays]
    if any(one is None for one in shapes) or not isinstance(axis, int):
        return place_by_module(call, base.with_shape(None))
    first = shapes[0]
    if first is None or not first or any(one is None or len(one) != len(first) for one in shapes):
        return place_by_module(call, base.with_shape(None))
    place = axis % len(first)
    parts = [one[place] for one in shapes if one is not None]
    total = add_sizes(parts)
    shape = (*first[:place], total, *first[place + 1 :])
    return place_by_module(call, base.with_shape(shape, _common_spec(call, arrays, base)))


def add_sizes(sizes: list[Size]) -> Size:
    """The sum of sizes; None where one is not known."""
    known = [one for one in sizes if isinstance(one, int)]
    return sum(known) if len(known) == len(sizes) else None


def _common_spec(call: Call, arrays: list[Layout], base: Layout) -> Spec | None:
    """The one spec of operands that must have the same, over Explicit axes; those on no mesh do not count."""
    if not base.is_explicit:
        return None
    specs = {explicit_spec(one) for one in arrays}
    split = {explicit_spec(one) for one in arrays if not is_whole(one)}
    if None in specs or any(None in (one or ()) for one in split):
        return None
    if len(split) > 1:
        call.interpreter.record_violation(
            "concatenate.conflict", call.place, left=str(arrays[0]), right=str(arrays[-1])
        )
        return None
    return next(iter(split or specs))


@register_function(*(f"{module} stack" for module in _BOTH))
def stack_arrays(call: Call) -> Value:
    """Arrays along a new dimension."""
    items = known_items(call.argument_at(0, "arrays"))
    if not items:
        return Layout()
    arrays = [layout_as_array(one) for one in items]
    base = meet_operands(call, arrays)
    axis = call.argument_at(1, "axis", 0)
    shape = broadcast_shapes([one.shape for one in arrays])
    if shape is None or not isinstance(axis, int):
        return place_by_module(call, base.with_shape(None))
    place = axis % (len(shape) + 1)
    spec = _common_spec(call, arrays, base)
    kept = (*spec[:place], NO_AXES, *spec[place:]) if spec is not None else None
    base = replace(base, reduced=frozenset())
    return place_by_module(call, base.with_shape((*shape[:place], len(arrays), *shape[place:]), kept))


# constructors


@register_function(*(f"{module} zeros ones empty full" for module in _BOTH), "jax.lax full empty")
def construct_array(call: Call) -> Value:
    """An array of one number, of the shape given."""
    shape = sizes_of(call.argument_at(0, "shape"))
    position = 2 if call.name.endswith("full") else 1
    dtype = dtype_of(call.argument_at(position, "dtype", None)) if call.has_argument(position, "dtype") else "float32"
    found = make_array(call, shape, dtype)
    if call.name == "jax.lax.empty":
        return replace(found, mesh=None, spec=None)  # its type names no mesh, also over Explicit axes
    rows = Figure("repeated", frozenset(), call.place)
    weak = call.name.endswith(".full") and not call.has_argument(position, "dtype")
    of_number = isinstance(call.argument_at(1, "fill_value", None), int | float)
    return replace(found, built="filled" if found.built else None, figure=rows, weak=weak and (of_number or None))


def make_array(call: Call, shape: Shape | None, dtype: str | None) -> Layout:
    """An array that is made of no other: of numpy on the host, else where the call says."""
    if call.name.startswith("numpy."):
        return host_array(shape, dtype)
    found = fresh_array(call, shape, dtype)
    device = call.keywords.get("device")
    given = _out_sharding(call) or (device if isinstance(device, Sharding) else None)
    if given is not None:
        return place_new(call, found, given)
    return found if device is None else Layout(shape, dtype)


def place_new(call: Call, array: Layout, value: Value) -> Layout:
    """A new array that is made with a sharding, or with a spec over the mesh in context."""
    if isinstance(value, Sharding) and value.mesh is not None and not isinstance(value.mesh, Unknown):
        _check_device(call, array, value)
        return replace(_placed_type(call, array, value), committed=True)
    return _placed_type(call, array, value)


def _check_device(call: Call, array: Layout, target: Sharding) -> None:
    """Record a size that the sharding of a new array does not divide."""
    from shardlint.libraries.jax_sharding import check_fits

    if isinstance(target.spec, PartitionSpec) and not target.spec.open and not call.interpreter.traced:
        on = target.mesh if isinstance(target.mesh, Mesh) else None
        check_fits(call, array, target.spec, on, call.place, "")


@register_function(*(f"{module} zeros_like ones_like full_like empty_like" for module in _BOTH), "jax.lax full_like")
def array_like(call: Call) -> Value:
    """An array of the shape of another one; over Explicit axes also of its spec, and varying as it does."""
    array = call.argument_at(0, "a")
    if not isinstance(array, Layout):
        made = make_array(call, layout_as_array(array).shape, None)
        known = isinstance(array, int | float | tuple | ListValue)
        return made if known else replace(made, mesh=None, spec=None, committed=None, varying=None)
    position = 2 if call.name.endswith("full_like") else 1
    typed = call.has_argument(position, "dtype")
    dtype = dtype_of(call.argument_at(position, "dtype")) if typed else array.dtype
    if call.name.startswith("numpy."):
        return host_array(array.shape, dtype)
    if array.mesh is not None and array.mesh.partial:
        return replace(array, dtype=dtype, mesh=None, spec=None, committed=None, sources=frozenset())
    if _is_placed_alike(call, array, typed):
        memory = "device" if array.memory == "device" else None
        alike = Layout(array.shape, dtype, array.mesh, array.spec, array.device, True, memory, False)
        return replace(alike, varying=array.varying, figure=Figure("repeated", frozenset(), call.place))
    keeps = array.is_explicit and _keeps_spec(call, array)
    if keeps is None:
        return Layout(array.shape, dtype, host=False)
    placed = keeps and not call.interpreter.traced and array.memory == "device" and is_recent(call)
    return Layout(
        array.shape, dtype, array.mesh if keeps else None, array.spec if keeps else None,
        committed=array.committed if placed else None,
        memory="device" if array.memory == "device" else None,
        host=False,
        varying=array.varying if call.interpreter.releases.get("jax", (99,)) >= _VARYING else frozenset(),
        built=call.interpreter.traced == 1 or None,
        figure=Figure("repeated", frozenset(), call.place),
    )  # fmt: skip


def _is_placed_alike(call: Call, array: Layout, typed: bool) -> bool:
    """Return whether an array made like another one outside of jit gets its placement, which it does if that is
    committed.
    """
    given = any(call.has_argument(-1, name) for name in ("shape", "device", "out_sharding"))
    weak = array.weak is not False and not typed
    return not call.interpreter.traced and bool(array.committed) and not (given or weak or array.host or call.open)


def _keeps_spec(call: Call, array: Layout) -> bool | None:
    """Return whether an array like another one over Explicit axes has its spec; None where that is not known.

    In a traced function it has since jax 0.12 for a mesh in context alone; of a weak type, nowhere else.
    """
    run, recent = call.interpreter, is_recent(call, LATE_CHANGE)
    if run.traced and recent and call.function_name != "empty_like":
        return run.mesh is not None if run.mesh_known else None
    if run.traced and recent is None:
        return None
    return not array.weak if array.weak is not None else None


@register_function(*(f"{module} arange linspace eye identity" for module in _BOTH), "jax.lax iota broadcasted_iota")
def counted_array(call: Call) -> Value:
    """Counted numbers, and unit matrices."""
    last = call.function_name
    numbers = [one for one in call.args if isinstance(one, int)]
    shape: Shape | None = (None,)
    if last == "arange" and not call.open:
        shape = (_count_of(call),)
    elif last in ("eye", "identity"):
        first = call.argument_at(0, "N")
        second = call.argument_at(1, "M", first) if last == "eye" else first
        shape = tuple(one if isinstance(one, int) else None for one in (first, second))
    elif last == "linspace":
        count = call.argument_at(2, "num", 50)
        shape = (count if isinstance(count, int) else None,)
    elif last == "iota":
        shape = sizes_of(call.argument_at(1, "size"))
    elif last == "broadcasted_iota":
        shape = sizes_of(call.argument_at(1, "shape"))
    position = {"arange": 3, "eye": 3, "iota": 0, "broadcasted_iota": 0}.get(last, -1)
    if call.has_argument(position, "dtype"):
        return make_array(call, shape, dtype_of(call.argument_at(position, "dtype")))
    whole = last == "arange" and len(numbers) == len(call.args)
    floats = last != "arange" or any(isinstance(one, float) for one in call.args)
    return make_array(call, shape, "int32" if whole else "float32" if floats else None)


def _count_of(call: Call) -> int | None:
    """How many numbers `arange` gives."""
    given = [call.argument_at(place, name, None) for place, name in enumerate(("start", "stop", "step"))]
    if given[1] is None:
        given = [0, given[0], given[2]]
    start, stop, step = (0 if given[0] is None else given[0]), given[1], (1 if given[2] is None else given[2])
    if not all(isinstance(one, int | float) for one in (start, stop, step)) or not step:
        return None
    count: int = ceil((stop - start) / step)
    return max(0, count)


@register_function("jax.device_get")
def fetch_arrays(call: Call) -> Value:
    """The arrays of a tree, copied to the host."""
    tree = call.argument_at(0, "x")
    return map_tree(copy_to_host, tree) if not isinstance(tree, Unknown) else Unknown()


def copy_to_host(leaf: Value) -> Layout:
    """An array, copied to the host."""
    array = layout_as_array(leaf)
    return replace(host_array(array.shape, array.dtype), rows=array.rows)


@register_function(*(f"{module} array asarray" for module in _BOTH), "numpy copy ascontiguousarray")
def from_data(call: Call) -> Value:
    """An array made of numbers, lists or another array."""
    given = call.argument_at(0, "object")
    array = layout_as_array(given)
    if call.name == "numpy.array" and not isinstance(given, Layout | tuple | ListValue):
        from shardlint.layouts.values import Devices

        if isinstance(given, Devices):
            return given
    dtype = dtype_of(call.argument_at(1, "dtype")) if call.has_argument(1, "dtype") else array.dtype
    if not call.name.startswith("jax.numpy."):
        return replace(host_array(array.shape, dtype), rows=array.rows)
    if isinstance(given, Layout) and not array.host:
        copied = call.function_name == "array" and array.memory != "device" and not is_recent(call)
        return replace(array, dtype=dtype, memory=None if copied else array.memory)
    if isinstance(given, tuple | ListValue) and _has_device_arrays(given):
        stacked = _stack_nested(call, given)
        return replace(stacked, dtype=device_dtype(dtype)) if call.has_argument(1, "dtype") else stacked
    if array.shape is None:
        return Layout()
    made = fresh_array(call, array.shape, device_dtype(dtype))
    if is_recent(call) or not array.host:
        return made
    return replace(made, mesh=None, spec=None, committed=made.committed and None)


def _has_device_arrays(value: Value) -> bool:
    """Return whether a nested list has an array that is not on the host."""
    if isinstance(value, tuple | ListValue):
        return any(_has_device_arrays(one) for one in (value if isinstance(value, tuple) else value.items))
    return isinstance(value, Layout) and not value.host


def _stack_nested(call: Call, value: tuple[Value, ...] | ListValue) -> Layout:
    """The array that `jnp.array` stacks from a nested list. The length is unknown for a list that may hold more."""
    items = value if isinstance(value, tuple) else tuple(value.items)
    rows = tuple(_stack_nested(call, one) if isinstance(one, tuple | ListValue) and one else one for one in items)
    stacked = layout_as_array(stack_arrays(replace(call, name="jax.numpy.stack", args=(rows,), keywords={})))
    is_open = isinstance(value, ListValue) and value.open
    return replace(stacked, shape=(None, *stacked.shape[1:])) if is_open and stacked.shape else stacked


for _dtype in """float32 float16 bfloat16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64
bool_""".split():

    @register_function(f"jax.numpy.{_dtype}", f"numpy.{_dtype}")
    def scalar_array(call: Call, dtype: str = _dtype.rstrip("_")) -> Value:
        """A number as an array of a type."""
        array = layout_as_array(call.argument_at(0, "x", 0))
        if call.name.startswith("numpy."):
            return host_array(array.shape, dtype)
        if array.literal:
            return fresh_array(call, (), dtype)
        return replace(array, dtype=dtype, literal=False)


@register_function("numpy.random.default_rng", "numpy.random.RandomState")
def random_generator(call: Call) -> Value:
    """A generator of random numbers of numpy."""
    return Library("numpy.random.Generator")


@register_function(
    "numpy.random.Generator normal uniform standard_normal random integers choice randn rand randint random_sample",
    "numpy.random normal uniform choice randn rand standard_normal random randint random_sample",
)
def draw_array(call: Call) -> Value:
    """Random numbers of numpy, of the shape given."""
    last = call.function_name
    if last in ("randn", "rand"):
        shape = sizes_of(tuple(call.args)) if not call.open else None
    else:
        position = {"standard_normal": 0, "random": 0, "random_sample": 0, "choice": 1}.get(last, 2)
        given = call.argument_at(position, "size", None)
        shape = () if given is None else sizes_of(given)
    return host_array(shape, {"integers": "int64", "randint": "int64", "choice": None}.get(last, "float64"))


@register_function("numpy.random.Generator.permutation", "numpy.random.permutation")
def permute_array(call: Call) -> Value:
    """Numbers in another order."""
    given = call.argument_at(0, "x")
    shape = (given,) if isinstance(given, int) else layout_as_array(given).shape
    return host_array(shape, None)


@register_function(*(f"{module} ndim shape size" for module in _BOTH))
def array_property(call: Call) -> Value:
    """Rank, shape and size as numbers."""
    array = layout_as_array(call.argument_at(0, "a"))
    if array.shape is None:
        return Unknown("a shape")
    last = call.function_name
    if last == "ndim":
        return len(array.shape)
    if last == "size":
        total = count_entries(array.shape)
        return Unknown("a size") if total is None else total
    return tuple(Unknown("a size") if one is None else one for one in array.shape)

"""haliax: functions of named arrays, as those of jax on their arrays, by the names of the axes.

Facts of haliax 1.4, each tried: of two arrays one has all axes of the other one, with the same sizes, and the result
has them in its order; a plain array beside one with axes is a number; contractions, draws and rearrangements by text
are placed by the mapping in context, other results lie where jax leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.layouts.layout import Layout, Size, are_surely_different
from shardlint.layouts.values import AnyTree, Call, Library, Unknown, Value, known_items
from shardlint.libraries.haliax_axes import (
    NAMED_ARRAY,
    Axis,
    NamedArray,
    axes_of,
    call_haliax,
    call_jax,
    check_sizes,
    check_unique,
    make_named,
    map_named,
    positions_of_axes,
    record_violation,
    selected_axes,
    sizes_of_axes,
    widen_axes,
)
from shardlint.libraries.haliax_mappings import auto_sharded
from shardlint.libraries.jax_numpy import BINARY, NN, REDUCTIONS, UNARY, dtype_of
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import register_function

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ALONG = "cumsum cumprod sort argsort"
_METHODS = "sum mean max min prod any all var std argmax argmin cumsum cumprod sort argsort"
_DRAWS = """uniform normal bernoulli randint poisson exponential gamma beta laplace cauchy logistic truncated_normal
gumbel rademacher"""
# What they take beside a key and a shape, by position.
_DTYPE_AT = {"normal": 2, "uniform": 2, "exponential": 2, "laplace": 2, "cauchy": 2, "gumbel": 2, "truncated_normal": 4}
_DTYPE_OF = {"bernoulli": "bool", "randint": "int32", "poisson": "int32"}


# constructors


@register_function("haliax NamedArray named")
def name_axes(call: Call) -> Value:
    """An array with axes; a name alone takes the size of its dimension."""
    given, chosen = (
        call.argument_at(0, "array" if "array" in call.keywords else "a"),
        selected_axes(call.argument_at(1, "axes")),
    )
    chosen = selected_axes(call.keywords["axis"]) if "axis" in call.keywords else chosen
    array = given
    if call.function_name == "named":
        array = call_jax(call, "jax.numpy.asarray", given)
    elif not isinstance(given, Layout):
        return make_named(call, given, axes_of(call.argument_at(1, "axes")))
    if chosen is None or call.open or array.shape is None:
        return make_named(call, array, [Axis(*one) for one in chosen] if chosen is not None else None)
    sizes = [size for _, size in chosen]
    if len(sizes) != len(array.shape) or any(map(are_surely_different, sizes, array.shape)):
        shown = ", ".join(str(Axis(*one)) for one in chosen)
        record_violation(call, "named.shape", array=str(array), axes=shown)
        return Unknown("what raises")
    pairs = zip(chosen, array.shape, strict=True)
    axes = [Axis(name, own if size is None else size) for (name, size), own in pairs]
    return make_named(call, array, axes) if check_unique(call, axes) else Unknown("what raises")


def _make_named_array(call: Call, axes: Sequence[Axis] | None, array: Layout) -> Value:
    """A new array of some axes, which must have names of their own."""
    if axes is not None and not check_unique(call, axes):
        return Unknown("what raises")
    return make_named(call, array, axes)


@register_function("haliax zeros ones full")
def construct_array(call: Call) -> Value:
    """An array of one number."""
    axes, last = axes_of(call.argument_at(0, "shape")), call.function_name
    more = (call.argument_at(1, "fill_value"),) if last == "full" else ()
    dtype = call.argument_at(2 if last == "full" else 1, "dtype", None)
    keywords = {} if dtype is None and last == "full" else {"dtype": dtype or Library("jax.numpy.float32")}
    return _make_named_array(
        call, axes, call_jax(call, f"jax.numpy.{last}", sizes_of_axes(axes), *more, **keywords)
    )


@register_function("haliax zeros_like ones_like full_like")
def array_like(call: Call) -> Value:
    """An array of one number with the axes of another one."""
    array = call.argument_at(0, "a")
    if not isinstance(array, NamedArray):
        return Unknown("an array")
    last = call.function_name
    more = (call.argument_at(1, "fill_value"),) if last == "full_like" else ()
    dtype = call.argument_at(2 if last == "full_like" else 1, "dtype", None)
    keywords = {} if dtype is None else {"dtype": dtype}
    return make_named(call, call_jax(call, f"jax.numpy.{last}", array.plain_array, *more, **keywords), array.axes)


@register_function("haliax arange linspace logspace geomspace")
def range_along_axis(call: Call) -> Value:
    """Counted numbers along an axis."""
    given, last = call.argument_at(0, "axis"), call.function_name
    axes = (Axis(given, 50),) if isinstance(given, str) and last != "arange" else axes_of(given)
    dtype, start = call.keywords.get("dtype"), call.keywords.get("start", 0)
    kind = "int32" if isinstance(start, int) and isinstance(call.keywords.get("step", 1), int) else None
    made = call_jax(call, "jax.numpy.zeros", sizes_of_axes(axes))
    kind = "float32" if last != "arange" else kind
    found = replace(made, dtype=kind if dtype is None else dtype_of(dtype), figure=None)
    return _make_named_array(call, axes, replace(found, built=None))


@register_function(f"haliax.random {_DRAWS}")
def draw_array(call: Call) -> Value:
    """Random numbers, placed by the mapping in context."""
    axes, last = axes_of(call.argument_at(1, "shape")), call.function_name
    dtype = call.argument_at(_DTYPE_AT.get(last, -1), "dtype", None)
    default = _DTYPE_OF.get(last, "float32")
    keywords = {"shape": sizes_of_axes(axes)}
    array = call_jax(call, f"jax.random.{last}", call.argument_at(0, "key"), **keywords)
    array = replace(array, dtype=default if dtype is None else dtype_of(dtype))
    return auto_sharded(call, _make_named_array(call, axes, array))


# elementwise


@register_function(
    f"haliax {UNARY} rsqrt",
    f"haliax.nn {NN} quick_gelu relu_squared",
    f"{NAMED_ARRAY} astype conj copy round",
)
def apply_unary(call: Call) -> Value:
    """An operation on each entry."""
    given, last = call.argument_at(0, "a"), call.function_name
    if not isinstance(given, NamedArray):
        return _call_plain_operation(call, last, given)
    if last == "astype":
        dtype = dtype_of(call.argument_at(1, "dtype"))
        if dtype is not None and dtype == given.plain_array.dtype and given.plain_array.weak is False:
            return given
        made = call_jax(call, "jax.numpy.positive", given.plain_array)
        return given.with_parts({"array": replace(made, dtype=dtype, weak=False)})
    home = "jax.nn" if call.name.startswith("haliax.nn") else "jax.lax" if last == "rsqrt" else "jax.numpy"
    last = {"quick_gelu": "silu", "relu_squared": "relu", "round": "rint"}.get(last, last)
    return given.with_parts({"array": call_jax(call, f"{home}.{last}", given.plain_array)})


def _call_plain_operation(call: Call, name: str, *args: Value) -> Value:
    """An operation on what is no array with axes, or may be none."""
    known = all(isinstance(one, Layout | int | float) for one in args)
    return call_jax(call, f"jax.numpy.{name}", *args) if known else Unknown("an array")


@register_function(f"haliax {BINARY.replace('where clip', '')}")
def apply_binary(call: Call) -> Value:
    """An operation on the entries of two arrays, of which one has all axes of the other one."""
    if len(call.args) != 2:
        return Unknown("an array")
    left, right = call.args
    arrays = [one for one in call.args if isinstance(one, NamedArray)]
    if not arrays or not all(isinstance(one, NamedArray | Layout | int | float | bool) for one in call.args):
        return _call_plain_operation(call, call.function_name, left, right)
    if len(arrays) < 2:
        return _combine_with_plain(call, arrays[0], left, right)
    axes = _common_axes(call, arrays)
    if axes is None:
        return Unknown("what raises") if None not in [one.axes for one in arrays] else make_named(call, Layout(), None)
    one, two = (widen_axes(call, each, axes).plain_array for each in arrays)
    return make_named(call, call_jax(call, f"jax.numpy.{call.function_name}", one, two), axes)


def _combine_with_plain(call: Call, array: NamedArray, left: Value, right: Value) -> Value:
    """An operation on an array with axes and one without."""
    other = layout_as_array(right if left is array else left)
    args = [one.plain_array if isinstance(one, NamedArray) else one for one in (left, right)]
    if array.axes == () and other.rank != 0:
        return call_jax(call, f"jax.numpy.{call.function_name}", *args) if other.rank else Unknown("an array")
    if array.axes and other.rank:
        record_violation(call, "named.plain", array=str(array), other=str(other))
        return Unknown("what raises")
    return make_named(call, call_jax(call, f"jax.numpy.{call.function_name}", *args), array.axes)


def _common_axes(call: Call, arrays: Sequence[NamedArray]) -> tuple[Axis, ...] | None:
    """The axes to which arrays are broadcast, those of one that has all; None where not known, or haliax raises."""
    found: tuple[Axis, ...] | None = None
    for array in arrays:
        if array.axes is None:
            return None
    if not check_sizes(call, arrays):
        return None
    for array in arrays:
        axes = array.axes or ()
        names = {one.name for one in found or ()}
        if found is None or (names <= set(array.axis_names) and len(axes) > len(found)):
            found = axes
        elif not set(array.axis_names) <= names:
            record_violation(call, "named.subset", left=str(arrays[0]), right=str(arrays[-1]))
            return None
    return found


@register_function("haliax where clip")
def choose_entries(call: Call) -> Value:
    """An operation on the entries of three arrays or numbers."""
    arrays = [one for one in call.args if isinstance(one, NamedArray)]
    known = all(isinstance(one, NamedArray | Layout | int | float | bool) for one in call.args)
    first = call.args[0] if call.args else None
    if not known or len(call.args) != 3 or not isinstance(first, NamedArray) or not first.axes:
        return Unknown("an array")
    axes = _common_axes(call, arrays)
    if axes is None:
        return Unknown("what raises")
    args = [widen_axes(call, one, axes).plain_array if isinstance(one, NamedArray) else one for one in call.args]
    return make_named(call, call_jax(call, f"jax.numpy.{call.function_name}", *args), axes)


# reductions, and what runs along an axis


@register_function(f"haliax {REDUCTIONS}", "haliax.nn logsumexp", *(f"{NAMED_ARRAY} {one}" for one in _METHODS.split()))
def reduce_axes(call: Call) -> Value:
    """A reduction over axes, or over all; of a tree that of each array."""
    given, axis = call.argument_at(0, "array" if "array" in call.keywords else "a"), call.argument_at(1, "axis", None)
    last = call.function_name
    if last in _ALONG.split():
        return apply_along_axis(call)
    if not isinstance(given, NamedArray):
        if isinstance(given, Unknown | AnyTree | Layout | int | float):
            return Unknown("a number")
        return map_named(lambda leaf: reduce_axes(replace(call, args=(leaf, *call.args[1:]))), given)
    if given.axes is None:
        return make_named(call, Layout(), () if axis is None else None)
    found = list(range(len(given.axes))) if axis is None else _places_of_axes(call, given, axis)
    if found is None:
        return _result_without_axes(call, axis)
    places: Value = None if axis is None else found[0] if len(found) == 1 else tuple(found)
    kept = [one for one in range(len(given.axes)) if one not in found]
    home = "jax.nn" if call.name.startswith("haliax.nn") else "jax.numpy"
    made = call_jax(call, f"{home}.{last}", given.plain_array, places)
    dtype = call.keywords.get("dtype")
    made = made if dtype is None else replace(made, dtype=dtype_of(dtype))
    return make_named(call, made, [given.axes[one] for one in kept])


def _places_of_axes(call: Call, array: NamedArray, axis: Value) -> list[int] | None:
    chosen = selected_axes(axis)
    return None if chosen is None else positions_of_axes(call, array, chosen)


def _result_without_axes(call: Call, axis: Value) -> Value:
    """Return the result of a call whose axes are not known, or that raises."""
    return make_named(call, Layout(), None) if selected_axes(axis) is None else Unknown("what raises")


@register_function(f"haliax {_ALONG} roll", "haliax.nn softmax log_softmax", f"{NAMED_ARRAY} roll")
def apply_along_axis(call: Call) -> Value:
    """An operation along an axis, which keeps the axes. But for `roll` the name of the axis counts alone."""
    given, last = call.argument_at(0, "a" if "a" in call.keywords else "array"), call.function_name
    axis = call.argument_at(2 if last == "roll" else 1, "axis", None)
    if not isinstance(given, NamedArray) or axis is None:
        return Unknown("an array")
    chosen = selected_axes(axis)
    if chosen is not None and last != "roll":
        chosen = tuple((name, None) for name, _ in chosen)
    places = positions_of_axes(call, given, chosen) if given.axes is not None and chosen is not None else None
    if places is None:
        return make_named(call, Layout(), given.axes) if chosen is None else _result_without_axes(call, axis)
    place = places[0] if len(places) == 1 else tuple(places)
    more = (call.argument_at(1, "shift"),) if last == "roll" else ()
    home = "jax.nn" if call.name.startswith("haliax.nn") else "jax.numpy"
    args = () if home == "jax.nn" else (*more, place)
    return make_named(call, call_jax(call, f"{home}.{last}", given.plain_array, *args), given.axes)


# contractions


@register_function("haliax dot", f"{NAMED_ARRAY} dot")
def contract_dot(call: Call) -> Value:
    """A contraction over axes, or over all; what is left stands in the order in which it is met."""
    args, axis = list(call.args), call.keywords.get("axis", call.keywords)
    if axis is call.keywords:
        place = 1 if call.name.startswith(NAMED_ARRAY) else 0
        axis = args.pop(place) if len(args) > place else Unknown()
    arrays = [one for one in args if isinstance(one, NamedArray)]
    known = len(arrays) == len(args) and not call.open and None not in [one.axes for one in arrays]
    chosen = () if axis is None else selected_axes(axis)
    if not known or chosen is None or not arrays:
        return make_named(call, Layout(), None)
    if not check_sizes(call, arrays):
        return Unknown("what raises")
    every = {one.name: one for array in arrays for one in array.axes or ()}
    for name, size in chosen:
        if name not in every or are_surely_different(every[name].size, size):
            kind = "named.sizes" if name in every else "named.missing"
            shown = " and ".join(map(str, arrays))
            both = {"left": shown, "right": str(Axis(name, size))} if name in every else {"array": shown}
            record_violation(call, kind, axis=name, **both)
            return Unknown("what raises")
    gone = {name for name, _ in chosen} if axis is not None else set(every)
    left = [one for name, one in every.items() if name not in gone]
    wanted = call.keywords.get("out_axes")
    if wanted is not None:
        order = order_axes(call, left, wanted)
        if order is None:
            return make_named(call, Layout(), None)
        left = order
    return _contract_axes(call, arrays, left)


def _contract_axes(call: Call, arrays: Sequence[NamedArray], axes: Sequence[Axis]) -> Value:
    """The contraction of all axes but some, placed by the mapping in context."""
    names = list(dict.fromkeys(name for one in arrays for name in one.axis_names))
    if len(names) > len(_LETTERS):
        return make_named(call, Layout(), axes)
    letters = dict(zip(names, _LETTERS, strict=False))
    inputs = ",".join("".join(letters[name] for name in one.axis_names) for one in arrays)
    text = f"{inputs}->{''.join(letters[one.name] for one in axes)}"
    array = call_jax(call, "jax.numpy.einsum", text, *(one.plain_array for one in arrays))
    return auto_sharded(call, make_named(call, array, axes))


def order_axes(call: Call, axes: Sequence[Axis], wanted: Value) -> list[Axis] | None:
    """Axes in an order that may have one `...` for those it does not name; None where not known, or haliax raises."""
    items = known_items(wanted) if not isinstance(wanted, Axis | str) else (wanted,)
    chosen = [selected_axes(one) for one in items or () if one is not ...]
    names = [one[0][0] if one else None for one in chosen]
    if items is None or None in names or items.count(...) > 1:
        return None
    here = {one.name: one for one in axes}
    missing = [name for name in names if name not in here] or ([] if ... in items else [*here.keys() - set(names)])
    if missing:
        record_violation(call, "named.missing", axis=str(missing[0]), array=f"[{', '.join(map(str, axes))}]")
        return None
    rest = [one.name for one in axes if one.name not in names]
    at = items.index(...) if ... in items else len(items)
    return [here[str(name)] for name in (*names[:at], *rest, *names[at:])]


@register_function("haliax einsum")
def contract_einsum(call: Call) -> Value:
    """A contraction as text, in the forms without ellipsis, parentheses and aliases."""
    text, args = call.argument_at(0, "equation"), call.args[1:]
    arrays = [one for one in args if isinstance(one, NamedArray) and one.axes is not None]
    simple = isinstance(text, str) and "->" in text and not any(one in text for one in ("...", "(", ":"))
    plain = set(call.keywords) <= {"precision", "preferred_element_type"} and not call.open
    if not simple or not plain or len(arrays) != len(args) or not arrays:
        return make_named(call, Layout(), None)
    left, _, right = text.partition("->")
    every = {one.name: one for array in arrays for one in array.axes or ()}
    out = right.split()
    if not check_sizes(call, arrays):
        return Unknown("what raises")
    if left.strip().startswith("{"):
        named_left = left.strip(" {}").replace(",", " ").split()
        kept = [name for name in every if name not in named_left or name in out]
        missing = [name for name in (*named_left, *out) if name not in every]
        names = [*(name for name in kept if name not in out), *out]
    elif not left.strip():
        names, missing = out, [name for name in out if name not in every]
    else:
        return _contract_by_position(call, arrays, [one.split() for one in left.split(",")], out)
    if missing:
        record_violation(call, "named.missing", axis=missing[0], array=" and ".join(map(str, arrays)))
        return Unknown("what raises")
    return _contract_axes(call, arrays, [every[name] for name in names])


def _contract_by_position(
    call: Call, arrays: Sequence[NamedArray], given: list[list[str]], out: list[str]
) -> Value:
    """A contraction whose letters stand for axes by their places."""
    bound: dict[str, Axis] = {}
    known = len(given) == len(arrays) and all(
        len(one) == len(array.axis_names) for one, array in zip(given, arrays, strict=False)
    )
    for letters, array in zip(given, arrays, strict=False) if known else ():
        for letter, axis in zip(letters, array.axes or (), strict=True):
            if bound.setdefault(letter, axis).name != axis.name:
                known = False
    if not known or not set(out) <= set(bound):
        return Unknown("what raises, or is not followed")
    return _contract_axes(call, arrays, [bound[letter] for letter in out])


@register_function("haliax.nn one_hot")
def one_hot(call: Call) -> Value:
    """A new last axis of classes."""
    given, axes = call.argument_at(0, "x"), axes_of(call.argument_at(1, "class_axis"))
    if not isinstance(given, NamedArray) or given.axes is None or axes is None or len(axes) != 1:
        return Unknown("an array")
    size: Size = axes[0].size
    array = call_jax(call, "jax.nn.one_hot", given.plain_array, Unknown() if size is None else size)
    dtype = call.argument_at(2, "dtype", None)
    return _make_named_array(
        call, (*given.axes, *axes), array if dtype is None else replace(array, dtype=dtype_of(dtype))
    )


@register_function("haliax.nn cross_entropy_loss")
def cross_entropy(call: Call) -> Value:
    """A loss of logits along an axis: its mean over axes or all of them, or one for each of the other axes."""
    logits, label = call.argument_at(0, "logits"), call.argument_at(1, "Label")
    reduction, over = call.argument_at(3, "reduction", False), call.argument_at(5, "reduction_axis", None)
    each = call_haliax(call, "sum", logits, label)
    if reduction is None or not isinstance(each, NamedArray):
        return each
    return call_haliax(call, "mean", each, over)


@register_function("haliax.tree_util tree_map", "haliax.tree map")
def tree_map(call: Call) -> Value:
    """A function applied to each leaf of a tree, of which an array with axes is one."""
    if len(call.args) != 2 or call.open or isinstance(call.args[1], Unknown | AnyTree):
        return AnyTree(Unknown())
    return map_named(lambda leaf: call.interpreter.call_value(call.args[0], (leaf,), {}, call.place), call.args[1])

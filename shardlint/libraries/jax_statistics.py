"""Statistics that each device takes of its own data in a mapped body, and what may be made of them.

Facts of jax, each tried on eight devices: `psum` of means is the mean times their number, `pmean` of quotients, roots
and spreads is not that of all data, a sum by a count of other devices is no mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import frexp

from shardlint.layouts.layout import NO_PIECES, Layout, Pieces, Statistic, Symbol
from shardlint.layouts.pieces import (
    NO_AXES,
    axes_along,
    axes_of_local_size,
    broadcast_pieces,
    is_last,
    name_axes,
    trim_pieces,
    without_dimensions,
)
from shardlint.layouts.values import Call, Unknown, Value, map_tree, tree_leaves
from shardlint.libraries.jax_numpy import BINARY, LAX, NN, REDUCTIONS, UNARY
from shardlint.libraries.jax_sharding import axis_names
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import mark_results
from shardlint.libraries.split_dimensions import (
    check_entries_paired,
    check_product_paired,
    check_repeated_dimension,
    contracted_axes,
    doubt_along,
    exchanged_pieces,
    product_pieces,
)
from shardlint.model.values import Place

Axes = frozenset[str]
_KINDS = {
    **dict.fromkeys(("mean", "nanmean"), "mean"),
    **dict.fromkeys(("sum", "nansum"), "sum"),
    **dict.fromkeys(("std", "var"), "spread"),
    **dict.fromkeys(("max", "min", "amax", "amin"), "extreme"),
    **dict.fromkeys(("norm", "global_norm"), "norm"),
}
_ORDERS = ("argmax", "argmin", "logsumexp")
_DIVISIONS = ("divide", "true_divide", "div", "floor_divide")
_PRODUCTS = ("multiply", "mul")
_SUMS = ("add", "subtract", "sub")
_LIMITS = ("maximum", "minimum", "max", "min", "clip")
_POWERS = ("power", "pow", "float_power", "integer_pow")
_KEEPING = ("negative", "neg", "positive", "copy", "stop_gradient", "convert_element_type", "optimization_barrier")
_ROOTS = ("sqrt", "rsqrt")
_CURVES = (*_ROOTS, "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "square", "reciprocal", "cbrt")
_SCATTERED = "scattered"
# Sums over devices.
_ADDED = ("total", "added", "means", "gradients")
# Of these any multiple is one too, as far as it matters.
_SCALED = ("norm", "spread", "curved", "masked", "scattered")
# What stays wrong where it is divided by anything.
_STAYING = ("own-sum", "part")


def _make_statistic(call: Call, kind: str, axes: Axes, of: str = "") -> Statistic:
    return Statistic(kind, axes, call.place, of, calls=tuple(call.interpreter.calls))


# of one array


@mark_results(*(f"{module} {REDUCTIONS}" for module in ("jax.numpy", "numpy")), "jax.nn logsumexp",
         "jax.scipy.special logsumexp", "jax.numpy.linalg norm")  # fmt: skip
def mark_reduction(call: Call, found: Value) -> Value:
    """A reduction over all dimensions, or over some."""
    array = layout_as_array(call.argument_at(0, "a"))
    if not isinstance(found, Layout) or isinstance(call.args[0] if call.args else None, Unknown):
        return found
    name = call.function_name
    places = _reduced_dimensions(call, 2 if name == "norm" else 1)
    keeps = call.argument_at(3 if name in ("norm", "logsumexp") else -1, "keepdims", False) is True
    pieces = without_dimensions(array, places, keeps) if places else NO_PIECES
    if name in _ORDERS and places:
        doubt_along(call, array, places)
    found = replace(found, pieces=pieces) if pieces else found
    mark = _reduction_statistic(call, array, places) or _statistic_after_reduction(found, name, array, places)
    return found if mark is found.statistic else replace(found, statistic=mark)


def _reduced_dimensions(call: Call, position: int) -> tuple[int, ...] | None:
    """The dimensions that an axis argument names; none for all of them, None where that is not known."""
    axis = call.argument_at(position, "axis", None)
    if axis is None:
        return ()
    found = axis if isinstance(axis, tuple) else (axis,)
    return found if all(isinstance(one, int) for one in found) else None


def _reduction_statistic(call: Call, array: Layout, places: tuple[int, ...] | None) -> Statistic | None:
    before, kind = array.statistic, _KINDS.get(call.function_name)
    if kind is None or places is None:
        return None
    if before is not None and before.kind == "scattered" and not places:
        return replace(_make_statistic(call, kind, before.axes, _SCATTERED), along=before.axes)
    axes = _axes_of_data(call, array, places)
    if before is not None and before.kind == "exponential" and kind == "sum":
        axes, kind = axes | before.axes, before.kind
    if not axes:
        return None
    if kind == "mean" and call.has_argument(-1, "where"):
        kind = "masked"
    of = call.function_name if axes & array.differs else "unseen"
    single = bool(places) and array.shape is not None and all(array.shape[place] == 1 for place in places)
    # That of one entry is another mistake, and rows of a batch may be normalized by those of the device.
    inner = () if single else [place for place in places if place or array.rank == 1]
    return replace(
        _make_statistic(call, kind, axes, of), along=axes_along(array, inner), last=is_last(array, inner)
    )


def _axes_of_data(call: Call, array: Layout, places: tuple[int, ...]) -> Axes:
    """The axes along which devices reduce data of their own: no terms of a sum over the devices."""
    found, before = axes_along(array, places), array.statistic
    if not places or (0 in places and not array.pieces and call.interpreter.manual is None):
        found = array.differs
        if array.figure is not None and array.figure.kind == "unseen":
            found = found | array.figure.axes
    if before is None or before.kind not in ("part", "sum"):
        return found
    adds = call.function_name in ("sum", "nansum") and (before.kind == "sum" or before.of == "sum")
    return found if adds else found - before.axes


def _statistic_after_reduction(
    layout: Layout, name: str, array: Layout, places: tuple[int, ...] | None
) -> Statistic | None:
    """Return the statistic that a reduction preserves. A sum over dimensions that may be sharded is a partial sum."""
    if name not in ("sum", "nansum", "prod") or layout.statistic is not None or places == ():
        return layout.statistic
    split = places is None or (not array.pieces or (len(array.pieces) > 1 and array.rank is None))
    behind = places is not None and all(place == -1 for place in places) and len(array.pieces) < 2
    return Statistic("part", layout.differs, None, "sum") if split and not behind and layout.differs else None


@mark_results(
    *(f"{module} expand_dims" for module in ("jax.numpy", "numpy")), "jax.lax expand_dims", "shardlint.index"
)
def mark_expanded(call: Call, value: Value) -> Value:
    """An array with further dimensions of size 1 is a statistic of what it was one of."""
    array = layout_as_array(call.argument_at(0, "a"))
    keys = call.args[1] if call.name == "shardlint.index" and isinstance(call.args[1], tuple) else ()
    same = call.name != "shardlint.index" or (None in keys and all(one in (None, ..., slice(None)) for one in keys))
    return replace(value, statistic=array.statistic) if isinstance(value, Layout) and same else value


@mark_results("optax global_norm", "optax.tree_utils tree_l2_norm tree_norm", "optax.tree norm")
def mark_norm_of_tree(call: Call, value: Value) -> Value:
    """The norm of all arrays of a tree."""
    marks = [
        leaf.statistic
        for _, leaf in tree_leaves(call.args)
        if isinstance(leaf, Layout) and leaf.statistic is not None
    ]
    scattered = next((one for one in marks if one.kind == "scattered"), None)
    if scattered is None or not isinstance(value, Layout):
        return value
    differs = value.differs | scattered.axes
    norm = replace(_make_statistic(call, "norm", scattered.axes, _SCATTERED), along=scattered.axes)
    return replace(value, differs=differs, statistic=norm)


# of operations entry by entry


@mark_results(
    *(f"{module} {BINARY} {UNARY}" for module in ("jax.numpy", "numpy")), f"jax.lax {LAX}", "jax.numpy where",
    f"jax.nn {NN}", "jax.scipy.special erf expit logit",
)  # fmt: skip
def mark_operation(call: Call, found: Value) -> Value:
    """Return the result of an elementwise operation, with its statistic."""
    operands = [layout_as_array(one) for one in call.args]
    if not isinstance(found, Layout) or not operands:
        return found
    pieces = broadcast_pieces(operands)
    if pieces:
        check_entries_paired(call, operands)
        found = replace(found, pieces=pieces)
    if all(one.statistic is None for one in operands):
        return found
    check_repeated_dimension(call, operands)
    mark = _operation_statistic(call, operands, found.statistic)
    return found if mark is found.statistic else replace(found, statistic=mark)


def _operation_statistic(call: Call, operands: Sequence[Layout], carried: Statistic | None) -> Statistic | None:
    """Return the statistic of the result. `carried` is the one that any operation on the operands keeps."""
    name, one = call.function_name, operands[0].statistic
    if len(operands) == 1:
        return _unary_statistic(name, one, carried) if one is not None else carried
    if name in _LIMITS:
        marked = [each for each in operands if each.statistic is not None]
        alone = len(marked) == 1 and not any(each.differs for each in operands if each is not marked[0])
        return marked[0].statistic if alone else carried
    if len(operands) != 2:
        return carried
    left, right = operands
    if name in _DIVISIONS:
        return _statistic_of_quotient(call, left, right, carried)
    if name in _PRODUCTS:
        return _statistic_of_product(call, left, right, carried)
    if name in _SUMS:
        moved = name != "add" and right.statistic is not None and right.statistic.kind == "extreme"
        if moved and one is None and right.statistic is not None and left.differs & right.statistic.axes:
            return replace(right.statistic, kind="moved")
        return _statistic_of_sum(left, right, carried)
    if name in _POWERS and one is not None and not one.is_carried:
        root = right.literal and call.args[1] in (0.5, -0.5)
        return _unary_statistic("sqrt" if root else "square", one, carried)
    return carried


def _unary_statistic(name: str, statistic: Statistic, carried: Statistic | None) -> Statistic | None:
    """Return the statistic of a function of one array."""
    if statistic.is_carried or name in _KEEPING:
        return statistic
    if name not in _CURVES:
        return carried
    if statistic.kind == "moved" and name == "exp":
        return replace(statistic, kind="exponential")
    root = statistic.is_root or name in _ROOTS
    if statistic.kind in ("mean", "masked", "curved"):
        return replace(statistic, kind="curved", is_root=root)
    if statistic.kind == "scattered":
        return statistic if name == "square" else carried
    return (
        replace(statistic, is_root=root) if statistic.kind in ("spread", "norm", "sum") and name in _ROOTS else carried
    )


def _statistic_of_sum(left: Layout, right: Layout, carried: Statistic | None) -> Statistic | None:
    """Return the statistic of a sum of two arrays."""
    one, two = left.statistic, right.statistic
    if carried is not None and carried.is_wrong:
        return carried
    if one is not None and two is not None:
        alike = one.kind == two.kind and one.kind in ("mean", "sum") and one.axes & two.axes
        return replace(one, axes=one.axes & two.axes) if alike else _counted_sum((one, two)) or carried
    found, other = (one, right) if one is not None else (two, left)
    if found is None or other.differs or _is_unseen(other):
        return _counted_sum((found,)) or carried
    return _counted_sum((found,)) or found


def _counted_sum(marks: Sequence[Statistic | None]) -> Statistic | None:
    """A sum over devices with something added to it, which may be a count."""
    found = next((one for one in marks if one is not None and one.kind in ("total", "added", "count")), None)
    return replace(found, kind="count") if found is not None else None


def _is_unseen(array: Layout) -> bool:
    return array.figure is not None and array.figure.kind == "unseen"


def _statistic_of_product(
    call: Call, left: Layout, right: Layout, carried: Statistic | None
) -> Statistic | None:
    """Return the statistic of a product of two arrays."""
    one, two = left.statistic, right.statistic
    if carried is not None and carried.is_wrong:
        place = 0 if two is not None and two.kind == carried.kind else 1
        return None if _may_divide(carried, call.args[place]) else carried
    if one is not None and two is not None:
        return one if one.kind == two.kind == "scattered" else carried
    found, other = (one, right) if one is not None else (two, left)
    if found is None or other.differs:
        return carried
    factor = call.args[1 if one is not None else 0]
    # A whole number may be that of the rows, a small one that of the devices.
    plain = isinstance(factor, float) and _is_plain_factor(factor)
    literal = other.literal and (plain if found.kind == "mean" else found.kind in ("sum", "total"))
    return found if literal or found.kind in _SCALED else carried


def _may_divide(statistic: Statistic, factor: Value) -> bool:
    """Return whether a factor may be one over the number of devices. A factor of gradients is taken for a learning
    rate.
    """
    if statistic.kind in _STAYING:
        return False
    if statistic.kind == "gradients":
        return isinstance(factor, Unknown) and factor.why.startswith("arithmetic")
    return not isinstance(factor, int | float) or not _is_plain_factor(factor)


def _is_plain_factor(factor: float) -> bool:
    """Return whether a number is surely not one over the number of devices, which is a power of two."""
    return abs(factor) >= 1 or frexp(abs(factor))[0] != 0.5


def _statistic_of_quotient(
    call: Call, left: Layout, right: Layout, carried: Statistic | None
) -> Statistic | None:
    """Return the statistic of a quotient of two arrays. Nothing is recorded, because a later operation may correct
    it.
    """
    one, two, by = left.statistic, right.statistic, call.args[1]
    if one is not None and one.kind in _ADDED:
        return _divided_sum(call, one, two, by)
    if one is not None and one.is_carried:
        return one if one.kind in _STAYING else None
    if one is not None and two is not None:
        return _quotient_of_statistics(call, one, two) or carried
    if one is not None and not right.differs:
        if axes_of_local_size(by) & one.axes and one.kind == "sum":
            return replace(one, kind="mean", place=call.place)
        keeps = (right.literal and one.kind != "mean") or one.kind in _SCALED
        return one if keeps else carried
    if two is not None and not left.differs and not two.is_carried:
        return replace(two, kind="curved") if two.kind in ("mean", "masked") else two
    return carried


def _quotient_of_statistics(call: Call, one: Statistic, two: Statistic) -> Statistic | None:
    """A quotient of two statistics: of means or sums of one device, or of its sum by that of all."""
    shared = one.axes & two.axes
    if not shared:
        return None
    if one.kind == two.kind and one.kind in ("sum", "mean"):
        return _make_statistic(call, "masked" if one.kind == "sum" else "curved", shared)
    if one.kind != "sum" or two.kind not in ("total", "added", "count"):
        return None
    return None if _text_at_place(one.place) == two.of else _make_statistic(call, "own-sum", shared)


def _text_at_place(place: object) -> str:
    """The text at a place: one sum by the same of all devices is a share."""
    return place.file.source_text(place.node) if isinstance(place, Place) else ""


def _divided_sum(call: Call, one: Statistic, two: Statistic | None, by: Value) -> Statistic | None:
    """A sum over devices that is divided by a number: of other devices, or of the data of one device."""
    run = call.interpreter
    if isinstance(by, Symbol) and by.factor == 1:
        others = {axis for axis, size in run.axes.items() if size != 1} - one.axes
        if by.name == "jax.device_count()" and run.binder == "jax.shard_map" and others:
            return _make_statistic(call, "by-all", one.axes)
        local = by.name == "jax.local_device_count()" and run.binder.startswith("jax.pmap")
        return _make_statistic(call, "by-local", one.axes) if local else None
    count = two.axes if two is not None and two.kind == "sum" else axes_of_local_size(by)
    own = count & one.axes if one.kind == "total" else NO_AXES
    return _make_statistic(call, "own-count", own, "rows" if axes_of_local_size(by) else "") if own else None


# of what devices make together


@mark_results("jax.lax psum pmean pmax pmin")
def mark_reduced(call: Call, value: Value) -> Value:
    """Return the result of a reduction over devices, with its statistic."""
    axes = axis_names(call.argument_at(1, "axis_name"))
    _note_collective(call, axes)
    groups = call.argument_at(-1, "axis_index_groups", None)
    over = frozenset(axes or ()) if groups is None else NO_AXES
    return map_tree(partial(_reduce_over_axes, call, over), call.argument_at(0, "x"), value)


def _note_collective(call: Call, axes: tuple[str, ...] | None) -> None:
    if call.interpreter.events is not None:
        call.interpreter.events.note_collective(axes, call.function_name)


def _reduce_over_axes(call: Call, over: Axes, before: Value, after: Value) -> Value:
    if not isinstance(after, Layout):
        return after
    array = layout_as_array(before)
    pieces = trim_pieces([tuple(axis for axis in axes if axis not in over) for axes in array.pieces])
    if not over:
        return replace(after, statistic=None, pieces=NO_PIECES)
    return replace(after, pieces=pieces, statistic=_device_reduction_statistic(call, over, array))


def _device_reduction_statistic(call: Call, over: Axes, array: Layout) -> Statistic | None:
    """Return the statistic of a reduction over devices."""
    found, name = array.statistic, call.function_name
    kind, axes = (found.kind, found.axes) if found is not None else ("", NO_AXES)
    if found is not None and found.is_wrong:
        added_up = kind == "own-sum" and bool(axes & over)
        beyond = kind in ("by-all", "by-local") and not over <= axes
        if not added_up and not beyond:
            return found
    if name == "pmean" and kind in ("masked", "curved", "spread") and axes & over:
        call.interpreter.record_violation(
            "mean.nonlinear", call.place, axes=name_axes(axes & over, "the pmap axis"), of=kind
        )
    if name != "psum":
        return None
    if found is not None and kind == "exponential" and axes & over:
        call.interpreter.record_violation("reducer.own-maximum", call.place)
    if found is not None and kind == "mean" and axes & over:
        gradient = array.figure is not None and array.figure.kind == "gradient"
        return _make_statistic(call, "gradients" if gradient else "means", axes & over, found.of)
    if found is not None and kind == "sum" and axes & over:
        return _make_statistic(call, "total", over, _text_at_place(found.place))
    return _make_statistic(
        call, "total" if kind == "total" else "added", over | (axes if kind in _ADDED else NO_AXES)
    )


@mark_results("jax.lax all_gather psum_scatter all_to_all ppermute pshuffle")
def mark_moved(call: Call, value: Value) -> Value:
    """Return the result of an exchange between devices. Of the result of psum_scatter each device has a piece."""
    axes = axis_names(call.argument_at(1, "axis_name"))
    _note_collective(call, axes)
    over, pieces = frozenset(axes or ()), _pieces_left_by(call, axes or ())

    def move_leaf(leaf: Value) -> Value:
        if not isinstance(leaf, Layout):
            return leaf
        if call.function_name == "psum_scatter":
            return replace(leaf, pieces=pieces, statistic=_make_statistic(call, "scattered", over))
        mark = leaf.statistic
        kept = mark is not None and mark.is_wrong and not (mark.kind == "own-sum" and mark.axes & over)
        return replace(leaf, pieces=pieces, statistic=mark if kept else None)

    return map_tree(move_leaf, value)


def _pieces_left_by(call: Call, axes: tuple[str, ...]) -> Pieces:
    """The pieces of what an exchange leaves to each device: none, unless it splits a dimension."""
    if call.function_name == "all_to_all":
        return exchanged_pieces(call, axes)
    place = call.argument_at(2, "scatter_dimension", 0)
    scatters = call.function_name == "psum_scatter" and isinstance(place, int) and place >= 0
    return (*((),) * place, axes) if scatters and axes else NO_PIECES


@mark_results("jax.lax.axis_index")
def mark_index(call: Call, value: Value) -> Value:
    """By its number a device is chosen: what is made of it is one term of a sum over the devices."""
    if axes := axis_names(call.argument_at(0, "axis_name")):
        _note_collective(call, axes)
    if not isinstance(value, Layout):
        return value
    return replace(value, statistic=Statistic("part", value.differs, call.place))


@mark_results("jax.lax cond switch")
def mark_chosen(call: Call, value: Value) -> Value:
    """The same of branches that devices take by their numbers."""
    mark = layout_as_array(call.argument_at(0, "pred")).statistic
    if mark is None or mark.kind != "part":
        return value
    return map_tree(lambda leaf: _with_mark(leaf, mark), value)


def _with_mark(leaf: Value, mark: Statistic) -> Value:
    return replace(leaf, statistic=mark) if isinstance(leaf, Layout) and leaf.statistic is None else leaf


@mark_results(
    *(f"{module} matmul dot einsum tensordot" for module in ("jax.numpy", "numpy")), "jax.lax dot dot_general"
)
def mark_product(call: Call, found: Value) -> Value:
    """A product: where both operands differ along what is summed, each device has one term of it."""
    operands = [layout_as_array(one) for one in (call.args[1:] if call.function_name == "einsum" else call.args[:2])]
    if not isinstance(found, Layout) or len(operands) != 2:
        return found
    left, right = operands
    check_product_paired(call, left, right)
    terms = contracted_axes(call, left, right)
    mark = found.statistic
    if terms and (mark is None or mark.kind == "part"):
        found = replace(found, statistic=Statistic("part", terms | (mark.axes if mark else NO_AXES), call.place, "sum"))
    pieces = product_pieces(call, left, right) if call.function_name in ("matmul", "dot", "einsum") else NO_PIECES
    return replace(found, pieces=pieces) if pieces else found

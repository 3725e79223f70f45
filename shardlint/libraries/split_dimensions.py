"""Dimensions that `in_specs` split, through the body of a shard_map, and what runs along one on each device alone.

Facts of jax, each tried on eight devices: a softmax, sort or cumulative sum along such a dimension is that of one
piece, a shift takes its border from the same piece, a norm of it is the norm of one piece. Nothing raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.layouts.layout import NO_PIECES, Layout, Pieces
from shardlint.layouts.pieces import (
    NO_AXES,
    all_axes,
    axes_along,
    indexed_pieces,
    name_axes,
    trim_pieces,
)
from shardlint.layouts.values import Call, Unknown, Value, known_items
from shardlint.libraries.meeting import layout_as_array
from shardlint.libraries.registry import mark_results
from shardlint.model.values import Place

_BOTH = ("jax.numpy", "numpy")
_DIVISIONS = frozenset(("divide", "true_divide", "div"))
_PRODUCTS = frozenset(("multiply", "mul"))
_CONVOLUTIONS = "jax.lax conv conv_general_dilated conv_with_general_padding conv_transpose"


# what is wrong unless the body communicates


def doubt_along(call: Call, array: Layout, places: Sequence[int]) -> None:
    """Note a function along dimensions of which each device has a piece."""
    axes = axes_along(array, places) if array.pieces and call.interpreter.manual is not None else NO_AXES
    if not axes:
        return
    events, name = call.interpreter.events, call.function_name
    if events is not None and name == "logsumexp":
        events.is_weighted = True
    said = {"operation": name, "axes": name_axes(axes), "combined": "", "last": ""}
    call.interpreter.note_doubt("piece.along", call.place, axes, **said)


def _doubt_shift(call: Call, axes: Sequence[str], way: str = "") -> None:
    """Note neighbors along a dimension of which each device has a piece; `way`: of a roll along the first one."""
    run = call.interpreter
    if axes and run.manual is not None:
        split = frozenset(axes)
        run.note_doubt("piece.shifted", call.place, split, axes=name_axes(split), way=way)


def check_repeated_dimension(call: Call, operands: Sequence[Layout]) -> None:
    """Record a statistic of a piece that meets the dimension again along which it was taken: as in a layer norm."""
    run, name = call.interpreter, call.function_name
    if run.manual is None:
        return
    for one in operands:
        found = one.statistic
        if found is None or not found.along or not isinstance(found.place, Place):
            continue
        if not any(other is not one and found.along <= all_axes(other.pieces) for other in operands):
            continue
        said = {"operation": found.of, "axes": name_axes(found.along)}
        scales = name in _PRODUCTS or (name in _DIVISIONS and one is operands[-1])
        if scales and (found.is_root or found.kind in ("norm", "spread")):
            run.record_violation("piece.norm", found.place, *found.calls, **said)
        else:
            said |= {"combined": "yes", "last": "yes" if found.last else ""}
            run.note_doubt("piece.along", found.place, found.along, *found.calls, **said)


# entries of different shards


def check_product_paired(call: Call, left: Layout, right: Layout) -> None:
    """Record a product whose operands are split over different axes along a dimension that pairs their entries."""
    letters = (
        _operand_letters(call, left, right) if call.function_name in ("matmul", "dot", "einsum") else None
    )
    if letters is None or len(set(letters[0])) < len(letters[0]) or len(set(letters[1])) < len(letters[1]):
        return
    others = dict(zip(letters[1], right.pieces, strict=False))
    for place, (letter, axes) in enumerate(zip(letters[0], left.pieces, strict=False)):
        _check_paired(call, axes, others.get(letter, ()), (place, letters[1].find(letter)))


def check_entries_paired(call: Call, operands: Sequence[Layout]) -> None:
    """Record an operation entry by entry on operands that are split over different axes along one dimension."""
    arrays = [one for one in operands if one.pieces and one.shape is not None]
    if len(arrays) != 2 or arrays[0].rank != arrays[1].rank:
        return
    one, two = arrays
    for place, (axes, other) in enumerate(zip(one.pieces, two.pieces, strict=False)):
        if one.shape is not None and two.shape is not None and one.shape[place] == two.shape[place] not in (1, None):
            _check_paired(call, axes, other, (place, place))


def _check_paired(call: Call, axes: Sequence[str], other: Sequence[str], places: tuple[int, int]) -> None:
    if axes and other and not set(axes) & set(other):
        call.interpreter.record_violation(
            "piece.mispaired", call.place, operation=call.function_name, left=name_axes(frozenset(axes)),
            right=name_axes(frozenset(other)), dimension=str(places[0]), other=str(places[1]),
        )  # fmt: skip


def exchanged_pieces(call: Call, axes: Sequence[str]) -> Pieces:
    """The pieces of the result of a tiled `all_to_all`: of the dimension that it splits."""
    split, joined = call.argument_at(2, "split_axis"), call.argument_at(3, "concat_axis")
    plain = call.argument_at(-1, "axis_index_groups", None) is None and call.argument_at(-1, "tiled", False) is True
    if not plain or not isinstance(split, int) or not isinstance(joined, int) or split < 0 or joined < 0:
        return NO_PIECES
    array = layout_as_array(call.argument_at(0, "x"))
    found = [*array.pieces, *((),) * (max(split, joined) + 1 - len(array.pieces))]
    found[joined] = tuple(axis for axis in found[joined] if axis not in axes)
    found[split] = (*found[split], *axes)
    return trim_pieces(found)


# functions


@mark_results(
    *(f"{module} cumsum cumprod sort argsort" for module in _BOTH), "jax.lax cumsum cumprod cummax sort"
)
def mark_along(call: Call, value: Value) -> Value:
    """Return the result of an operation along one dimension that keeps the others."""
    array, last = layout_as_array(call.argument_at(0, "a")), call.function_name
    if not array.pieces:
        return value
    default = -1 if "sort" in last else None if call.name.startswith("jax.numpy") else 0
    axis = call.argument_at(1, "dimension" if "dimension" in call.keywords else "axis", default)
    if not isinstance(axis, int):
        return value
    if last != "argsort" or axis % (array.rank or 1):  # rows are sorted among those of their device
        doubt_along(call, array, (axis,))
    return _with_pieces(value, array.pieces)


@mark_results("jax.nn softmax log_softmax standardize")
def mark_normalized(call: Call, value: Value) -> Value:
    """The same of a softmax."""
    array, axis = layout_as_array(call.argument_at(0, "x")), call.argument_at(1, "axis", -1)
    doubt_along(call, array, (axis,) if isinstance(axis, int) else ())
    return _with_pieces(value, array.pieces)


@mark_results("jax.lax.top_k")
def mark_greatest(call: Call, value: Value) -> Value:
    """The same of the greatest entries."""
    doubt_along(call, layout_as_array(call.argument_at(0, "operand")), (-1,))
    return value


@mark_results("jax.numpy roll flip diff")
def mark_moved(call: Call, value: Value) -> Value:
    """Return the result of an operation that combines neighbors. Along the first dimension any row of a batch will do,
    but not both ways.
    """
    array, last = layout_as_array(call.argument_at(0, "a")), call.function_name
    axis = call.argument_at({"roll": 2, "flip": 1, "diff": 2}[last], "axis", -1 if last == "diff" else None)
    if array.pieces and isinstance(axis, int):
        places = axis % array.rank if array.rank else axis
        steps = call.argument_at(1, "shift")
        if places > 0:
            _doubt_shift(call, sorted(axes_along(array, (axis,))))
        elif places == 0 and last == "roll" and isinstance(steps, int):
            _doubt_shift(call, array.pieces[0], "on" if steps > 0 else "back")
    return value if last == "diff" else _with_pieces(value, array.pieces)


@mark_results(_CONVOLUTIONS, "jax.numpy.convolve")
def mark_convolved(call: Call, value: Value) -> Value:
    """A convolution, which is along all dimensions but those of the batch and the channels."""
    array, order = layout_as_array(call.args[0] if call.args else Unknown()), call.keywords.get("dimension_numbers")
    if call.function_name == "convolve":
        _doubt_shift(call, array.pieces[0] if array.pieces else ())
        return value
    letters = (known_items(order) or ("",))[0]
    for place, axes in enumerate(array.pieces):
        spatial = letters[place : place + 1] not in ("N", "C") if isinstance(letters, str) and letters else place > 1
        if spatial and (order is None or letters):
            _doubt_shift(call, axes)
    return value


@mark_results("shardlint.index")
def mark_index(call: Call, value: Value) -> Value:
    """A part of an array: `x[:, 1:]` leaves out one entry of each piece."""
    array = layout_as_array(call.args[0])
    keys = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    if not isinstance(value, Layout):
        return value
    if array.pieces:
        for place, key in enumerate(keys[: len(array.pieces)]):
            if not isinstance(key, slice):
                break
            if place and _leaves_border_out(key):
                _doubt_shift(call, array.pieces[place])
        return replace(value, pieces=indexed_pieces(array, keys))
    chosen = keys[0] if len(keys) == 1 else None
    return replace(value, pieces=chosen.pieces) if isinstance(chosen, Layout) and chosen.pieces else value


def _leaves_border_out(part: slice) -> bool:
    """Return whether a slice leaves out entries at one end, or reverses a dimension: `1:`, `:-1`, `::-1`."""
    match (part.start, part.stop, part.step):
        case (int() as first, None, None):
            return first > 0
        case (None, int() as last, None):
            return last < 0
        case (None, None, -1):
            return True
    return False


@mark_results(
    *(f"{module} transpose permute_dims swapaxes moveaxis" for module in _BOTH), "jax.lax transpose"
)
def mark_transposed(call: Call, value: Value) -> Value:
    """Dimensions in another order, with their pieces."""
    array = layout_as_array(call.argument_at(0, "a"))
    if not array.pieces or not array.rank or not isinstance(value, Layout):
        return value
    rank, order = array.rank, list(range(array.rank))
    if call.function_name in ("swapaxes", "moveaxis"):
        one, two = call.argument_at(1, "axis1"), call.argument_at(2, "axis2")
        if not isinstance(one, int) or not isinstance(two, int):
            return value
        order.insert(two % rank, order.pop(one % rank))
        if call.function_name == "swapaxes":
            order = list(range(rank))
            order[one], order[two] = order[two], order[one]
    else:
        given = tuple(call.args[1:]) if len(call.args) > 2 else call.argument_at(1, "axes", None)
        places = known_items(given) if given is not None else tuple(reversed(order))
        if places is None or len(places) != rank or not all(isinstance(one, int) for one in places):
            return value
        order = [one % rank for one in places]
    full = (*array.pieces, *((),) * rank)
    return replace(value, pieces=trim_pieces([full[place] for place in order]))


def _with_pieces(value: Value, pieces: Pieces) -> Value:
    return replace(value, pieces=pieces) if isinstance(value, Layout) and pieces else value


# products


def _operand_letters(call: Call, left: Layout, right: Layout) -> tuple[str, str, str] | None:
    """A letter for each dimension of two operands and of their product; None where a rank is not known."""
    if call.function_name == "einsum":
        text = call.argument_at(0, "subscripts")
        inputs, arrow, output = text.replace(" ", "").partition("->") if isinstance(text, str) else ("", "", "")
        letters = inputs.split(",")
        return (letters[0], letters[1], output) if arrow and len(letters) == 2 and "." not in text else None
    if not left.rank or not right.rank or left.rank < 2 or right.rank != 2:
        return None
    batch = "abcdefgh"[: left.rank - 1]
    return f"{batch}k", "kn", f"{batch}n"


def contracted_axes(call: Call, left: Layout, right: Layout) -> frozenset[str]:
    """The axes over which a product may be one term of a sum: both operands differ, along what is summed."""
    both = left.differs & right.differs
    letters = _operand_letters(call, left, right)
    if letters is None or not both:
        return both
    kept = frozenset(
        axis
        for names, array in zip(letters, (left, right), strict=False)
        for letter, axes in zip(names, array.pieces, strict=False)
        if letter in letters[2]
        for axis in axes
    )
    return both - kept


def product_pieces(call: Call, left: Layout, right: Layout) -> Pieces:
    """The pieces of a product."""
    letters = _operand_letters(call, left, right)
    if letters is None:
        shared = all_axes(left.pieces) & right.differs
        if shared or left.rank == 1 or call.function_name == "einsum":
            return NO_PIECES
        return trim_pieces(left.pieces[: left.rank - 1] if left.rank else left.pieces)
    split: dict[str, tuple[str, ...]] = {}
    for names, array in zip(letters, (left, right), strict=False):
        split.update((letter, axes) for letter, axes in zip(names, array.pieces, strict=False) if axes)
    return trim_pieces([split.get(letter, ()) for letter in letters[2]])

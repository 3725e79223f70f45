"""Of each value in a manual region: the axes that split each of its dimensions, and of what parts it was added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .flat_operations import LOOP, FlatOperation, FlatRegion
from .values import GATHER, MOVE, NONE, REDUCE, SCATTER, Names, axes_of

Dims = tuple[Names, ...]
_REDUCERS = frozenset(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"))
_LAST = frozenset(("argmax", "argmin"))


@dataclass(frozen=True)
class Part:
    """Shards of a value: for each dimension, the axes along which each device holds another part."""

    dims: Dims = ()
    product: Names = NONE
    """Axes whose parts a product of matrices went over: a term of a sum that is still to be made."""
    total: Names = NONE
    """Axes whose parts were added up on each device alone."""
    maker: int | None = None
    """The value in which `total` was first seen."""
    local: Names = NONE
    """Axes over whose parts it counts: a place in a device's own part."""
    counted: tuple[int, ...] = ()
    """Its dimensions along which it counts from 0."""
    waved: bool = False
    """Whether what counts went through a sine, a cosine or a table of positions."""
    loose: bool = False
    """Whether it comes from what moves pieces around, or from this device's number: not judged."""

    @property
    def splitting_axes(self) -> Names:
        """All axes that split it."""
        return NONE.union(*self.dims) if self.dims else NONE


def join_parts(parts: Sequence[tuple[Part, tuple[int, ...]]], shape: tuple[int, ...]) -> Part:
    """Return the result of an elementwise operation on several values. A smaller one is broadcast to all rows."""
    dims = [NONE] * len(shape)
    product = total = local = NONE
    maker, counted, waved, loose = None, set(), False, False
    for part, each in parts:
        if len(each) == len(shape):
            # One of size 1 counts for all: jax does not write it out.
            fits = [at for at in range(len(shape)) if each[at] == shape[at]]
            for at in fits if len(part.dims) == len(shape) else ():
                dims[at] |= part.dims[at]
            counted |= set(part.counted) & set(fits)
        product |= part.product
        total |= part.total
        local |= part.local
        maker = part.maker if maker is None else maker
        waved, loose = waved or part.waved, loose or part.loose
    return Part(tuple(dims), product, total, maker, local, tuple(sorted(counted)), waved, loose)


def parts_after_operation(
    op: FlatOperation, flat: FlatRegion, known: dict[int, Part], sizes: dict[str, int]
) -> list[Part]:
    """Return the parts of the results of an operation."""
    takes = [known.get(one, Part()) if one is not None else Part() for one in op.takes]
    shapes = [flat.shape_of_value(one) for one in op.takes]
    outs = [flat.shape_of_value(one) for one in op.gives]
    name = op.name
    manual = frozenset(sizes)
    if name == "axis_index":
        return [Part(loose=True)]
    if name == "iota":
        return [Part((NONE,) * len(outs[0]), counted=(op.params["dimension"],))]
    if name in REDUCE or name in SCATTER or name in GATHER or name in MOVE:
        axes = frozenset(axes_of(op.eqn)) & manual
        if name in REDUCE and axes == manual:  # whatever it was, it is the same on all devices now
            return [Part((NONE,) * len(out), maker=one.maker) for one, out in zip(takes, outs, strict=False)]
        return [_move_dimensions(op, name, one, axes, len(out)) for one, out in zip(takes, outs, strict=False)]
    if name == LOOP:
        return [_hand_on_part(op, takes, shapes, outs[0])]
    if not takes or not outs:  # what is only done gives nothing: a callback
        return [Part((NONE,) * len(out)) for out in outs]
    first, shape = takes[0], shapes[0]
    if name in _REDUCERS or name in _LAST:
        gone = [dim for dim in op.params["axes"] if dim < len(first.dims)]
        axes = NONE.union(*(first.dims[dim] for dim in gone))
        dims = tuple(axis for dim, axis in enumerate(first.dims) if dim not in gone)
        given = replace(first, dims=dims, counted=(), waved=False)
        if name == "reduce_sum" and axes:
            given = replace(given, total=first.total | axes, maker=op.gives[0])
        if name in _LAST:
            given = Part(dims, local=axes, loose=first.loose)
        return [given]
    if name == "dot_general":
        return [_part_of_product(op, takes)]
    if (placed := _rearranged_dimensions(op, name, first, shape, outs[0], shapes, takes)) is not None:
        counted = _counted_dimensions(op, name, first, shape, outs[0])
        loose, local = any(one.loose for one in takes), NONE.union(*(one.local for one in takes))
        waved = first.waved
        if name == "gather" and takes[1].counted and not takes[1].splitting_axes and len(outs[0]) == len(shape):
            counted, waved = takes[1].counted[:1], True
        one = replace(first, dims=placed, counted=counted, loose=loose, local=local, waved=waved)
        if name == "top_k":
            last = first.dims[-1] if first.dims else NONE
            return [one, Part(placed, local=last, loose=loose)]
        return [one] * len(outs)
    result = [join_parts(list(zip(takes, shapes, strict=True)), out) for out in outs]
    if name in ("sin", "cos"):
        result = [replace(one, waved=bool(one.counted)) for one in result]
    return result


def _move_dimensions(op: FlatOperation, name: str, part: Part, axes: Names, rank: int) -> Part:
    dims = list(part.dims)
    at = op.params.get("all_gather_dimension", op.params.get("scatter_dimension", 0))
    if name in MOVE:
        if name == "all_to_all" and len(dims) == rank:
            split, put = op.params["split_axis"], op.params["concat_axis"]
            dims[put] -= axes
            dims[split] |= axes
        return Part(tuple(dims), loose=True)
    if name in SCATTER:
        dims = [dim - axes for dim in dims]
        if at < len(dims):
            dims[at] |= axes
    else:
        dims = [dim - axes for dim in dims]
        if name in GATHER and len(dims) < rank:
            dims.insert(at, NONE)
    local = part.local if name in GATHER else part.local - axes
    return Part(tuple(dims), part.product - axes, part.total - axes, part.maker, local, (), False, part.loose)


def _hand_on_part(
    op: FlatOperation, takes: Sequence[Part], shapes: Sequence[tuple[int, ...]], out: tuple[int, ...]
) -> Part:
    if op.dropped:
        return replace(
            takes[0], dims=takes[0].dims[1:], counted=tuple(at - 1 for at in takes[0].counted if at)
        )
    if op.added:
        return replace(
            takes[0], dims=(NONE, *takes[0].dims), counted=tuple(at + 1 for at in takes[0].counted)
        )
    return join_parts(list(zip(takes, shapes, strict=True)), out)


def _part_of_product(op: FlatOperation, takes: Sequence[Part]) -> Part:
    (left, right), (left_batch, right_batch) = op.params["dimension_numbers"]
    one, two = takes
    a = [one.dims[dim] if dim < len(one.dims) else NONE for dim in range(len(op.eqn.invars[0].aval.shape))]
    b = [two.dims[dim] if dim < len(two.dims) else NONE for dim in range(len(op.eqn.invars[1].aval.shape))]
    batch = [a[i] | b[j] for i, j in zip(left_batch, right_batch, strict=True)]
    rows = [axes for dim, axes in enumerate(a) if dim not in (*left, *left_batch)]
    columns = [axes for dim, axes in enumerate(b) if dim not in (*right, *right_batch)]
    over = NONE.union(*(a[i] & b[j] for i, j in zip(left, right, strict=True)))
    if "transpose" in str(op.eqn.source_info.name_stack):
        over = NONE  # a gradient: to scale or clip that of each device is a plan of its own
    loose = one.loose or two.loose
    return Part((*batch, *rows, *columns), one.product | two.product | over, loose=loose)


def _rearranged_dimensions(
    op: FlatOperation, name: str, first: Part, shape: tuple[int, ...], out: tuple[int, ...], shapes: Any, takes: Any
) -> Dims | None:
    """The dimensions of what is only laid out in another way; None of what is made element by element."""
    dims, params = first.dims or (NONE,) * len(shape), op.params
    if len(dims) != len(shape):
        dims = (NONE,) * len(shape)
    if op.takes[0] is None and name in ("transpose", "squeeze", "broadcast_in_dim", "reshape", "slice", "rev"):
        return (NONE,) * len(out)  # a constant: its shape is not kept
    if name == "transpose":
        return tuple(dims[at] for at in params["permutation"])
    if name == "squeeze":
        return tuple(axes for at, axes in enumerate(dims) if at not in params["dimensions"])
    if name == "broadcast_in_dim":
        found = [NONE] * len(out)
        for at, to in enumerate(params["broadcast_dimensions"]):
            found[to] = dims[at] if shape[at] == out[to] else NONE
        return tuple(found)
    if name == "reshape":
        return _reshaped_dimensions(dims, shape, out)
    if name in ("slice", "dynamic_slice", "split", "pad", "rev", "sort", "top_k", "dynamic_update_slice"):
        return tuple(axes if len(out) > at and out[at] > 1 else NONE for at, axes in enumerate(dims))
    if name == "concatenate":
        kept = [one.dims for one, each in zip(takes, shapes, strict=True) if len(one.dims) == len(out)]
        return tuple(NONE.union(*(each[at] for each in kept)) for at in range(len(out)))
    if name == "gather":
        return _gathered_dimensions(params, dims, shape, out, takes[1])
    if name.startswith("cum"):
        return dims
    if name in ("scatter", "scatter-add", "scatter_add"):
        return dims
    if (
        name.startswith(("conv", "reduce_window", "scatter", "fft", "random"))
        and name != "convert_element_type"
    ):
        return (NONE,) * len(out)
    return None


def _gathered_dimensions(params: Any, dims: Dims, shape: tuple[int, ...], out: tuple[int, ...], indices: Part) -> Dims:
    numbers = params["dimension_numbers"]
    gone = {*numbers.collapsed_slice_dims, *getattr(numbers, "operand_batching_dims", ())}
    kept = iter([at for at in range(len(shape)) if at not in gone])
    rows = iter([*indices.dims[:-1], *([NONE] * len(out))])
    found = []
    for at in range(len(out)):
        if at in numbers.offset_dims:
            dim = next(kept)
            found.append(dims[dim] if params["slice_sizes"][dim] == shape[dim] else NONE)
        else:
            found.append(next(rows))
    return tuple(found)


def _counted_dimensions(
    op: FlatOperation, name: str, first: Part, shape: tuple[int, ...], out: tuple[int, ...]
) -> tuple[int, ...]:
    """Along which dimensions it still counts from 0."""
    if not first.counted:
        return ()
    if name == "broadcast_in_dim":
        to = op.params["broadcast_dimensions"]
        return tuple(to[at] for at in first.counted if shape[at] == out[to[at]])
    if name == "transpose":
        return tuple(op.params["permutation"].index(at) for at in first.counted)
    if name in ("reshape", "squeeze"):
        marks = tuple(frozenset(("",)) if at in first.counted else NONE for at in range(len(shape)))
        return tuple(
            at for at, mark in enumerate(_reshaped_dimensions(marks, shape, out)) if mark and out[at] == max(shape)
        )
    return first.counted if shape == out or name == "concatenate" else ()


def _reshaped_dimensions(dims: Dims, shape: tuple[int, ...], out: tuple[int, ...]) -> Dims:
    """A split dimension that is cut apart is split in its first part, and where several become one that one is."""
    found = [NONE] * len(out)
    i = j = 0
    while i < len(shape) and j < len(out):
        ends, other = i + 1, j + 1
        while math.prod(shape[i:ends]) != math.prod(out[j:other]):
            if math.prod(shape[i:ends]) < math.prod(out[j:other]) and ends < len(shape):
                ends += 1
            elif other < len(out):
                other += 1
            else:
                return (NONE,) * len(out)
        if shape[i] == 1 and out[j] != 1 and ends == i + 1:
            i += 1
            continue
        axes = NONE.union(*dims[i:ends])
        # What has one part on each device is split in a dimension of its own, which nobody sums over here.
        found[j] = axes if out[j] > 1 or math.prod(shape[i:ends]) == 1 else NONE
        i, j = ends, other
    return tuple(found)

"""Shapes of what devices gather, and contracts of stacks: without `tiled=True` there is a dimension for the devices.

Facts of jax, each tried: the new dimension stands at `axis`; a product that contracts sizes which differ raises
TypeError, an einsum with another number of letters than dimensions ValueError. A reshape moves no dimension.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlint.layouts.layout import Layout, Shape, Size, count_entries, divide_size, multiply_size
from shardlint.layouts.values import Call
from shardlint.model.values import Place


def gathered_shape(call: Call, array: Layout, axes: tuple[str, ...]) -> tuple[Shape | None, Place | None]:
    """The shape of a gathered array, and where it was gathered if that stacks the shards; None where not known."""
    axis, tiled = call.keywords.get("axis", 0), call.keywords.get("tiled", False)
    rank = array.rank
    grouped = call.keywords.get("axis_index_groups") is not None
    if rank is None or grouped or call.open or not isinstance(axis, int) or not isinstance(tiled, bool):
        return None, None
    if rank == 0 and tiled:
        return None, None
    place = axis % (rank + (not tiled))
    shape, count = array.shape or (), _count_devices(call, axes)
    if not tiled:
        return (*shape[:place], count, *shape[place:]), call.place
    return (*shape[:place], multiply_size(shape[place], count), *shape[place + 1 :]), None


def scattered_shape(call: Call, array: Layout, axes: tuple[str, ...]) -> Shape | None:
    """The shape of what `psum_scatter` or `all_to_all` leaves to each device; None where it is not known."""
    count, shape, rank = _count_devices(call, axes), array.shape, array.rank
    tiled = call.argument_at(4, "tiled", False)
    scatters = call.function_name == "psum_scatter"
    cut = call.argument_at(2, "scatter_dimension" if scatters else "split_axis", 0 if scatters else None)
    joined = cut if scatters else call.argument_at(3, "concat_axis", None)
    grouped = call.keywords.get("axis_index_groups") is not None
    if shape is None or not rank or grouped or call.open or not isinstance(tiled, bool):
        return None
    if not isinstance(cut, int) or not isinstance(joined, int) or not -rank <= cut < rank or not -rank <= joined < rank:
        return None
    sizes = list(shape)
    if not tiled:
        sizes.pop(cut % rank)
        if not scatters:
            sizes.insert(joined % rank, count)
        return tuple(sizes)
    sizes[cut % rank] = divide_size(sizes[cut % rank], count)
    if not scatters:
        sizes[joined % rank] = multiply_size(sizes[joined % rank], count)
    return tuple(sizes)


def _count_devices(call: Call, axes: tuple[str, ...]) -> Size:
    return count_entries(tuple(call.interpreter.axes.get(axis) for axis in axes))


def check_stacks(call: Call, arrays: Sequence[Layout], letters: Sequence[str]) -> None:
    """Record a product of a stack of shards whose letters are not those of its dimensions, or contract other sizes."""
    stack = next((one for one in arrays if isinstance(one.stacked, Place)), None)
    if stack is None or not isinstance(stack.stacked, Place):
        return
    sizes: dict[str, int] = {}
    for array, names in zip(arrays, letters, strict=False):
        if array.shape is None:
            return
        if len(array.shape) != len(names):
            _report_gather(
                call,
                stack.stacked,
                f"`{names}` names {len(names)} dimensions, and the stack has {stack.rank}",
            )
            return
        for name, size in zip(names, array.shape, strict=True):
            known = sizes.setdefault(name, size) if isinstance(size, int) else None
            if known is not None and known != size and 1 not in (known, size):
                _report_gather(
                    call,
                    stack.stacked,
                    f"sizes {known} and {size} meet, and the stack is {_shape_text(stack)}",
                )
                return


def check_reshaped(call: Call, stack: Layout, wanted: Shape | None) -> None:
    """Record a stack that is reshaped to the first dimension of a shard: the devices stay in front of the numbers."""
    shape, gather = stack.shape or (), stack.stacked.node if isinstance(stack.stacked, Place) else None
    if not isinstance(gather, ast.Call) or wanted is None or len(wanted) < 2 or len(shape) < 3:
        return
    in_front = all(one.arg != "axis" or _is_zero(one.value) for one in gather.keywords)
    if in_front and isinstance(wanted[0], int) and wanted[0] == shape[1] and wanted[0] != shape[0]:
        call.interpreter.record_violation("stack.reshaped", call.place)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _shape_text(stack: Layout) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in stack.shape or ())}]"


def _report_gather(call: Call, gathered: Place, reason: str) -> None:
    """Record it where the mapped function gathers, and at the product if a helper in another file gathers."""
    body = call.interpreter.body
    place = gathered if body is None or gathered.file is body.file else call.place
    call.interpreter.record_violation("stack.product", place, reason=reason, line=str(call.place.line))

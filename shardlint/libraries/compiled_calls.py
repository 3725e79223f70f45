"""Calls of jitted functions: what donation requires of arguments and results, and arrays that a jit made whole.

Facts of jax, each tried: XLA refuses a buffer that is donated twice; a donated buffer is reused for a result of its
shape and type alone; what a jit makes of nothing lies whole on one device, if no argument is on a mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardlint.layouts.layout import Layout, count_entries, surely_differ
from shardlint.layouts.values import (
    Call,
    DictValue,
    FunctionValue,
    Instance,
    ListValue,
    Value,
    children,
    leaves,
    path_step,
)
from shardlint.model.values import Place


def numbers_of(value: Value) -> tuple[int, ...]:
    """The numbers of an argument that gives one or several."""
    return tuple(one for one in listed(value) if isinstance(one, int) and one >= 0)


def listed(value: Value) -> tuple[Value, ...]:
    """The items of a tuple or list, or the value itself."""
    return tuple(value.items) if isinstance(value, ListValue) else value if isinstance(value, tuple) else (value,)


def check_shared(call: Call, donated: tuple[int, ...], found: Value) -> None:
    """Record a tree of arrays that stands twice in donated arguments, whose memory a result takes."""
    results = {(leaf.shape, leaf.dtype) for _, leaf in leaves(found) if isinstance(leaf, Layout)}
    met: dict[int, str] = {}
    for number in donated:
        for path, tree in _shared(call.args[number], "") if number < len(call.args) else ():
            first = met.setdefault(id(tree), path)
            taken = any(
                isinstance(leaf, Layout) and None not in (leaf.shape, leaf.dtype, *(leaf.shape or ()))
                and (leaf.shape, leaf.dtype) in results
                for _, leaf in leaves(tree)
            )  # fmt: skip
            if first is not path and taken:
                call.interpreter.violate("donation.twice", call.place, first=first.lstrip("."), second=path.lstrip("."))
                return


def check_built(call: Call, arrays: Sequence[Layout]) -> None:
    """Record an array that a jit made whole on one device, next to arrays that are split and no larger."""
    split = [one for one in arrays if one.mesh is not None and any(one.spec or ())]
    counts = [count_entries(one.shape) for one in split]
    for one in arrays:
        count = count_entries(one.shape)
        if not isinstance(one.built, Place) or not isinstance(count, int) or not split or one.mesh is not None:
            continue
        if all(isinstance(other, int) and other <= count for other in counts):
            axes = sorted({axis for other in split for found in other.spec or () for axis in found or ()})
            call.interpreter.violate("made.whole", one.built, array=str(one), axes="/".join(axes))


def check_reused(
    call: Call, given: Value, donated: tuple[int, ...], found: Value, where: Place
) -> None:
    """Record a donated argument whose memory no result can take, next to one that fits a result and is not donated."""
    results = [leaf for _, leaf in leaves(found)]
    if not isinstance(given, FunctionValue) or not all(isinstance(one, Layout) and one.shape for one in results):
        return
    names = [one.arg for one in (*given.node.args.posonlyargs, *given.node.args.args)]
    fits: dict[int, bool | None] = {}
    for place, argument in enumerate(call.args[: len(names)]):
        arrays = [leaf for _, leaf in leaves(argument)]
        known = arrays and all(isinstance(one, Layout) and one.shape for one in arrays)
        pairs = [_may_reuse(one, other) for one in arrays for other in results] if known else [None]
        fits[place] = False if set(pairs) == {False} else True if set(pairs) <= {True, False} else None
    meant = [names[place] for place, fit in fits.items() if fit and place not in donated]
    wrong = [names[place] for place, fit in fits.items() if fit is False and place in donated]
    if meant and wrong and not any(fits.get(place) for place in donated):
        call.interpreter.violate("donation.unused", where, donated=wrong[0], meant=meant[0])


def _may_reuse(one: Value, other: Value) -> bool | None:
    """Whether an array fits into the memory of another; None where that is not known."""
    assert isinstance(one, Layout) and isinstance(other, Layout) and one.shape and other.shape
    if len(one.shape) != len(other.shape) or any(map(surely_differ, one.shape, other.shape)):
        return False
    if one.dtype is not None and other.dtype is not None and one.dtype != other.dtype:
        return False
    return True if one.dtype == other.dtype is not None and one.shape == other.shape and None not in one.shape else None


def _shared(tree: Value, path: str) -> Iterator[tuple[str, Value]]:
    """The objects in a tree that may be in it twice, with their paths."""
    if isinstance(tree, DictValue | ListValue | Instance) and path:
        yield path, tree
    for key, part in children(tree) or ():
        yield from _shared(part, path + path_step(tree, key))

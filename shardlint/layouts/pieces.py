"""Dimensions that specs of shard_map and pmap split: which parts of arrays, and which sizes, are those of one device.

The pieces of an array are the manual axes that surely split each of its dimensions, counted from the first one. What
is behind them is whole, or not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from shardlint.layouts.layout import NO_PIECES, Layout, Pieces, Size
from shardlint.layouts.values import Unknown, Value
from shardlint.source.lazy import dataclass

NO_AXES = frozenset[str]()


class OwnSize(int):
    """The size of a dimension on one device, with the axes that split the dimension."""

    axes: frozenset[str]

    def __new__(cls, size: int, axes: frozenset[str] = NO_AXES) -> OwnSize:
        """A number with axes; arithmetic gives plain numbers."""
        made = super().__new__(cls, size)
        made.axes = axes
        return made


@dataclass(frozen=True)
class UnknownOwnSize(Unknown):
    """The same of a size that is not known."""

    axes: frozenset[str] = NO_AXES


class OwnShape(tuple[Value, ...]):
    """The shape of an array of known rank, and the manual axes along which the array differs."""

    axes: frozenset[str] = NO_AXES


@dataclass(frozen=True)
class UnknownShape(Unknown):
    """The same of an array of unknown rank, the first dimensions of which may be split."""

    pieces: Pieces = field(default=NO_PIECES)
    axes: frozenset[str] = NO_AXES

    def size_at(self, place: int) -> Value:
        """The size of a dimension, counted from the first one."""
        axes = self.pieces[place] if 0 <= place < len(self.pieces) else ()
        return UnknownOwnSize("a size", frozenset(axes)) if axes else Unknown("a size")


def axes_of_local_size(value: Value) -> frozenset[str]:
    """The axes that split the dimension of which a number is the size on one device."""
    return value.axes if isinstance(value, OwnSize | UnknownOwnSize) else NO_AXES


def local_size_with_axes(size: Size, axes: Sequence[str]) -> Value:
    """The size of a dimension of an array, as a number that knows its axes."""
    if not axes:
        return Unknown("a size") if size is None else size
    return OwnSize(size, frozenset(axes)) if isinstance(size, int) else UnknownOwnSize("a size", frozenset(axes))


def shape_of(array: Layout) -> Value:
    """The shape of an array as a value."""
    if array.shape is None:
        known = array.pieces or array.differs
        return UnknownShape("a shape", array.pieces, array.differs) if known else Unknown("a shape")
    more = (*array.pieces, *((),) * len(array.shape))
    sizes = OwnShape(local_size_with_axes(size, axes) for size, axes in zip(array.shape, more, strict=False))
    if not array.differs:
        return tuple(sizes)
    sizes.axes = array.differs
    return sizes


def name_axes(axes: frozenset[str], unnamed: str = "the axis") -> str:
    """Axes in words; `unnamed` stands for that of a pmap without a name."""
    return ", ".join(sorted(one or unnamed for one in axes))


def trim_pieces(pieces: Sequence[tuple[str, ...]]) -> Pieces:
    """Pieces without the whole dimensions at their end."""
    found = list(pieces)
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def all_axes(pieces: Pieces) -> frozenset[str]:
    """The axes that split any dimension."""
    return frozenset(axis for axes in pieces for axis in axes)


def axes_along(array: Layout, places: Sequence[int]) -> frozenset[str]:
    """The axes that split some dimensions; none where a rank that is not known hides which they are."""
    found: set[str] = set()
    for place in places:
        at = place if place >= 0 else place + array.rank if array.rank is not None else -1
        if 0 <= at < len(array.pieces):
            found.update(array.pieces[at])
    return frozenset(found)


def is_last(array: Layout, places: Sequence[int]) -> bool:
    """Return whether one of some dimensions is surely the last one."""
    return any(place == -1 or (array.rank is not None and place == array.rank - 1) for place in places)


def broadcast_pieces(arrays: Sequence[Layout]) -> Pieces:
    """The pieces of what is computed entry by entry. An array of unknown rank has as many dimensions as the others."""
    found = {one.pieces for one in arrays if one.pieces}
    ranks = [one.rank for one in arrays if one.pieces]
    if not found:
        return NO_PIECES
    if len(found) == 1 and (None in ranks or len(set(ranks)) == 1):
        most = max((one.rank or 0 for one in arrays), default=0)
        return next(iter(found)) if None in ranks or ranks[0] == most else NO_PIECES
    if None in ranks:
        return NO_PIECES
    rank = max(one.rank or 0 for one in arrays)
    made: list[tuple[str, ...]] = [()] * rank
    for one in arrays:
        for place, axes in enumerate(one.pieces, rank - (one.rank or 0)):
            made[place] = axes or made[place]
    return trim_pieces(made)


def without_dimensions(array: Layout, places: Sequence[int] | None, kept: bool) -> Pieces:
    """The pieces after a reduction over some dimensions, which stay with size 1 where they are `kept`."""
    if places is None or not array.pieces:
        return NO_PIECES
    if array.rank is None and any(place < 0 for place in places):
        return trim_pieces(array.pieces[:-1]) if set(places) == {-1} else NO_PIECES
    gone = {place % (array.rank or place + 1) for place in places}
    numbered = enumerate(array.pieces)
    return trim_pieces([() if place in gone else axes for place, axes in numbered if kept or place not in gone])


def indexed_pieces(array: Layout, keys: Sequence[Value]) -> Pieces:
    """The pieces of a part of an array: a dimension that is cut is none, nor what an array chooses from."""
    found: list[tuple[str, ...]] = []
    place = 0
    for key in keys:
        if key is None:
            found.append(())
        elif isinstance(key, slice):
            found.append(array.pieces[place] if key == slice(None) and place < len(array.pieces) else ())
            place += 1
        elif isinstance(key, int) and not isinstance(key, bool):
            place += 1
        elif key is ... and array.rank is not None:
            used = sum(one is not None and one is not ... for one in keys)
            more = place + array.rank - used
            found += [axes for at, axes in enumerate(array.pieces) if place <= at < more]
            found += [()] * (more - max(place, len(array.pieces)))
            place = more
        else:
            return trim_pieces(found)
    return trim_pieces([*found, *array.pieces[place:]])

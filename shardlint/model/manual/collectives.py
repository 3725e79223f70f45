"""What collectives do to what varies, for the body of a `shard_map` or `pmap`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.manual.varying import (
    HIDDEN,
    NONE,
    NOTHING,
    Axes,
    Axis,
    Known,
    Leaf,
    Local,
    Tree,
    axes_of,
    combined,
    each,
)
from shardlint.model.values import AxisOf, Place

if TYPE_CHECKING:
    from shardlint.model.manual.local_calls import LocalCalls

REDUCING = ("psum", "pmean", "pmax", "pmin")
# Where each collective has its axis.
AXIS_AT = {
    **dict.fromkeys((*REDUCING, "all_gather", "psum_scatter", "all_to_all", "ppermute", "pshuffle"), 1),
    **dict.fromkeys(("pbroadcast", "pvary", "pcast"), 1),
    "axis_index": 0,
    "axis_size": 0,
}
# What brings devices together with nobody.
COLLECTIVES = frozenset(f"jax.lax.{name}" for name in AXIS_AT)


class Collectives:
    """Applies collectives, for the calls of a body."""

    def __init__(self, calls: LocalCalls) -> None:
        self.calls = calls

    def call(self, name: str, given: list[Local], named: dict[str, Local], place: Place) -> Local:
        """The result of `jax.lax.<name>`."""
        at = AXIS_AT[name]
        found = named.get("axis_name") or (given[at] if at < len(given) else None)
        axes = self._axes(found)
        if name == "axis_size":
            return NOTHING
        if axes is None:
            self.calls.note("collective", place, (), NOTHING, "unknown")
            return (
                each(combined(given[:1]), lambda leaf: _unknown(leaf))
                if given
                else HIDDEN
            )
        if any(axis in self.calls.body.batched for axis in axes):
            axes = tuple(axis for axis in axes if axis not in self.calls.body.batched)
            given, named = self._within(name, given, named)
            if not axes:
                return named.get("x") or (given[0] if given else NOTHING)
        over = frozenset(axes)
        self.calls.note(
            "collective", place, tuple(axes), NOTHING, "maybe" if self.calls.body.branches else name
        )
        if name == "axis_index":
            return Leaf(over, traced=True, origin=place, kind="index")
        value = named.get("x") or (given[0] if given else HIDDEN)
        if name in REDUCING:
            return self._reduce(name, value, over, named, place)
        if name == "all_gather":
            kind = "gathered" if "tiled" not in named else ""
            if isinstance(value, Leaf) and value.spec is not None:
                self.calls.body.stacks[place.node] = len(value.spec)
            return each(value, lambda leaf: _reduced(leaf, over, kind, place))
        if name in ("pvary", "pcast"):
            # What is said to vary holds the same numbers still.
            return each(value, lambda leaf: replace(leaf, maybe=leaf.maybe | (over - leaf.over)))
        # Scattered, permuted and exchanged values vary; a ring of them may end with the same everywhere.
        return each(
            value,
            lambda leaf: replace(
                leaf.plain(),
                over=leaf.over - over,
                firm=leaf.firm - over,
                maybe=leaf.maybe | over,
                reduced=leaf.reduced | over,
            ),
        )

    def _within(self, name: str, given: list[Local], named: dict[str, Local]) -> tuple[list[Local], dict[str, Local]]:
        """The arguments after what a collective does along the axis of a `vmap`: all of that is on one device."""
        if name == "axis_index":
            return [], {}
        x = named.get("x") or (given[0] if given else HIDDEN)
        if name != "pmean":
            x = each(x, lambda leaf: leaf if leaf.kind == "gradient" else leaf.plain())
        return [x, *given[1:]], {**named, "x": x}

    def _axes(self, value: Local | None) -> tuple[Axis, ...] | None:
        match value:
            case Known(value=found):
                return axes_of(found)
            case Tree(items=items):
                parts = [self._axes(item) for item in items]
                return None if None in parts else tuple(axis for part in parts if part for axis in part)
        return None

    def _reduce(self, name: str, value: Local, over: Axes, named: dict[str, Local], place: Place) -> Local:
        if "axis_index_groups" in named:
            return each(value, lambda leaf: _unknown(leaf))
        return each(value, lambda leaf: _reduced(leaf, over, "", place))


def _unknown(leaf: Leaf) -> Leaf:
    """A leaf after a collective over nobody knows which devices."""
    return replace(leaf, open=True, firm=NONE)


def _reduced(leaf: Leaf, over: Axes, kind: str, place: Place) -> Leaf:
    unsure = frozenset(axis for axis in leaf.over - over if any(_may_be(axis, one) for one in over))
    return replace(
        leaf.plain(),
        over=leaf.over - over - unsure,
        firm=leaf.firm - over - unsure,
        maybe=(leaf.maybe - over) | unsure,
        reduced=leaf.reduced | over,
        kind=kind,
        spec=None,
        origin=place if kind == "gathered" else leaf.origin,
    )


def _may_be(one: Axis, other: Axis) -> bool:
    """Whether two axes that are told apart may be one: a parameter may name any."""
    if isinstance(one, AxisOf) and isinstance(other, AxisOf):
        return one.of != other.of
    return not (isinstance(one, str) and isinstance(other, str))

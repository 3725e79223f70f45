"""What collectives do to what varies, for the body of a `shard_map` or `pmap`."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.api import AXIS_AT
from shardlint.model.manual.varying import (
    ALONG,
    CURVED,
    HIDDEN,
    NONE,
    NOTHING,
    SCATTERED,
    SUMMED,
    Axes,
    Axis,
    Known,
    Leaf,
    Local,
    Tree,
    axes_of,
    combined,
    each,
    leaves,
)
from shardlint.model.values import AxisOf, Place
from shardlint.syntax import last_name

if TYPE_CHECKING:
    from shardlint.model.manual.local_calls import LocalCalls

REDUCING = ("psum", "pmean", "pmax", "pmin")


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
            own = self.calls.body.but_own_sums
            return each(value, lambda leaf: replace(_reduced(leaf, over, kind, place), marks=own(leaf.marks, over)))
        if name in ("pvary", "pcast"):
            # What is said to vary holds the same numbers still.
            return each(value, lambda leaf: replace(leaf, maybe=leaf.maybe | (over - leaf.over)))
        kind = SCATTERED if name == "psum_scatter" else ""
        # Scattered, permuted and exchanged values vary; a ring of them may end with the same everywhere.
        return each(
            value,
            lambda leaf: replace(
                leaf.plain(),
                kind=kind,
                marks=self.calls.body.but_own_sums(leaf.marks, over),
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
        self._note(name, value, over, place)
        marks: list[int] = []
        for leaf in leaves(value):
            if name == "psum" and leaf.over & over and (leaf.kind == "mean" or self._mean_along(leaf, over)):
                marks.append(self.calls.note("sum of means", place, tuple(leaf.over & over), leaf))
                break
        if name == "psum" and (found := self._of_a_mean(value, over)) is not None:
            marks.append(self.calls.note("sum of gradients", place, tuple(found.over & over), found))
        added = frozenset(marks)
        return each(
            value,
            lambda leaf: replace(
                _reduced(leaf, over, self._summed(leaf, over) if name == "psum" else "", place),
                marks=self.calls.body.but_own_sums(leaf.marks, over) | added,
            ),
        )

    def _of_a_mean(self, value: Local, over: Axes) -> Leaf | None:
        """The gradient of a mean over the data of each device, if that is what is summed over the devices."""
        for leaf in leaves(value):
            if leaf.kind == "gradient" and leaf.over & over and not leaf.reduced and leaf.origin is not None:
                if leaf.origin.node in self.calls.body.of_means:
                    return leaf
        return None

    def _mean_along(self, leaf: Leaf, over: Axes) -> bool:
        """Whether a value is still a mean that dropped a dimension which is split over some of these axes."""
        if not leaf.kind.startswith(ALONG):
            return False
        at, axes, *_ = self.calls.body.along[int(leaf.kind.removeprefix(ALONG))]
        return isinstance(at.node, ast.Call) and last_name(at.node.func) == "mean" and bool(axes & over)

    def _summed(self, leaf: Leaf, over: Axes) -> str:
        """The kind of a sum: over which axes, those of a sum that it adds up included."""
        sums = self.calls.body.sums
        before = sums[int(leaf.kind.removeprefix(SUMMED))] if leaf.kind.startswith(SUMMED) else NONE
        sums.append(over | before)
        self.calls.body.summed_of[len(sums) - 1] = leaf.kind
        return f"{SUMMED} {len(sums) - 1}"

    def _note(self, name: str, value: Local, over: Axes, place: Place) -> None:
        for leaf in leaves(value):
            if name == "pmean" and leaf.kind in ("std", "masked", CURVED) and leaf.over & over:
                self.calls.note(f"mean of {leaf.kind}", place, tuple(leaf.over & over), leaf)


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

"""Loops and branches of jax in the body of a `shard_map` or `pmap`: functions that are given to functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.manual.varying import (
    HIDDEN,
    NOTHING,
    Known,
    Local,
    Tree,
    combined,
    each,
    either,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.model.manual.local_calls import LocalCalls

Named = dict[str, Local]


class LocalControl:
    """Runs what loops and branches are given, for the calls of a body."""

    def __init__(self, calls: LocalCalls) -> None:
        self.calls = calls

    def _apply(self, function: Local, given: list[Local], place: Place) -> Local:
        return self.calls.apply(function, given, {}, place)

    def scan(self, given: list[Local], named: Named, place: Place) -> Local:
        """`jax.lax.scan`: two turns."""
        function = given[0] if given else named.get("f", HIDDEN)
        carry = named.get("init") or (given[1] if len(given) > 1 else HIDDEN)
        xs = named.get("xs") or (given[2] if len(given) > 2 else NOTHING)
        item = xs if not isinstance(xs, Known) else NOTHING
        ys: Local = NOTHING
        for _ in range(2):
            result = self._apply(function, [carry, item], place)
            if not isinstance(result, Tree) or len(result.items) != 2:
                return Tree((combined([carry, item, result, HIDDEN]),) * 2)
            carry, ys = result.items
        return Tree((carry, ys))

    def fori_loop(self, given: list[Local], named: Named, place: Place) -> Local:
        """`jax.lax.fori_loop`: two turns."""
        function = given[2] if len(given) > 2 else named.get("body_fun", HIDDEN)
        carry = given[3] if len(given) > 3 else named.get("init_val", HIDDEN)
        for _ in range(2):
            carry = self._apply(function, [NOTHING, carry], place)
        return carry

    def while_loop(self, given: list[Local], named: Named, place: Place) -> Local:
        """`jax.lax.while_loop`: none, one or two turns, by what it asks."""
        asked = given[0] if given else named.get("cond_fun", HIDDEN)
        function = given[1] if len(given) > 1 else named.get("body_fun", HIDDEN)
        carry = given[2] if len(given) > 2 else named.get("init_val", HIDDEN)
        after = carry
        for _ in range(2):
            self._apply(asked, [after], place)
            after = self._apply(function, [carry], place)
            carry = either(carry, after)
        return carry

    def cond(self, given: list[Local], named: Named, place: Place) -> Local:
        """`jax.lax.cond`: one branch or the other."""
        if len(given) < 3:
            return combined([*given, *named.values(), HIDDEN])
        operands = given[3:]
        one, two = (self._apply(function, operands, place) for function in given[1:3])
        return _chosen(given[0], either(one, two))

    def switch(self, given: list[Local], named: Named, place: Place) -> Local:
        """`jax.lax.switch`: one of its branches."""
        branches = given[1] if len(given) > 1 else HIDDEN
        if not isinstance(branches, Tree) or not branches.items:
            return combined([*given, *named.values(), HIDDEN])
        found = [self._apply(function, given[2:], place) for function in branches.items]
        result = found[0]
        for other in found[1:]:
            result = either(result, other)
        return _chosen(given[0], result)

    def map(self, given: list[Local], named: Named, place: Place) -> Local:
        """`jax.lax.map`: its function, once."""
        return self._apply(given[0], [combined([given[1]])], place) if len(given) > 1 else HIDDEN


def _chosen(index: Local, result: Local) -> Local:
    by = combined([index])
    if isinstance(index, Known) or not (by.over or by.maybe or by.open):
        return result
    return each(result, lambda leaf: replace(combined([leaf, by]), kind=""))

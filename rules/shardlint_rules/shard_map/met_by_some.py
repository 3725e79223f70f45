"""SL429."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import describe_location, events, join_reasons, shown


class MetBySome(Rule):
    """A collective runs in a branch or loop that devices take differently, and deadlocks.

    A collective waits for all devices along its axis. Devices that take another branch, or leave the loop earlier,
    never join: the program hangs, or dies after a timeout, without naming the line. It works on one device, and as
    long as all devices decide the same.

    ## Reports
    - proven: a collective in a branch of `jax.lax.cond` or `jax.lax.switch`, or in the body or condition of
      `jax.lax.while_loop`, if the predicate is computed from shards or `axis_index` and so differs along the axis.

    ## Write instead
    Reduce the predicate (`jax.lax.pmax(err, axis) > tol`), or call the collective on all devices and select with
    `jnp.where`.
    """

    code = "SL429"
    name = "met-by-some"
    harm = Harm.CRASH
    triggers = (*MAPPING, Mapped(calling=(("cond(", "while_loop(", "switch("),)))
    fixes = "none"
    by_hand = "the code does not show which devices take part"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each collective."""
        done: set[ast.AST] = set()
        for ran, event, node in events(site, "met by some", inside=None):
            if node in done or not set(event.axes) <= ran.manual:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"`{event.note}` in a branch or loop: if the predicate differs along {shown(event.axes)}, "
                "this deadlocks.",
                help="reduce the predicate over the axis (jax.lax.pmax), or call the collective on all devices and "
                "select with jnp.where",
                why=join_reasons("the predicate rests on values of each device", describe_location(site, event)),
            )

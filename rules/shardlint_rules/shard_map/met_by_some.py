"""SL429."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import elsewhere, events, shown


class MetBySome(Rule):
    """A collective stands in a branch or a loop that each device takes by its own data.

    ## What it does
    Follows the values of a `shard_map` or `pmap` body and reports collectives in the branches of `jax.lax.cond` and
    `jax.lax.switch`, and in the body and the condition of `jax.lax.while_loop`, where what is asked surely differs
    between the devices along the axis of the collective: it was made of shards, or of `axis_index`.

    ## Why it hurts
    A collective waits for all devices along its axis. Those that take another branch, or leave the loop a turn earlier,
    never come: the program hangs, or dies after a timeout, and says nothing of the line. It runs on one device, and as
    long as all of them happen to decide alike.

    ## Use instead
    Let all devices ask the same: reduce what is asked (`jax.lax.pmax(err, axis) > tol`), or call the collective on all
    of them and choose afterwards with `jnp.where`.

    ## Evidence
    Run on jax 0.12 with 8 devices, with the check of replication on and off: a loop until each device's own residual is
    small, and a branch by `axis_index`, wait for each other until they are killed. On jax 0.6 the loop dies instead.
    """

    code = "SL429"
    name = "met-by-some"
    harm = Harm.CRASH
    triggers = (*MAPPING, Mapped(calling=(("cond(", "while_loop(", "switch("),)))
    fixes = "none"
    by_hand = "which devices are meant to take part is for a person to say"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each collective."""
        done: set[ast.AST] = set()
        for ran, event, node in events(site, "met by some", inside=None):
            if node in done or not set(event.axes) <= ran.manual:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"On {site.release('jax')} each device takes the branch, or ends the loop, by its own data: those that "
                f"come here wait along {shown(event.axes)} for those that do not, and the program hangs.",
                label=f"not all devices along {shown(event.axes)} come to this {event.note}{elsewhere(site, event)}",
                help="reduce what is asked (jax.lax.pmax over the axis), or call it on all devices and choose with "
                "jnp.where",
            )

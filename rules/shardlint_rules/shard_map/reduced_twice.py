"""SL404."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.model.manual.varying import leaves
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Certainty, Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import devices, elsewhere, events, shown

_SUM = ("jax.lax.psum",)


class ReducedTwice(Rule):
    """`psum` over an axis along which all devices hold the same adds up equal copies.

    ## What it does
    Follows the values of a `shard_map` or `pmap` body and reports `psum` of one that is surely the same
    along the axis: it was reduced over it before, or comes of arguments whose in spec does not name it. Only where
    the sum reaches a result and is never divided.

    ## Why it hurts
    The result is as many times too large as there are devices along the axis, with no error on any release
    since jax 0.4.38.

    ## Evidence
    Run on jax 0.4.38 to 0.12 with 8 devices: 16128 where 2016 is right. Counting devices (`psum(1, axis)`), a value
    masked by `axis_index` (the usual broadcast), and gradients are left alone.
    """

    code = "SL404"
    name = "reduced-twice"
    harm = Harm.SILENT
    assumes = True
    triggers = (*MAPPING, Mapped(calling=(("psum",),)))
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each reduction."""
        done = set()
        for ran, event, node in events(site, "equal copies", inside=_SUM):
            number = ran.events.index(event)
            if node in done or not any(number in leaf.marks for leaf in leaves(ran.result)):
                continue
            if ran.mapped.axis == "" or not set(event.axes) <= ran.manual:
                continue  # the axis is not bound at all: SL406
            done.add(node)
            again = event.note == "again"
            whence = (
                "was reduced over it before"
                if again
                else "comes of arguments that are the same on all of them"
            )
            yield site.finding(
                node,
                f"the same on all devices along {shown(event.axes)} already{elsewhere(site, event)}",
                f"On {site.release('jax')} this adds up equal copies: what it sums {whence}, so the result is "
                f"{devices(ran, event.axes)} times too large.",
                help="leave the reduction out, or split the argument over the axis",
                certainty=Certainty.PROVEN if again else Certainty.POSSIBLE,
                form="" if again else "replicated",
            )

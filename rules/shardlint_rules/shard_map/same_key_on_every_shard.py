"""SL407."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.mapped import against
from shardlint.model.manual.varying import Axis
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import MAPPING, elsewhere, events, runs, shown


class SameKeyOnEveryShard(Rule):
    """Every device draws the same random numbers for other data.

    ## What it does
    Follows random keys into the body of a `shard_map` or `pmap`. Reports numbers drawn with a key that is the same
    on all devices of an axis where they meet data that is split over it, or are returned as if they were split.
    Possible: such a key handed, beside split data, to code that is not seen.

    ## Why it hurts
    A dropout mask repeats for every shard of the batch, noise is the same in each of them, and a weight initialised
    so consists of equal blocks. Nothing raises and shapes are right; the model is only worse.

    ## Evidence
    Run on jax 0.12: one distinct mask among eight devices; eight with
    `jax.random.fold_in(key, jax.lax.axis_index(axis))`. Numbers drawn for values that are meant to be the same
    everywhere (replicated parameters) are left alone.
    """

    code = "SL407"
    name = "same-key-on-every-shard"
    harm = Harm.SILENT
    assumes = True
    triggers = MAPPING
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place where numbers are drawn."""
        done: set[ast.AST] = set()
        for _, event, node in events(site, "same mask"):
            if node in done:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"the same numbers on every device along {shown(event.axes)}{elsewhere(site, event)}",
                f"On {site.release('jax')} the key is the same on all devices along {shown(event.axes)}, while the "
                "data that the numbers are for is split over them: each shard gets the same ones.",
                help=_help(event.axes[0]),
            )
        for ran in runs(site):
            for leaf, named, _ in against(site.program, ran.result, ran.mapped.out_specs):
                same = [axis for axis in named if leaf.same_over(axis)]
                if leaf.kind != "mask" or not same or leaf.origin is None or not leaf.traced:
                    continue
                node = leaf.origin.node if leaf.origin.file is site.file else site.call
                if node in done:
                    continue
                done.add(node)
                yield site.finding(
                    node,
                    f"the same block on every device along {shown(same)}",
                    f"On {site.release('jax')} the key is the same on all devices along {shown(same)}, and the out "
                    "spec puts what they draw together: the result repeats one block.",
                    help=_help(same[0]),
                )
        yield from self._handed_on(site, done)

    def _handed_on(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        for _, event, node in events(site, "key handed on"):
            if node not in done and _key_like(site.text(node)):
                done.add(node)
                yield site.finding(
                    node,
                    f"given a key that is the same on every device along {shown(event.axes)}",
                    f"On {site.release('jax')} what this draws is the same on all devices along {shown(event.axes)}, "
                    "while the data it is given is split over them.",
                    help=_help(event.axes[0]),
                    certainty=Certainty.POSSIBLE,
                    form="handed-on",
                )


def _key_like(text: str) -> bool:
    return any(word in text.lower() for word in ("key", "rng", "seed"))


def _help(axis: Axis) -> str:
    return f"give each its own: key = jax.random.fold_in(key, jax.lax.axis_index({shown([axis]).strip('`')}))"

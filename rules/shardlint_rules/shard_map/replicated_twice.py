"""SL417."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._one_copy import UNREPLICATE, one_copy
from shardlint_rules.shard_map.per_device import PMAP, REPLICATE, per_device


class ReplicatedTwice(Rule):
    """What has one copy for each device is replicated once more, or one copy is taken of what has no copies any more.

    ## What it does
    Reports `replicate` of what `replicate` or a pmapped function returned, also in a function of the project that is
    called for it, or of what a checkpoint was restored into that is replicated already; and `unreplicate` of what
    `unreplicate` gave, also where a caller did so before (a function that saves, or exports).

    ## Why it hurts
    Each array gets a second leading dimension. The pmapped step sees arrays with one dimension more than they were
    initialised with, which raises in the model or broadcasts without a word. A second `unreplicate` takes the first row
    of every array: a file is written with the first row of each weight, and scalars raise.

    ## Evidence
    Run on jax 0.12: a parameter of shape (3,) becomes (8, 8, 3).
    """

    code = "SL417"
    name = "replicated-twice"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("twice", "taken-twice")
    triggers = (Calls(*REPLICATE, UNREPLICATE),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        given = site.call.args[0] if site.call.args else None
        if site.api == UNREPLICATE:
            if given is not None:
                yield from self._taken(site, given)
            return
        made = per_device(site.program, site.file, given) if given is not None else None
        if given is None or made is None:
            return
        by = "replicate" if made.by == "replicate" else PMAP.rpartition(".")[2]
        yield site.finding(
            given,
            f"On {site.release('jax')} each array in it gets a second leading dimension.",
            label="has one entry for each device already",
            help="replicate it once, after it is restored",
            form="twice",
            why=f"{by} at line {made.call.lineno} of {made.file.path.name}",
        )

    def _taken(self, site: Site, given: ast.expr) -> Iterator[Finding]:
        made = one_copy(site.program, site.file, given)
        if made is not None:
            yield site.finding(
                given,
                f"On {site.release('jax')} unreplicate takes `x[0]` of each array: here that is its first row.",
                label="is one copy already",
                help="unreplicate once, where the copies end",
                harm=Harm.SILENT,
                form="taken-twice",
                why=f"unreplicate at line {made.line} of {made.file.path.name}",
            )

"""SL417."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._one_copy import UNREPLICATE, one_copy
from shardlint_rules.shard_map.per_device import PMAP, REPLICATE, per_device


class ReplicatedTwice(Rule):
    """A replicated tree is replicated again, or `unreplicate` is called on a single copy.

    Each array gets a second leading dimension, which raises in the model or broadcasts. A second `unreplicate` takes
    the first row of every array, so a checkpoint holds the first row of each weight, and scalars raise.

    ## Reports
    - `twice` (likely): `replicate` of a result of `replicate` or of a pmapped function, also through a function of
      the project or a checkpoint restored into a replicated target.
    - `taken-twice` (likely): `unreplicate` of a result of `unreplicate`, also if a caller did the first.
    """

    code = "SL417"
    name = "replicated-twice"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("twice", "taken-twice")
    assumptions: ClassVar[Mapping[str, str]] = {
        "twice": "The program calls these functions in this order.",
        "taken-twice": "The program calls these functions in this order.",
    }
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
            f"Each array in `{site.shown(given)}` gets a second leading device dimension.",
            label="already replicated",
            help="remove this call of replicate",
            form="twice",
            why=f"{by} at line {made.call.lineno} of {made.file.path.name} added the first one",
        )

    def _taken(self, site: Site, given: ast.expr) -> Iterator[Finding]:
        made = one_copy(site.program, site.file, given)
        if made is not None:
            yield site.finding(
                given,
                f"This keeps only the first row of each array: `{site.shown(given)}` is already one copy.",
                label="already unreplicated",
                help="remove this call of unreplicate",
                harm=Harm.SILENT,
                form="taken-twice",
                why=f"unreplicate takes `x[0]`; line {made.line} of {made.file.path.name} already did",
            )

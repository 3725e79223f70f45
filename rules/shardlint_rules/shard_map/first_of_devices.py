"""SL415."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.shard_map.per_device import names_around, per_device, taken_first

# What people call an array with one entry for each device, and what takes the first of them.
_SAYS = regex(r"replicat|pmap|per_?device|device_metrics|all_devices|first_device|deduplicate_devices", re.I)
_OTHERWISE = regex(r"scanned|scan_|stacked_layers", re.I)


class FirstOfDevices(Rule):
    """`x[0]` of what `pmap` returned is spread over all devices again.

    ## What it does
    Reports `jax.tree.map(lambda x: x[0], tree)` where `tree` is what a pmapped function or `replicate` gave, or where
    the names and the docstring around it say so (`unreplicate`, `_unpmap`), in a project that uses `pmap`.

    ## Why it hurts
    `pmap` is built on `jax.shard_map` since jax 0.8.1, and its results are global arrays. Indexing one is a program
    that runs on all devices and leaves the entry on each of them, once for every leaf.

    ## Use instead
    `x.addressable_shards[0].data.squeeze(0)` takes the first device's entry from where it is.

    ## Evidence
    Run on jax 0.8.1 to 0.12 with 8 devices: `x[0]` of a pmapped result lies on 8 devices, the shard's data on one.
    JAX's guide to the new `pmap` names the pattern.
    """

    code = "SL415"
    name = "first-of-devices"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("first",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.1"}
    triggers = (Calls("jax.tree.map"),)
    project_says = ("pmap",)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        tree = taken_first(site)
        if tree is None or not site.anywhere("pmap"):
            return
        if self._knows_both(site):
            return
        made = per_device(site.program, site.file, tree)
        said = "" if made is not None else _said(site, tree)
        if made is None and not said:
            return
        why = (
            f"`{said}` says that it has one entry for each device"
            if said
            else f"{made.by} made it"
            if made
            else ""
        )
        yield site.finding(
            site.call,
            f"On {site.release('jax')} what pmap returns is one array over all devices: `x[0]` runs on each of them "
            "and leaves the entry there.",
            label="a program over all devices for each leaf",
            help="write lambda x: x.addressable_shards[0].data.squeeze(0)",
            form="first",
            why=why,
        )

    def _knows_both(self, site: Site) -> bool:
        """Whether the function takes the shards where it can, and this is for what is left."""
        scope = site.scope.function()
        text = site.text(scope.node) if scope is not None else ""
        return "addressable" in text or "jax_pmap_shmap_merge" in text


def _said(site: Site, tree: ast.expr) -> str:
    """The word around the call that says what it takes the first entries of."""
    texts = [site.text(tree), *names_around(site)]
    if any(_OTHERWISE.search(text) for text in texts):
        return ""
    found = (_SAYS.search(text) for text in texts)
    return next((one.group() for one in found if one is not None), "")

"""SL107."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Items
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk


class FilterPmap(Rule):
    """`eqx.filter_pmap` where `eqx.filter_jit` with sharded inputs does the same.

    ## What it does
    Reports uses of `eqx.filter_pmap`, as a call or a decorator, whose `in_axes` say None of an argument; the others, in
    which each array comes with a row for each device, are possible.

    ## Why it hurts
    What is given to it whole (`in_axes=None`: usually the weights) stays on one device and is sent to all
    others at every call. A leading axis shorter than the number of devices leaves the rest idle without a
    word. Its results are sharded over an axis of its own, which is not one of your mesh.

    ## Use instead
    Named axes and collectives in the body become `jax.shard_map`, or go: sums over a sharded axis are made
    by the compiler.

    ## Evidence
    Run on equinox 0.11.5 to 0.13.8 with jax 0.4.38 to 0.12: nothing is raised and
    nothing warned on any of them. Equinox's own documentation advises filter_jit instead.
    """

    code = "SL107"
    name = "filter-pmap"
    harm = Harm.COST
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_pmap"), Uses("equinox.filter_pmap"))
    forms = ("call", "partial", "name")
    in_version_checks = False

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a use."""
        if site.form == "name" and site.decorated is None:
            return
        if site.form != "name" and _on_one_device(site):
            return
        name = site.syntax if site.form == "name" else site.call.func
        if site.form == "partial":
            name = site.call.args[0]
        whole = _goes_in_whole(site)
        yield site.finding(
            name,
            "What goes in whole, weights mostly, stays on one device and is sent to the others at every call." if whole
            else "What it gives is taken apart and sent again by what is compiled for a mesh.",
            label=("what goes in whole is sent to the devices at every call" if whole
            else "its results lie over an axis of its own, which is of no mesh"),
            help="shard the inputs once with eqx.filter_shard and compile with eqx.filter_jit",
            certainty=None if whole else Certainty.POSSIBLE,
            form="" if whole else "stacked",
        )  # fmt: skip


def _goes_in_whole(site: Site) -> bool:
    """Whether `in_axes` says None of an argument: by default each array has a row for each device."""
    place = site.arguments.keywords.get("in_axes") if site.form != "name" else None
    return place is not None and any(
        isinstance(one, ast.Constant) and one.value is None for one in walk(place.node)
    )


def _on_one_device(site: Site) -> bool:
    """Whether `devices=` lists a single one: nothing is spread, as in a test."""
    place = site.arguments.keywords.get("devices")
    devices = site.program.evaluator.value(place) if place is not None else None
    return isinstance(devices, Items) and not devices.open and len(devices.items) == 1

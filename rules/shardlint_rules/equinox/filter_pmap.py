"""SL107."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Items
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes


class FilterPmap(Rule):
    """`eqx.filter_pmap` sends replicated arguments from one device to all other devices at every call.

    An argument with `in_axes=None`, usually the weights, stays on one device between calls. If the mapped axis is
    shorter than the number of devices, some devices are idle.

    ## Reports
    - proven: `eqx.filter_pmap` with a None in `in_axes`, as a call or a decorator.

    ## Write instead
    Use `eqx.filter_jit` with sharded inputs. If the function calls a collective over the mapped axis (`jax.lax.pmean`),
    compute over the full array in its place (`x.mean(0)`): the compiler inserts the collective. Or write
    `jax.shard_map`, which keeps the call.
    """

    code = "SL107"
    name = "filter-pmap"
    harm = Harm.COST
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5"}
    triggers = (Calls("equinox.filter_pmap"),)
    in_version_checks = False

    @detector("call", "partial")
    def report_replication(self, site: Site) -> Finding | None:
        """A filter_pmap with replicated arguments."""
        if _is_on_one_device(site) or not _is_replicated(site):
            return None
        return site.finding(
            site.callee_expression,
            "Arguments with `in_axes=None` go from one device to all other devices at every call.",
            help="shard the inputs once with `eqx.filter_shard` and compile with `eqx.filter_jit`",
        )


def _is_replicated(site: Site) -> bool:
    """True if `in_axes` has a None."""
    place = site.arguments.keywords.get("in_axes")
    return place is not None and any(
        isinstance(one, ast.Constant) and one.value is None for one in walk_nodes(place.node)
    )


def _is_on_one_device(site: Site) -> bool:
    """True if `devices=` lists a single device, as in a test."""
    place = site.arguments.keywords.get("devices")
    devices = site.program.evaluator.value(place) if place is not None else None
    return isinstance(devices, Items) and not devices.open and len(devices.items) == 1

"""SL418."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.varying import Leaf
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._first_entries import first_measures
from shardlint_rules.shard_map.per_device import CALLED, PMAP, PerDevice, per_device, results, taken_first

_UNREPLICATE = "flax.jax_utils.unreplicate"


class FirstShardOnly(Rule):
    """Only the first device's entry is read of a `pmap` result that differs on each device.

    Seven of eight predictions are never written, or a metric is that of an eighth of the batch. Nothing raises.

    ## Reports
    - `measure` (likely): `losses[0]`, for a loss or metric that no collective in the pmapped function reduces.
    - `dropped` (possible): `unreplicate` or `jax.tree.map(lambda x: x[0], ...)` of such a result.

    ## Write instead
    `x.reshape(-1, *x.shape[2:])` for results of examples, `jax.lax.pmean` in the function for metrics.

    ## Limits
    Not reported: replicated state, and results of code that is not in sight.
    """

    code = "SL418"
    name = "first-shard-only"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("measure",)
    assumptions: ClassVar[Mapping[str, str]] = {"measure": "The figure is meant for the data of all devices."}
    bound = True
    triggers = (
        Calls("jax.tree.map", file_says=("[0]",)),
        Calls(_UNREPLICATE),
        Calls(PMAP, file_says=("[0]",)),
        Uses(PMAP, file_says=("[0]",)),
        CALLED,
    )
    forms = ("call", "partial", "line", "name")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        if site.form in ("line", "name") or site.api == PMAP:
            yield from self._measured(site)
            return
        given = taken_first(site, read=True) if site.api != _UNREPLICATE else next(iter(site.call.args), None)
        made = per_device(site.program, site.file, given) if given is not None else None
        if made is None or made.function is None or given is None or _same_everywhere(site, made):
            return
        if any(_differs(site, made, one) for one in results(site.program, made)):
            yield site.finding(
                given,
                f"Only the first device's entry of `{site.shown(given)}` is read; the other devices' results are lost.",
                label="differs on each device",
                help="merge the devices (x.reshape(-1, *x.shape[2:])), or reduce in the function (jax.lax.pmean)",
                form="dropped",
                why=f"no collective in the function pmapped at line {made.function.settings.place.line} reduces it",
            )

    def _measured(self, site: Site) -> Iterator[Finding]:
        """`losses[0]`, read for the loss of all."""
        for read in first_measures(site) if site.wants("measure") else ():
            made = per_device(site.program, site.file, read.value)
            if made is None or made.function is None or _same_everywhere(site, made):
                continue
            if any(_differs(site, made, one) for one in results(site.program, made)):
                name = site.text(read.value)
                yield site.finding(
                    read,
                    f"`{name}[0]` is the value of the first device's shard; the other devices' values are lost.",
                    label="first device only",
                    help=f"write {name}.mean(), or reduce in the function (jax.lax.pmean)",
                    form="measure",
                    why=f"no collective reduces the result of line {made.call.lineno}",
                )


def _same_everywhere(site: Site, made: PerDevice) -> bool:
    """Whether all that the function is called with is replicated."""
    found = [per_device(site.program, made.file, one) for one in made.call.args]
    return bool(found) and all(one is not None and one.by == "replicate" for one in found)


def _differs(site: Site, made: PerDevice, leaf: Leaf) -> bool:
    settings = made.function.settings if made.function is not None else None
    if settings is None or not leaf.over or leaf.reduced:
        return False
    if leaf.sure:
        return True
    # Without the name of an axis nothing in the function can reduce over it.
    unnamed = "axis_name" not in settings.keywords and len(settings.positional) < 2
    return unnamed or not leaf.open

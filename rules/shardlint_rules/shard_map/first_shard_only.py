"""SL418."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.model.manual.varying import Leaf
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._first_entries import first_measures
from shardlint_rules.shard_map._unsynced import EVALUATES, EVALUATING, TAKEN, TAKES, unsynced
from shardlint_rules.shard_map.per_device import CALLED, PMAP, PerDevice, per_device, results, taken_first

_UNREPLICATE = "flax.jax_utils.unreplicate"


class FirstShardOnly(Rule):
    """The first device's entry is taken of a result that is another one on each device.

    ## What it does
    Follows the values of the body of a `pmap`, and reports `unreplicate` or `jax.tree.map(lambda x: x[0], ...)` of a
    result that comes of the data that is split over the devices and meets no collective on its way: predictions, a
    loss, metrics. So it does (likely) for a state whose batch statistics are averaged before another use
    (`sync_batch_stats(state)`), and on no way that leads here, also where a pmapped function evaluates with it. So
    does `losses[0]`, where the result is called a loss or another measure and is not looped over.

    ## Why it hurts
    What the other devices computed is dropped: seven of eight predictions are never written, a metric is that of an
    eighth of the batch. Nothing raises.

    ## Use instead
    `x.reshape(-1, *x.shape[2:])` for results of examples, `jax.lax.pmean` in the function for metrics.

    ## Evidence
    Run on jax 0.12 with 8 devices: 4 predictions of 32. State that is replicated, and what goes through code
    that is not seen and may reduce it, are left alone.
    """

    code = "SL418"
    name = "first-shard-only"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("measure", "unsynced", "unsynced-eval")
    bound = True
    triggers = (
        Calls("jax.tree.map", file_says=("[0]",)),
        Calls(_UNREPLICATE),
        Calls(PMAP, file_says=("[0]",)),
        Uses(PMAP, file_says=("[0]",)),
        CALLED,
        Lines(TAKES, saying=TAKEN),
        Lines(EVALUATES, file_says="sync|stats", saying=EVALUATING),
    )
    forms = ("call", "partial", "line", "name")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        if site.form == "line":
            yield from self._unsynced(site)
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
                f"On {site.release('jax')} the first device's is kept, the others are dropped: no collective "
                "makes the result the same on all.",
                label="each device has its own",
                help="put them together (`x.reshape(-1, *x.shape[2:])`), or reduce in the function (`jax.lax.pmean`)",
                form="dropped",
                why=f"pmapped at line {made.function.settings.place.line}",
            )

    def _unsynced(self, site: Site) -> Iterator[Finding]:
        """A state that another use brings together first."""
        found = unsynced(site) if site.wants("unsynced", "unsynced-eval") else None
        if found is None:
            return
        given, sync, evaluated = found
        name = site.text(given)
        if evaluated:
            yield site.finding(
                given,
                f"Each device has batch statistics of its own examples in `{name}`: each evaluates another model than "
                f"the one that `{sync}` makes of them elsewhere.",
                label=f"not brought together by `{sync}`",
                help=f"average them before the evaluation: {name} = {sync}({name})",
                form="unsynced-eval",
                why=f"`{sync}` is called with `{name}` elsewhere, and on no way that leads here",
            )
            return
        yield site.finding(
            given,
            f"Each device has batch statistics of its own examples in `{name}`: this takes those of the first one, and "
            f"elsewhere `{sync}` averages them before they are used.",
            label=f"not brought together by `{sync}`",
            help=f"write {sync}({name})",
            form="unsynced",
            why=f"`{sync}` is called with `{name}` elsewhere, and on no way that leads here",
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
                    f"`{name}` has an entry for each device, of its own examples: this is what one device computed, "
                    "and the others are dropped.",
                    label="that of the first device",
                    help=f"write {name}.mean(), or reduce in the function (`jax.lax.pmean`)",
                    form="measure",
                    why=f"no collective makes the result of line {made.call.lineno} the same on all devices",
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

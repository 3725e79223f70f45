"""SL409."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.collectives import REDUCING
from shardlint.model.manual.elsewhere import defined_around
from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import Axis, Event, Product
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Keywords, Mapped, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._batch_stats import kept_apart, state_kept_apart
from shardlint_rules.shard_map._own_maximum import own_maximum
from shardlint_rules.shard_map._ranks import of_another_rank
from shardlint_rules.shard_map.runs import as_argument, elsewhere, events, shown

# Asked where they stand, also in another file than that of the map. What everybody calls is left out.
_NORMS = ("jax.numpy.linalg.norm", "optax.global_norm")


_SUM = "jax.numpy.sum"


class PerShardStatistics(Rule):
    """A softmax, a sort or a running sum goes along a dimension that is split over the devices.

    ## What it does
    Reports, in the body of a `shard_map`, `softmax`, `logsumexp`, `cumsum`, `sort`, `argmax`, `top_k` and the like of
    an argument along a dimension that its in spec splits, where nothing in the body ever communicates over that axis.
    Likely:

    - a `softmax` of a matrix product whose columns are split, and one whose result alone is summed over the axis;
    - `psum` of `exp(x - m)` where `m` is the maximum of each device's own shard;
    - a mean, sum or variance along the last dimension that meets it again, as a layer norm takes it;
    - a division by the norm or spread of each device's part, also by the root of a mean of squares, as a layer norm
      over the columns of a product takes it, and what `psum_scatter` gave, scaled by such a norm;
    - `roll`, `flip`, `diff` along such a dimension beyond the first, and `x[:, 1:]`, where nothing but sums goes over
      the axis: the neighbour at the border is another device's. So do convolutions along it, and along the first one
      `roll` both ways, as a stencil has it;
    - the `batch_stats` that a pmapped step updates on each device, where nothing averages them and one device's are
      kept.

    Possible: such a statistic along another dimension, and what goes along the last one, where the spec's last entry is
    taken for it.

    ## Why it hurts
    Each device sees its own piece of the dimension: each is normalised, sorted or added up by itself, and the pieces
    are put together. Shapes are right and nothing raises.

    ## Use instead
    Leave the dimension whole (`None` in the spec), gather it, or reduce over the axis as well: for a softmax the
    maximum with `jax.lax.pmax` and the sum with `jax.lax.psum`.

    ## Evidence
    Run on jax 0.12 with 8 devices: the rows of such a softmax add up to 8. Bodies with any collective over
    the axis are left alone.
    """

    code = "SL409"
    name = "per-shard-statistics"
    harm = Harm.SILENT
    likely = (
        "reduced-later",
        "own-maximum",
        "product",
        "features",
        "norm",
        "own-norm",
        "batch-stats",
        "shifted",
    )
    assumes = True
    triggers = (
        *MAPPING,
        Mapped(calling=(("norm(", "psum_scatter"),)),
        Calls("jax.lax.psum"),
        Keywords("mutable", file_says=("batch_stats",)),
        Methods("apply", file_says=("pmap",)),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place."""
        if site.api == "jax.lax.psum":
            yield from self._own_maximum(site)
            return
        if site.form == "method" or (site.form == "keyword" and site.keyword("mutable") is not None):
            yield from self._running(site)
            return
        done: set[ast.AST] = set()
        yield from self._own_norms(site, done)
        yield from self._shifted(site, done)
        for ran, event, node in events(site, "along a split dimension"):
            if node in done or ran.mapped.api != "jax.shard_map":
                continue
            later = _communicates(ran, event)
            norm = event.note == "norm+"
            if later and not norm and not _normalised_alone(ran, event):
                continue
            if of_another_rank(event):
                continue
            done.add(node)
            sure = not event.note.endswith(("?", "+")) and not later
            again = event.note.endswith("+")
            yield site.finding(
                node,
                f"On {site.release('jax')} each device does this to its own piece of the dimension, and nothing in "
                f"the body communicates over {shown(event.axes)}."
                if not later
                else f"On {site.release('jax')} each device divides by the norm or spread of its own piece alone."
                if norm
                else f"On {site.release('jax')} each device normalises its own piece of the dimension by itself: "
                f"nothing of what it divides by goes over {shown(event.axes)}.",
                label=f"along a dimension that is split over {shown(event.axes)}{elsewhere(site, event)}",
                help="leave the dimension whole in in_specs, or reduce over the axis too",
                certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
                form="" if sure else _form(event, again, later),
                why=""
                if sure
                else "it meets the dimension again"
                if again
                else "the sums over the axis come after it, and no maximum goes over it"
                if later
                else "the spec's last entry is taken for the last dimension",
            )

    def _running(self, site: Site) -> Iterator[Finding]:
        """Running statistics of BatchNorm, of which each device of a pmap keeps its own."""
        if not site.wants("batch-stats"):
            return
        linen = site.form == "keyword"
        kept = kept_apart(site) if linen else state_kept_apart(site)
        if kept is not None:
            what = "batch_stats" if linen else site.text(kept)
            yield site.finding(
                kept,
                "Nothing brings them together: what is evaluated and saved is the first device's, of its share of "
                "each batch.",
                label="each device keeps the batch statistics of its own data",
                help=f"average them before they are kept: jax.lax.pmean({what}, axis), or give BatchNorm that "
                f"{'axis_name' if linen else 'cross_replica_axis'}",
                certainty=Certainty.POSSIBLE,
                form="batch-stats",
                why="the step is pmapped, and the state is taken from the first device",
            )

    def _shifted(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        """Neighbours along a split dimension, of which those at a border are another device's."""
        bodies: set[tuple[int, tuple[Axis, ...]]] = set()
        for ran, event, node in (
            events(site, "shifted", "rolled") if site.wants("shifted", "shifted-last") else ()
        ):
            if event.kind == "rolled" and not _both_ways(ran, event):
                continue
            # `x[:, 1:] - x[:, :-1]` is one mistake.
            body = id(defined_around(event.place)), event.axes
            if node in done or body in bodies or ran.mapped.api != "jax.shard_map" or _exchanges(ran, event):
                continue
            done.add(node)
            bodies.add(body)
            yield site.finding(
                node,
                f"On {site.release('jax')} each device does this to its own piece: what would come over its border, "
                "from the piece of the next device, does not, and nothing in the body brings it.",
                label=f"moves entries along a dimension that is split over {shown(event.axes)}{elsewhere(site, event)}",
                help=f"bring the border with jax.lax.ppermute over {shown(event.axes)}, or do this outside of the body",
                certainty=Certainty.POSSIBLE,
                form="shifted-last" if event.note == "?" else "shifted",
                why="the in_specs split that dimension",
            )

    def _own_norms(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        """Gradients that were scattered, each part of which is scaled by a norm of its own."""
        for _, event, node in events(site, "own norm", inside=(*_NORMS, _SUM)):
            if node in done:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"On {site.release('jax')} psum_scatter left each device a part: each scales its own by another norm "
                "than that of the whole, and clips too little.",
                label=f"the norm of one device's part along {shown(event.axes)}{elsewhere(site, event)}",
                help="sum the squares over the axis: "
                f"jnp.sqrt(jax.lax.psum(jnp.sum(g * g), {as_argument(event.axes[:1])}))",
                certainty=Certainty.POSSIBLE,
                form="own-norm",
                why="nothing reduces it over the axis that psum_scatter split",
            )

    def _own_maximum(self, site: Site) -> Iterator[Finding]:
        """A sum over the devices of exponentials that each device took by a maximum of its own."""
        operand = site.argument("x") or next(iter(site.call.args), None)
        largest = own_maximum(site, operand) if operand is not None and site.form == "call" else None
        if largest is None:
            return
        yield site.finding(
            site.call,
            f"On {site.release('jax')} each device sums exp(x - m) with the largest of its own shard as m: the sums "
            "are not on one scale, and their total is that of no softmax.",
            label="adds up exponentials that each device took by a maximum of its own",
            help="take the maximum over the axis too: jax.lax.pmax(m, axis), before it is subtracted",
            certainty=Certainty.POSSIBLE,
            form="own-maximum",
            why="no maximum goes over the axis before it is subtracted",
        )


def _both_ways(ran: Ran, event: Event) -> bool:
    """Whether an array is rolled both ways along its first dimension."""
    ways = {one.note for one in ran.events if (one.kind, one.axes) == (event.kind, event.axes)}
    return len(ways) > 1


def _form(event: Event, again: bool, later: bool) -> str:
    """The form of a finding that the text does not prove."""
    if event.note == "norm+":
        return "norm"
    if again:
        return "features" if event.note.endswith("?+") else "normalised"
    return "reduced-later" if later else "product" if isinstance(event.leaf.spec, Product) else "last"


def _communicates(ran: Ran, event: Event) -> bool:
    """Whether the body runs a collective over the axis, or hands values to code that is not seen."""
    return any(
        other.kind == "collective" and set(other.axes) & set(event.axes) and other.note != "axis_index"
        for other in ran.events
    ) or any(other.kind == "collective" and not other.axes for other in ran.events)


def _exchanges(ran: Ran, event: Event) -> bool:
    """Whether a body brings anything from one device along the axis to another, sums aside."""
    return any(
        one.kind == "collective"
        and (set(one.axes) & set(event.axes) or not one.axes)
        and one.note not in (*REDUCING, "axis_index", "axis_size")
        for one in ran.events
    )


def _normalised_alone(ran: Ran, event: Event) -> bool:
    """Whether a softmax is by each device's own maximum and sum: nothing but sums goes over the axis, and no `exp`."""
    if event.note.rstrip("?") not in ("softmax", "log_softmax"):
        return False
    over = [
        other.note
        for other in ran.events
        if other.kind == "collective" and (set(other.axes) & set(event.axes) or not other.axes)
    ]
    parts = [other for other in ran.events if other.kind == "along a split dimension" and other is not event]
    merged = any(other.note.rstrip("?") == "logsumexp" for other in parts)
    return not merged and all(name in ("psum", "pmean", "axis_index", "axis_size") for name in over)

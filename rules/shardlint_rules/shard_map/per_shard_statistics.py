"""SL409."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.collectives import REDUCING
from shardlint.model.manual.elsewhere import defined_around
from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import Axis, Event, Product
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import (
    Calls,
    Certainty,
    Finding,
    Harm,
    Keywords,
    Mapped,
    Methods,
    Rule,
    Violates,
)
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._batch_stats import kept_apart, state_kept_apart
from shardlint_rules.shard_map._own_maximum import own_maximum
from shardlint_rules.shard_map._ranks import of_another_rank
from shardlint_rules.shard_map.runs import as_argument, describe_location, events, join_reasons, shown

# Asked where they stand, also in another file than that of the map. What everybody calls is left out.
_NORMS = ("jax.numpy.linalg.norm", "optax.global_norm")
_SUM = "jax.numpy.sum"


class PerShardStatistics(Rule):
    """A softmax, norm, sort or shift runs along a dimension that is sharded over the devices.

    Each device normalizes, sorts or shifts its own piece of the dimension. Shapes are right and nothing raises.

    ## Reports
    - proven: `softmax`, `logsumexp`, `cumsum`, `sort`, `argmax`, `top_k` and similar functions in a `shard_map` body
      along a dimension that its in spec shards, if nothing in the body communicates over that axis.
    - proven: a mean, variance or median along a dimension of size 1 that `in_specs` leave of a stack for each device.
    - `product` (likely): a `softmax` of a matrix product with sharded columns.
    - `reduced-later` (likely): a `softmax` whose result alone is summed over the axis.
    - `own-maximum` (likely): `psum` of `exp(x - m)` with the maximum `m` of each device's own shard.
    - `features` (likely): a mean, sum or variance along the last dimension, combined with it again (a layer norm).
    - `norm` (likely): a division by the norm or spread of each device's own piece.
    - `own-norm` (likely): the result of `psum_scatter`, scaled by the norm of each device's own piece.
    - `shifted` (likely): `roll`, `flip`, `diff`, `x[:, 1:]` or a convolution along such a dimension, if no neighbor
      exchange goes over the axis.
    - `batch-stats` (likely): `batch_stats` that a pmapped step updates on each device, if nothing averages them and
      one device's copy is saved or evaluated.
    - `normalised`, `last`, `shifted-last` (possible): the same along another dimension, or along the last one if the
      last entry of the spec is assumed to belong to it.

    ## Write instead
    Leave the dimension unsharded (`None` in the spec), gather it, or reduce over the axis: for a softmax,
    `jax.lax.pmax` of the maximum and `jax.lax.psum` of the sum.

    ## Limits
    Bodies with a collective over the axis are not reported, except for the likely forms above.
    """

    code = "SL409"
    name = "per-shard-statistics"
    harm = Harm.SILENT
    likely = (
        "reduced-later", "own-maximum", "product", "features", "norm", "own-norm", "batch-stats", "shifted"
    )  # fmt: skip
    assumptions: ClassVar[Mapping[str, str]] = {
        "reduced-later": "The sums over the axis do not renormalize the softmax.",
        "own-maximum": "The shards have different maxima.",
        "product": "The columns of the product are the classes of one softmax.",
        "features": "The last dimension has the last entry of the spec.",
        "norm": "The norm is meant for the unsharded dimension.",
        "own-norm": "The norm is meant for all gradients.",
        "shifted": "The array is longer than one shard.",
    }
    assumes = True
    triggers = (
        *MAPPING,
        Mapped(calling=(("norm(", "psum_scatter"),)),
        Calls("jax.lax.psum"),
        Keywords("mutable", file_says=("batch_stats",)),
        Methods("apply", file_says=("pmap",)),
        Violates("statistics.single"),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place."""
        if site.form == "violation":
            yield self._report_single_entry(site)
            return
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
            evidence = (
                f"nothing in the body communicates over {shown(event.axes)}"
                if sure
                else "the result is combined with the sharded dimension again"
                if again
                else "psum runs after the softmax, and no pmax over the axis"
                if later
                else "the last entry of the spec is taken for the last dimension"
            )
            yield site.finding(
                node,
                f"Each device divides by the norm or spread of its own shard along {shown(event.axes)}."
                if later and norm
                else f"Each device computes `{event.note.rstrip('?+')}` of its own shard only; "
                f"the dimension is sharded over {shown(event.axes)}.",
                label=f"sharded over {shown(event.axes)}",
                help="leave the dimension unsharded in in_specs, or reduce over the axis",
                certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
                form="" if sure else _form(event, again, later),
                why=join_reasons(evidence, describe_location(site, event)),
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
                f"`{what}` differs on each device; only the first device's batch statistics are saved or evaluated.",
                label="per-device batch statistics",
                help=f"average them: jax.lax.pmean({what}, axis), or pass "
                f"{'axis_name' if linen else 'cross_replica_axis'} to BatchNorm",
                certainty=Certainty.POSSIBLE,
                form="batch-stats",
                why="the step is pmapped, nothing averages the statistics, and the first device's state is read",
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
                f"Entries at shard borders are wrong: each device shifts its own shard along {shown(event.axes)}.",
                label=f"sharded over {shown(event.axes)}",
                help=f"exchange the borders with jax.lax.ppermute over {shown(event.axes)}, or shift outside the body",
                certainty=Certainty.POSSIBLE,
                form="shifted-last" if event.note == "?" else "shifted",
                why=join_reasons(
                    "in_specs shard this dimension, and nothing in the body exchanges neighbors",
                    describe_location(site, event),
                ),
            )

    def _own_norms(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        """Gradients that were scattered, each part of which is scaled by a norm of its own."""
        for _, event, node in events(site, "own norm", inside=(*_NORMS, _SUM)):
            if node in done:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"Each device scales its shard by its own norm along {shown(event.axes)}, and clips too little.",
                label="norm of one shard",
                help="sum the squares over the axis: "
                f"jnp.sqrt(jax.lax.psum(jnp.sum(g * g), {as_argument(event.axes[:1])}))",
                certainty=Certainty.POSSIBLE,
                form="own-norm",
                why=join_reasons(
                    "psum_scatter left a shard on each device, and nothing reduces the norm",
                    describe_location(site, event),
                ),
            )

    def _report_single_entry(self, site: Site) -> Finding:
        said = site.violation.said
        return site.finding(
            site.syntax,
            f"`{said['operation']}` is over one element: each device gets an array with a first dimension of size 1.",
            help="take the entry of the device first, with `x[0]` in the body",
            certainty=Certainty.PROVEN,
            why=f"line {said['line']} reduces `{said['shape']}` along it; `pmap` removes it, shard_map does not",
        )

    def _own_maximum(self, site: Site) -> Iterator[Finding]:
        """A sum over the devices of exponentials that each device took by a maximum of its own."""
        operand = site.argument("x") or next(iter(site.call.args), None)
        largest = own_maximum(site, operand) if operand is not None and site.form == "call" else None
        if largest is None:
            return
        yield site.finding(
            site.call,
            "The softmax denominator is wrong: this psum adds exponentials that subtract different maxima.",
            label="exp with a per-device maximum",
            help="reduce the maximum first: m = jax.lax.pmax(m, axis)",
            certainty=Certainty.POSSIBLE,
            form="own-maximum",
            why=f"`{site.shown(largest)}` is the maximum of one shard",
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

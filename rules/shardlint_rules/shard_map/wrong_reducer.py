"""SL403."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import BY_OWN, OWN_SUM, Event, leaves
from shardlint.model.values import Place
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Certainty, Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.shard_map._shares import share
from shardlint_rules.shard_map.runs import (
    as_argument,
    describe_location,
    events,
    join_reasons,
    operand,
    shown,
    too_large,
)

_REDUCING = ("jax.lax.psum", "jax.lax.pmean")
_SUM_BOTH = "sum both over the devices: psum(sum) / psum(count)"
# What is averaged, why that is not the one of all data, and what to write.
_AVERAGED = {
    "std": (
        "standard deviations or variances",
        "the spread of the means between shards is left out",
        _SUM_BOTH,
    ),
    "masked": (
        "masked means",
        "a shard with few valid elements counts as much as one with many",
        _SUM_BOTH,
    ),
    "curved": (
        "nonlinear functions of means",
        "a root, logarithm, exponential or quotient of a mean is not linear in it",
        "average the mean first, then apply the function: jnp.exp(jax.lax.pmean(loss, axis))",
    ),
}


class WrongReducer(Rule):
    """A collective combines per-shard statistics incorrectly.

    `psum` of eight means is eight times the mean. `pmean` of masked means weighs a shard with one valid element like
    one with a thousand. A sum divided by another count is not a mean. Nothing raises, with or without `check_vma`.

    ## Reports
    - proven: `psum` of a per-shard mean, if the sum is returned and never divided.
    - `gradients` (likely): `psum` of the gradients of a per-shard mean.
    - `masked` (likely): `pmean` of masked means.
    - `curved` (likely): `pmean` of a root, logarithm, exponential or quotient of a mean.
    - `by-devices` (likely): a `psum` over some mesh axes divided by `jax.device_count()`, or one over a pmap axis
      divided by `jax.local_device_count()`.
    - `own-sum` (likely): a per-device sum in a `pmap` divided by a count of all devices, if nothing adds the quotients.
    - `own-count` (likely): a sum over all devices divided by the rows (`x.shape[0]`) or a sum of one device.
    - `std` (possible): `pmean` of a standard deviation or variance.

    ## Write instead
    Use `jax.lax.pmean` for means of shards of equal size. Otherwise reduce the sum and the count:
    `psum(sum) / psum(count)`.

    ## Limits
    A dictionary of figures that a training step reduces apart from its gradients is not reported.
    """

    code = "SL403"
    name = "wrong-reducer"
    harm = Harm.SILENT
    likely = ("masked", "by-devices", "gradients", "curved", "own-sum", "own-count")
    assumptions: ClassVar[Mapping[str, str]] = {
        "masked": "The shards have different numbers of valid elements.",
        "curved": "The shards have different means.",
        "gradients": "The learning rate is not divided by the number of devices.",
        "by-devices": "The axes that are not reduced, or the other processes, have more than one device.",
        "own-sum": "No code outside the function adds the results of the devices.",
        "own-count": "No code outside the function divides the result again.",
    }
    assumes = True
    triggers = (*MAPPING, Mapped(calling=(("psum", "pmean"),)))
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each reduction."""
        done: set[ast.AST] = set()
        for ran, event, node in _in_results(site, "sum of means", done):
            yield site.finding(
                node,
                f"`psum` adds up per-shard means{operand(event, ' ')}: the result is {too_large(ran, event.axes)}.",
                label=f"sum of means over {shown(event.axes)}",
                help="write jax.lax.pmean, or psum(sum) / psum(count)",
                why=join_reasons(
                    "every device passes the mean of its own data", describe_location(site, event)
                ),
            )
        for ran, event, node in _in_results(site, "sum of gradients", done):
            yield site.finding(
                node,
                f"`psum` adds up gradients of per-shard means: the step is {too_large(ran, event.axes)}.",
                label="sum of gradients of means",
                help="write jax.lax.pmean",
                certainty=Certainty.POSSIBLE,
                form="gradients",
                why=join_reasons(
                    "the loss is a mean, and nothing divides the sum", describe_location(site, event)
                ),
            )
        yield from self._by_devices(site, done)
        for ran, event, node in _in_results(site, OWN_SUM, done, None):
            if ran.mapped.api != "jax.pmap" or share(event.place):
                continue  # SL402 reports it in a shard_map
            yield site.finding(
                node,
                f"The mean differs on each device: a per-device sum is divided by a count over {shown(event.axes)}.",
                label="sum of one device, count of all",
                help=_SUM_BOTH,
                certainty=Certainty.POSSIBLE,
                form="own-sum",
                why=join_reasons(
                    "nothing adds the sum over the devices later", describe_location(site, event)
                ),
            )
        for ran, event, node in _in_results(site, BY_OWN, done, None):
            rows = event.note == "rows"
            effect = (
                f"The mean is {too_large(ran, event.axes)}" if rows else "The mean differs on each device"
            )
            yield site.finding(
                node,
                f"{effect}: a sum over {shown(event.axes)} is divided by one device's count.",
                label="sum of all devices, count of one",
                help=_SUM_BOTH,
                certainty=Certainty.POSSIBLE,
                form="own-count",
                why=join_reasons("no psum reduces the count", describe_location(site, event)),
            )
        for _, event, node in events(
            site, "mean of std", "mean of masked", "mean of curved", inside=_REDUCING
        ):
            kind = event.kind.rpartition(" ")[2]
            if node in done or (kind == "masked" and _is_logged(event.place)):
                continue
            done.add(node)
            what, why, instead = _AVERAGED[kind]
            yield site.finding(
                node,
                f"`pmean` of {what} along {shown(event.axes)} is not the global value.",
                label=f"mean of {what}",
                help=instead,
                certainty=Certainty.POSSIBLE,
                form=kind,
                why=join_reasons(why, describe_location(site, event)),
            )

    def _by_devices(self, site: Site, done: set[ast.AST]) -> Iterator[Finding]:
        """Sums over some devices divided by the number of other devices."""
        for ran, event, node in events(site, "sum by devices"):
            if node in done or not self._still_wrong(site, ran, event):
                continue
            done.add(node)
            count = "jax.device_count()" if event.note == "all" else "jax.local_device_count()"
            counted = (
                "the devices along all mesh axes" if event.note == "all" else "the devices of one process"
            )
            yield site.finding(
                node,
                f"This is not a mean: the sum is over {shown(event.axes)}, but `{count}` counts a different set.",
                label=f"psum over {shown(event.axes)} only"
                if event.note == "all"
                else "psum over all processes",
                help=f"write jax.lax.pmean, or divide by jax.lax.psum(1, {as_argument(event.axes)})",
                certainty=Certainty.POSSIBLE,
                form="by-devices",
                why=join_reasons(f"{count} counts {counted}", describe_location(site, event)),
            )

    def _still_wrong(self, site: Site, ran: Ran, event: Event) -> bool:
        """True if the quotient reaches a result, and the count is not that of the devices summed over."""
        if not event.axes or not all(isinstance(axis, str) for axis in event.axes):
            return False
        number = ran.events.index(event)
        left = [leaf for leaf in leaves(ran.result) if number in leaf.marks]
        if event.note == "local":
            return bool(left) and ran.mapped.api == "jax.pmap"
        place = ran.mapped.settings.get("mesh", ())
        meshes = site.shardings.meshes(site.program.evaluator.value(place)) if place is not None else None
        for mesh in meshes or ():
            others = {
                axis
                for axis, size in zip(mesh.axis_names or (), mesh.sizes, strict=True)
                if axis not in event.axes and size != 1
            }
            if not others or not any(others & (leaf.reduced - event.leaf.reduced) != others for leaf in left):
                return False
        return bool(meshes) and bool(left)


def _in_results(
    site: Site, kind: str, done: set[ast.AST], inside: Collection[str] | None = _REDUCING
) -> Iterator[tuple[Ran, Event, ast.AST]]:
    """The events of the bodies that reach a result, each place once."""
    for ran, event, node in events(site, kind, inside=inside):
        number = ran.events.index(event)
        if node not in done and any(number in leaf.marks for leaf in leaves(ran.result)):
            done.add(node)
            yield ran, event, node


def _is_logged(place: Place) -> bool:
    """True if a reduction takes a dictionary of figures, in a function that also computes gradients."""
    file, call = place.file, place.node
    function = file.home(call).function()
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if function is None or given is None or not isinstance(settled_expression(file, given), ast.Dict):
        return False
    return any("grad" in last_name(one.func) for one in file.walked(function).calls)

"""SL401."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import IN_BODIES, events, shown, too_large

_HELP = "reduce the loss inside the differentiated function (jax.lax.pmean(loss, axis)), not its gradients"


class GradCountedPerDevice(Rule):
    """A gradient inside `shard_map` is already summed over the devices, and then reduced again.

    Since jax 0.6.1, `shard_map` with `check_vma=True` sums the gradient of a replicated argument over all devices.
    `pmean` of it changes nothing and `psum` adds up equal sums, so each step is too large by the number of devices.
    jax 0.5.3 and earlier, and `check_vma=False`, do not sum it.

    ## Reports
    - proven: `jax.grad` or `jax.value_and_grad` of a per-device loss with respect to a replicated argument, if the
      gradient goes to `pmean` or `psum`.
    - proven: such a gradient that `out_specs` split over these devices, as if each had its own.
    - `in-calls` (likely): the same, if the arguments of the call sites decide it.
    - `not-reduced` (possible): such a gradient of a mean, if nothing reduces it.

    ## Limits
    Not reported: a gradient that is divided, a loss that is reduced before it is differentiated, and arguments made
    varying with `jax.lax.pcast`. Changing `check_vma` alone is no fix: without the check the gradients differ on each
    device.
    """

    code = "SL401"
    name = "grad-counted-per-device"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.1"}
    likely = ("in-calls", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "in-calls": "The program calls the function as a call site shows.",
        "on-a-way": "The branch runs, and options keep their defaults.",
    }
    assumes = True
    triggers = (*IN_BODIES, Violates("gradient.summed"))
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each gradient."""
        if site.form == "violation":
            yield self._report_summed(site)
            return
        reported = set()
        for ran, event, node in sorted(
            events(site, "reduced gradient", "summed gradient"), key=lambda found: found[1].kind
        ):
            reduced = event.kind == "reduced gradient"
            if node in reported or not (reduced or event.note == "mean"):
                continue
            reported.add(node)
            yield site.finding(
                node,
                f"This gradient is {too_large(ran, event.axes)}: jax already sums it over {shown(event.axes)}.",
                label="already summed over the devices",
                help=_HELP,
                why="it is taken with respect to a replicated argument, and check_vma is on"
                + (f"; {event.note} of equal sums does not undo that" if reduced else ""),
                certainty=Certainty.PROVEN if reduced else Certainty.POSSIBLE,
                form="" if reduced else "not-reduced",
            )

    def _report_summed(self, site: Site) -> Finding:
        said = site.violation.said
        each = said["use"] == "out_specs"
        use = "`out_specs` take it for one of each device" if each else f"`{said['use']}` reduces it again"
        return site.report_violation(
            f"This gradient is too large: jax already sums it over `{said['axes']}`, and {use}.",
            help="make the argument varying first (jax.lax.pcast)" if each else _HELP,
            why="it is taken with respect to a replicated argument, and check_vma is on",
        )

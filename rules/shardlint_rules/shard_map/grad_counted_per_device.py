"""SL401."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site

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
    - `unseen` (likely): the same for a loss through a model that shardlint cannot read.
    - `on-a-way` (likely): the same on a branch that may not run, or if an option keeps its default.

    ## Limits
    Not reported: a gradient that is divided, a loss that is reduced before it is differentiated, and arguments made
    varying with `jax.lax.pcast`. Changing `check_vma` alone is no fix: without the check the gradients differ on each
    device.
    """

    code = "SL401"
    name = "grad-counted-per-device"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.1"}
    likely = ("unseen",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "unseen": "The model in the loss does not reduce over the axis.",
    }
    triggers = (Violates("gradient.summed"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the gradient."""
        said = site.violation.said
        each = said["use"] == "out_specs"
        use = "`out_specs` take it for one of each device" if each else f"`{said['use']}` reduces it again"
        yield site.report_violation(
            f"This gradient is too large: jax already sums it over `{said['axes']}`, and {use}.",
            help="make the argument varying first (jax.lax.pcast)" if each else _HELP,
            why="it is taken with respect to a replicated argument, and check_vma is on",
            form="unseen" if said["unseen"] else "",
        )

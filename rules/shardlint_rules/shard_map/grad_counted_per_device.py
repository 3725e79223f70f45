"""SL401."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site

_VARYING = (
    'make the argument varying before the gradient: write `jax.lax.pcast(w, axis, to="varying")`, '
    "on jax 0.7 `jax.lax.pvary(w, axis)`"
)
_HELP = "reduce the loss inside the differentiated function (`jax.lax.pmean(loss, axis)`), not its gradients"


class GradCountedPerDevice(Rule):
    """A gradient inside `shard_map` is reduced twice: jax already sums it over the devices.

    Each step is too large by the number of devices. From jax 0.6.1, `shard_map` with `check_vma=True` sums the gradient
    of a replicated argument over all devices. A `pmean` of that sum changes nothing, and a `psum` multiplies it by the
    number of devices. jax 0.5.3 and older do not sum the gradient. `check_vma=False` does not either.

    ## Reports
    - proven: `pmean` or `psum` of the gradient of a per-device loss with respect to a replicated argument, by
      `jax.grad` or `jax.value_and_grad`.
    - proven: `out_specs` that shard such a gradient over these devices, as if each had a different gradient.
    - `unreadable-model` (likely): such a gradient, if the loss calls a model that shardlint cannot read.

    ## Limits
    Not reported: a gradient that is divided, a loss that is reduced before it is differentiated, and arguments made
    varying with `jax.lax.pcast`. With `check_vma=False` keep the `pmean` of the gradients: the gradient of a loss that
    is reduced inside the differentiated function then differs on each device.
    """

    code = "SL401"
    name = "grad-counted-per-device"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.1"}
    likely = ("unreadable-model",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "unreadable-model": "The model in the loss does not reduce over the axis.",
    }
    triggers = (Violates("gradient.summed"),)
    fixes = "none"

    @detector("violation")
    def report_gradient(self, site: Site) -> Finding | None:
        """The gradient that is summed twice."""
        said = site.violation.said
        each = said["use"] == "out_specs"
        use = "`out_specs` treat it as different on each device" if each else f"`{said['use']}` reduces it again"
        return site.report_violation(
            f"This gradient is too large: jax already sums it over `{said['axes']}`, and {use}.",
            help=_VARYING if each else _HELP,
            why="the gradient is taken with respect to a replicated argument, and check_vma is on",
            form="unreadable-model" if said["unseen"] else "",
        )

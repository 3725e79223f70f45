"""SL206."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.shardings import JITS
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit.reads import calls_of

_GRADS = ("jax.grad", "jax.value_and_grad", "equinox.filter_grad", "equinox.filter_value_and_grad")


class GradLosesSharding(Rule):
    """Gradients that a jit returns by themselves may come back whole on every device.

    ## What it does
    Reports `jax.jit(jax.grad(loss))` without `out_shardings` where it is called with parameters that the text proves
    to be sharded. Whether the gradients lose it depends on the loss, so this is possible and not proven.

    ## Why it hurts
    The compiler picks the sharding of results that nobody asks for. Where the parameters are split over the axis
    the batch is split over (FSDP), it often sums the gradients onto every device and leaves them there: eight times
    the memory on eight devices, and a larger all-reduce. Nothing is raised, and the numbers are right.

    ## Use instead
    Or apply the gradients in the same jit, whose new parameters are constrained.

    ## Evidence
    With an FSDP weight the gradients came back as `P()`, with a weight
    split over another axis than the batch they kept theirs, alike on jax 0.4.38, 0.6.2, 0.8.3, 0.10.2 and 0.12. So it
    is a question to ask of your program: `shardlint verify` answers it. Explicit axes are left alone: there the type
    of the gradient has the sharding.
    """

    code = "SL206"
    name = "grad-loses-sharding"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*_GRADS),)
    forms = ("call",)
    where = "host"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a compiled gradient that is called with sharded parameters."""
        jit = site.file.parent(site.call)
        if not isinstance(jit, ast.Call) or jit.args[:1] != [site.call]:
            return
        if not _jits_without_a_word(site, jit):
            return
        if any(
            call.args and site.shardings.spread(site.value(call.args[0]), auto=True)
            for call in calls_of(site.file, jit)
        ):
            yield site.finding(
                jit,
                "a gradient whose sharding nobody asks for",
                f"On {site.release('jax')} the gradients may come back whole on every device, though the parameters "
                "are sharded.",
                help="give the jit out_shardings with the shardings of the parameters",
            )


def _jits_without_a_word(site: Site, jit: ast.Call) -> bool:
    if any(
        keyword.arg is None or keyword.arg in ("out_shardings", "out_axis_resources")
        for keyword in jit.keywords
    ):
        return False
    return all(isinstance(option, Api) and option.name in JITS for option in options(site.value(jit.func)))

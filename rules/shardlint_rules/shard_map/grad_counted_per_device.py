"""SL401."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import IN_BODIES, devices, events, shown

_HELP = (
    "reduce the loss inside the function that is differentiated (`jax.lax.pmean(loss, axis)`) and leave the gradients "
    "alone, or take the gradient outside of shard_map"
)


class GradCountedPerDevice(Rule):
    """A gradient inside `shard_map` is summed over the devices by jax, and averaged as if it were not.

    ## What it does
    Reports `jax.grad` or `value_and_grad` in the body of a `shard_map` whose check is on, of a loss of one device's
    data with respect to an argument that is the same on all of them, where the gradient is then given to
    `pmean` or `psum`. Possible: where nothing is done with the gradient, and the loss is a mean.

    ## Why it hurts
    Since jax 0.6.1 the gradient of a replicated argument is the sum of those of all devices. `pmean` of it changes
    nothing, and `psum` adds up equal sums: each step is as many times too long as there are devices, with no error.
    Until 0.5.3 the same code was right.

    ## Evidence
    Run on jax 0.5.3 to 0.12 with 8 devices: the gradient is 8.0 times the right one on 0.6.1 and newer (64 times with
    `psum`), and 1.0 times on 0.5.3 and with the check off. Turning the check on or off is no fix by itself: without it
    a gradient that is not reduced differs from device to device. A gradient that is divided, a loss that is reduced
    before it is differentiated, and arguments made varying with `jax.lax.pcast` are left alone.
    """

    code = "SL401"
    name = "grad-counted-per-device"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.1"}
    likely = ("in-calls",)
    assumes = True
    triggers = IN_BODIES
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each gradient."""
        found = set()
        for ran, event, node in events(site, "reduced gradient"):
            if node in found:
                continue
            found.add(node)
            times = devices(ran, event.axes)
            again = " squared" if event.note == "psum" else ""
            yield site.finding(
                node,
                f"On {site.release('jax')} this gradient is the sum over all devices, since what it is taken of is "
                f"the same on each and the check is on; {event.note} after it does not undo that: it is "
                f"{times}{again} times too large."
                if event.note == "pmean"
                else f"On {site.release('jax')} this gradient is the sum over all devices already; psum after it adds "
                f"up {times} equal sums.",
                label=f"already summed over {shown(event.axes)}",
                help=_HELP,
            )
        for ran, event, node in events(site, "summed gradient"):
            if node not in found and event.note == "mean":
                found.add(node)
                yield site.finding(
                    node,
                    f"On {site.release('jax')} jax sums this gradient over the devices: it is "
                    f"{devices(ran, event.axes)} times that of the mean of all data.",
                    label=f"summed over {shown(event.axes)}, of a mean of one device's data",
                    help=_HELP,
                    certainty=Certainty.POSSIBLE,
                    form="not-reduced",
                )

"""SL253."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class StateLosesLayout(Rule):
    """A training step returns a sharded state replicated, or a state from host memory in device memory.

    Nothing raises. From the second step on each device holds the whole state, or the state stays in device memory.
    jax compiles the step twice.

    ## Reports
    - proven: `state = step(state)` in a loop, if `step` gets a sharded array and returns it replicated.
    - proven: `state = step(state)` in a loop, if `step` gets an array in `pinned_host` memory and returns it in
      device memory.

    ## Write instead
    Pass `out_shardings` with the shardings of the state, memory kinds included.

    ## Limits
    Over Auto axes the compiler chooses the sharding of a result without `out_shardings`. Such a result is not
    reported.
    """

    code = "SL253"
    name = "state-loses-layout"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.3"}
    triggers = (Violates("carried.memory", "carried.whole"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of what the loop passes on."""
        said = site.violation.said
        if site.violation.kind == "carried.whole":
            yield site.report_violation(
                f"After this step each device holds all of `{said['array']}`, which was split over `{said['axes']}`.",
                help="give the jit `out_shardings` with the shardings that the state has",
                why=f"the loop passes on the result; before the call it is `{said['before']}`",
            )
        else:
            yield site.report_violation(
                f"After this step `{said['array']}` stays in device memory; it was in `pinned_host` memory.",
                help='give the jit `out_shardings` with `memory_kind="pinned_host"` for the state',
                why="the loop passes on the result, and the step returns it in device memory",
            )

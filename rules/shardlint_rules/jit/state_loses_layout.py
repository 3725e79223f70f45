"""SL253."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class StateLosesLayout(Rule):
    """A training step returns a sharded state as replicated, or moves a state from host to device memory.

    After the first step each device holds the full state, or the state stays in device memory. jax compiles the step
    twice. Nothing is raised.

    ## Reports
    - proven: `state = step(state)` in a loop, if `step` takes a sharded array and returns it as replicated.
    - proven: `state = step(state)` in a loop, if `step` takes an array in `pinned_host` memory and returns it in device
      memory.

    ## Write instead
    Write `jax.jit(step, out_shardings=...)` with the shardings of the state, memory kinds included.

    ## Limits
    Not reported: results over Auto axes without `out_shardings`, because the compiler chooses their sharding.
    """

    code = "SL253"
    name = "state-loses-layout"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.3"}
    triggers = (Violates("carried.memory", "carried.whole"),)
    fixes = "none"

    @detector("violation", of="carried.whole")
    def report_sharding(self, site: Site) -> Finding:
        """A state that the loop passes on without its sharding."""
        said = site.violation.said
        return site.report_violation(
            f"After this step each device holds all of `{said['array']}`, which was sharded over `{said['axes']}`.",
            help="pass `out_shardings` to jit with one entry per result: the shardings of the state, None for the "
            "others",
            why=f"the loop passes the result to the next call; before this call it is `{said['before']}`",
        )

    @detector("violation", of="carried.memory")
    def report_memory(self, site: Site) -> Finding:
        """A state that the loop passes on in device memory."""
        return site.report_violation(
            f"This step moves `{site.violation.said['array']}` from `pinned_host` to device memory, where it stays.",
            help="pass `out_shardings` to jit with one entry per result: "
            '`sharding.with_memory_kind("pinned_host")` for the state, None for the others',
            why="the step returns it in device memory, and the loop passes it to the next call",
        )

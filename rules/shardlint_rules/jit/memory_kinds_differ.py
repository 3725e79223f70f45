"""SL252."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class MemoryKindsDiffer(Rule):
    """An operation combines an array in host memory with one in device memory.

    The operation raises ValueError: jax does not copy between memories by itself.

    ## Reports
    - proven: an operation on one array in `pinned_host` memory and another one in `device` memory.

    ## Write instead
    Call `jax.device_put(x, sharding.with_memory_kind("device"))` before the operation. This `device_put` works inside
    jit too.

    ## Limits
    shardlint knows the memory kind of an array only from `device_put` and `with_memory_kind`.
    """

    code = "SL252"
    name = "memory-kinds-differ"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.3"}
    triggers = (Violates("memory.differ"),)
    fixes = "none"

    @detector("violation")
    def report_operands(self, site: Site) -> Finding | None:
        """The operation on arrays of two memory kinds."""
        said = site.violation.said
        return site.report_violation(
            f"This raises ValueError: one operand is in `{said['left']}` memory, another in `{said['right']}` memory.",
            help='write `jax.device_put(x, sharding.with_memory_kind("device"))` before the operation',
            why=f"the memory kind is chosen at line {said['made']}",
        )

"""SL253."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class ArgumentShardingDiffers(Rule):
    """An argument is committed to another sharding than `in_shardings` or `in_specs` say.

    jit does not move an argument that is committed: a sharding that differs raises ValueError. `shard_map` does not
    reshard an array over Explicit axes.

    ## Reports
    - proven: an argument of a jitted function that is committed to other devices, or split otherwise over the same
      mesh, than its `in_shardings` say.
    - proven: an argument of `shard_map` over Explicit axes whose type differs from its `in_specs`.
    - `on-a-way` (likely): the same under a condition that the text does not decide.

    ## Write instead
    `jax.device_put(x, sharding)` before the call, or no `in_shardings`: jit takes arguments as they are.
    """

    code = "SL253"
    name = "argument-sharding-differs"
    harm = Harm.CRASH
    likely = ("on-a-way",)
    assumptions: ClassVar[Mapping[str, str]] = {"on-a-way": "The program takes this branch."}
    triggers = (Violates("argument.sharding"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the contract that is broken."""
        said = site.violation.said
        yield site.broken(
            f"This call raises ValueError: it asks for `{said['wanted']}`, and the argument is `{said['have']}`.",
            help="place the argument first, with `jax.device_put`, or leave the sharding of the argument out",
            why=f"the argument is placed at line {said['line']}" if said["line"] != "0" else "",
        )

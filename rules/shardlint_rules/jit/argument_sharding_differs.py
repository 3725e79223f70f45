"""SL213."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class ArgumentShardingDiffers(Rule):
    """An argument is sharded differently from what the called function declares for it.

    `jit` compares an array that was placed before with `in_shardings` and does not move it: `ValueError`. Only numpy
    arrays and uncommitted arrays are moved. `shard_map` compares an array over Explicit axes with `in_specs`.

    ## Reports
    - proven: an argument of a jit with `in_shardings` that is placed with another sharding.
    - proven: an argument over Explicit axes, for a `shard_map` whose `in_specs` split it differently.
    - `on-a-way` (likely): the same on a branch that may not run, or if an option keeps its default.

    ## Write instead
    `jax.device_put(x, sharding)` before the call. To place what a function returns, `out_shardings`.

    ## Limits
    Shapes and shardings are followed through calls as far as literals tell them. A mesh that got Explicit axes because
    `make_mesh` has no `axis_types` is SL307.
    """

    code = "SL213"
    name = "argument-sharding-differs"
    harm = Harm.CRASH
    likely = ("on-a-way",)
    assumptions: ClassVar[Mapping[str, str]] = {"on-a-way": "The branch runs, and options keep their defaults."}
    triggers = (Violates("argument.sharding"),)
    in_version_checks = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the contract that is broken."""
        said = site.violation.said
        if said.get("types") == "default":
            return  # SL307 reports the mesh
        array = f"its argument `{said['array']}`" if said["array"] else "its argument"
        declared = "in_shardings" if said["operation"] == "jit" else "in_specs"
        have = f"on `{said['have']}`" if said["have"].startswith("device") else f"`{said['have']}`"
        placed = "it is" if said["line"] in ("0", "None") else f"line {said['line']} places it as"
        yield site.report_violation(
            f"This call raises ValueError: {array} has another sharding than its {declared} declare.",
            help="place it with jax.device_put before the call; to place what a function returns, use out_shardings",
            why=f"{placed} {have}, and {declared} declare `{said['wanted']}`",
        )

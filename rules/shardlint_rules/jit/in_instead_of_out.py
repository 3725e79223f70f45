"""SL213."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class InInsteadOfOut(Rule):
    """An argument is committed to another sharding than `in_shardings` declares.

    `in_shardings` declares the sharding that the arguments already have, and does not place them: an argument
    committed to another sharding or device raises ValueError. Only numpy arrays and uncommitted arrays are
    moved. A typical case is a function that returns its argument, jitted with `in_shardings` alone to place it.

    ## Reports
    - proven: an argument of a jit with `in_shardings`, if the text shows that it is placed with another sharding.
    - `on-a-way` (likely): the same on a branch that may not run, or with an option at its default.

    ## Write instead
    `out_shardings=...`, or `jax.device_put(x, target)` before the call.
    """

    code = "SL213"
    name = "in-instead-of-out"
    harm = Harm.CRASH
    likely = ("on-a-way",)
    assumptions: ClassVar[Mapping[str, str]] = {"on-a-way": "The branch runs, and options keep their defaults."}
    triggers = (Violates("argument.sharding"),)
    in_version_checks = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the contract that is broken."""
        said = site.violation.said
        if said["operation"] != "jit":
            return
        array = f"its argument `{said['array']}`" if said["array"] else "its argument"
        placed = "it is" if said["line"] in ("0", "None") else f"line {said['line']} places it as"
        yield site.report_violation(
            f"This call raises ValueError: {array} has another sharding than in_shardings.",
            help="place with out_shardings, or with jax.device_put before the call",
            why=f"{placed} `{said['have']}`, and in_shardings say `{said['wanted']}`",
        )

"""SL416."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class ReadAsScalar(Rule):
    """A per-device array of `pmap` is read as a single number.

    With more than one device this raises: "The truth value of an array with more than one element is ambiguous", or
    "Only scalar arrays can be converted to Python scalars". On one device it works.

    ## Reports
    - `read` (likely): a result of `replicate` or a pmapped function, or a part of one (`state.step`,
      `metrics["loss"]`), that is compared in a condition, passed to `jnp.isnan`, or given to `int`, `float`, `bool`,
      `math.isnan`, `.item()` or a number format.

    ## Write instead
    `flax.jax_utils.unreplicate(state.step)`, or the mean over the devices if they differ.

    ## Limits
    Not reported: results with `out_axes=None`, and values that may come from code that shardlint cannot read.
    """

    code = "SL416"
    name = "read-as-scalar"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("read",)
    assumptions: ClassVar[Mapping[str, str]] = {"read": "The program runs on more than one device."}
    triggers = (Violates("rows.scalar"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the read."""
        said, node = site.violation.said, site.syntax
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
            node = node.func.value
        effect = "this condition is ambiguous" if said["use"] == "condition" else "it does not convert to a scalar"
        yield site.report_violation(
            f"`{site.shown(node)}` has one entry per device: with more than one device {effect}, and raises.",
            help="read one entry with `jax_utils.unreplicate`, or average the entries",
            form="read",
            why=f"the call at line {said['line']} of {said['file']} adds a leading device dimension",
        )

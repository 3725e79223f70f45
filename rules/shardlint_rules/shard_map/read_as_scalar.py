"""SL416."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class ReadAsScalar(Rule):
    """An array with one entry for each device, such as a `pmap` result, is read as a single number.

    - A condition, `bool` and `.item()` raise ValueError on several devices. They work on one device.
    - `int`, `float`, `math.isnan` and a number format raise TypeError, on one device too.

    ## Reports
    - `read` (likely): a result of `replicate` or of a pmapped function (`state.step`, `metrics["loss"]`) in a condition
      (also through `jnp.isnan`), in `int`, `float`, `bool`, `.item()` or `math.isnan`, or in a number format.

    ## Write instead
    Write `flax.jax_utils.unreplicate(state.step)` for a value that is equal on all devices. Write
    `metrics["loss"].mean()` for a value that differs.

    ## Limits
    Not reported: results with `out_axes=None`, and values that may come from code that shardlint cannot read.
    """

    code = "SL416"
    name = "read-as-scalar"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("read",)
    assumptions: ClassVar[Mapping[str, str]] = {"read": "The program runs on more than one device."}
    triggers = (Violates("rows.scalar", is_conditional=False),)
    fixes = "none"

    @detector("violation", finds="read")
    def report_read(self, site: Site) -> Finding | None:
        """The read of an array with an entry per device."""
        said, node = site.violation.said, site.syntax
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
            node = node.func.value
        needed = "a single truth value" if said["use"] == "condition" else "a single number"
        return site.report_violation(
            f"With more than one device this raises: `{site.shown(node)}` has one entry per device, not {needed}.",
            help="read one entry with `jax_utils.unreplicate`, or write `.mean()` if the entries differ",
            why=f"the call at line {said['line']} of {said['file']} adds a leading device dimension",
        )

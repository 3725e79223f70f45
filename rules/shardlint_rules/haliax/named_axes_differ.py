"""SL607."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site

_SAYS = {
    "named.missing": (
        "This raises ValueError: {operation} names the axis {axis}, and {array} does not have it.",
        "write the name of an axis of the array",
    ),
    "named.input": (
        "This layer sums its weight over {axis}, and its input {array} has no such axis.",
        "call the layer with an array that has the input axis of the layer",
    ),
    "named.sizes": (
        "This raises an error: the axis {axis} has different sizes in {left} and {right}.",
        "rename one of the axes, or make their sizes equal",
    ),
    "named.subset": (
        "This raises ValueError: {left} and {right} each have an axis that is missing in the other.",
        "add the missing axes with `broadcast_axis`",
    ),
    "named.plain": (
        "This raises ValueError: {other} has no axis names, and {array} is not a scalar.",
        "name the axes of the plain array with `hax.named`",
    ),
    "named.shape": (
        "This raises ValueError: {array} does not have the axes {axes}.",
        "pass one axis for each dimension, with the size of the dimension",
    ),
    "named.twice": (
        "This raises ValueError: the array gets two axes with the name {axis}.",
        "rename one of the axes with `.alias(...)` or `.rename(...)`",
    ),
}


class NamedAxesDiffer(Rule):
    """A call of haliax names an axis that the array does not have, or combines arrays with different axes.

    The call raises when the line runs. Under `named_jit` that is after loading the data. A contraction raises nothing
    if one of its arrays has the axis.

    ## Reports
    - proven: a reduction, contraction, index or rearrangement over an axis that the array does not have.
    - proven: two axes with the same name and different sizes.
    - proven: an operation on two arrays, if each has an axis that is missing in the other.
    - proven: an operation on a `NamedArray` and a plain array that is not a scalar.
    - proven: a call of a `hax.nn.Linear` with an array without the input axis of the layer. Nothing is raised.
    - proven: `hax.named` or `hax.NamedArray` with axes that do not match the array, or with one name twice.

    ## Limits
    Not reported: arrays whose axes the code does not show, such as the fields of a model from a configuration.
    """

    code = "SL607"
    name = "named-axes-differ"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (Violates(*_SAYS),)
    fixes = "none"

    @detector("violation")
    def report_operation(self, site: Site) -> Finding | None:
        """The operation on arrays whose axes differ."""
        message, help = _SAYS[site.violation.kind]
        why = f"checked for {site.release('haliax')}"
        harm = Harm.SILENT if site.violation.kind == "named.input" else None
        return site.report_violation(message, help=help, why=why, words=site.violation.quoted, harm=harm)

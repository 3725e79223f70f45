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
        "The output is wrong: the layer sums its weight over {axis}, which its input {array} does not have.",
        "call the layer with an array that has the input axis of the layer",
    ),
    "named.sizes": (
        "This raises an error: the axis {axis} has different sizes in {left} and {right}.",
        "rename one of the axes, or make their sizes equal",
    ),
    "named.subset": (
        "This raises ValueError: {left} and {right} each have an axis that is missing in the other.",
        "write `x.broadcast_axis(axis)` to add the missing axis to one of the arrays",
    ),
    "named.plain": (
        "This raises ValueError: {array} is combined with {other}, which has no axis names and is not a scalar.",
        "write `hax.named(x, axes)` for the array x without names",
    ),
    "named.shape": (
        "This raises ValueError: {array} does not have the axes {axes}.",
        "pass one axis for each dimension, with the size of the dimension",
    ),
    "named.twice": (
        "This raises ValueError: the array gets two axes with the name {axis}.",
        "write `axis.alias(name)` for one of two equal axes, or `array.rename({old: new})`",
    ),
}


class NamedAxesDiffer(Rule):
    """A call of haliax names an axis that the array does not have, or combines arrays with different axes.

    The call raises when the line runs. Under `named_jit` that is the first call, often after the data is loaded. A
    contraction such as `hax.dot` raises nothing if another of its arrays has the axis.

    ## Reports
    - proven: a reduction, contraction, index or rearrangement over an axis that the array does not have.
    - proven: two axes with the same name and different sizes.
    - proven: an operation on two arrays, if each has an axis that is missing in the other.
    - proven: an operation on a `NamedArray` and a plain array that is not a scalar.
    - proven: a call of a `hax.nn.Linear` with an array without the input axis of the layer. Nothing is
      raised: the layer sums its weight over this axis.
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
        return site.report_violation(message, help=help, why=why, words=site.violation.quoted_details, harm=harm)

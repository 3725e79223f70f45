"""SL607."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site

_SAYS = {
    "named.missing": (
        "This raises ValueError: {operation} names the axis {axis}, and {array} has none.",
        "name an axis of the array",
    ),
    "named.input": (
        "This layer sums its weight over {axis}, and its input {array} has no such axis.",
        "call the layer with an array that has its input axis",
    ),
    "named.sizes": (
        "This raises an error: the axis {axis} has different sizes in {left} and {right}.",
        "give one of them another name, or the same size",
    ),
    "named.subset": (
        "This raises ValueError: {left} and {right} each have an axis that the other lacks.",
        "add the axes that are missing with `broadcast_axis`",
    ),
    "named.plain": (
        "This raises ValueError: {other} has no axis names, and {array} is no scalar.",
        "name its axes with `hax.named`",
    ),
    "named.shape": (
        "This raises ValueError: {array} does not have the axes {axes}.",
        "name one axis for each dimension, with its size",
    ),
    "named.twice": (
        "This raises ValueError: the array gets two axes with the name {axis}.",
        "rename one of them with `.alias(...)` or `.rename(...)`",
    ),
}


class NamedAxesDiffer(Rule):
    """A call of haliax names an axis that the array does not have, or combines arrays with different axes.

    It raises when the line runs, which under `named_jit` is after the data was loaded. A contraction raises nothing if
    one of its arrays has the axis.

    ## Reports
    - proven: a reduction, contraction, index or rearrangement over an axis that the array does not have.
    - proven: an axis with the same name and another size, in an array or in an argument.
    - proven: an operation on two arrays that each have an axis that the other lacks, or on a `NamedArray` and a
      plain array that is no scalar.
    - proven: a `hax.nn.Linear` that is called with an array without its input axis. It raises nothing.
    - proven: `hax.named` and `hax.NamedArray` with axes that are not those of the array, or with one name twice.

    ## Limits
    Not reported: arrays whose axes the code does not show, such as the fields of a model from a configuration.
    """

    code = "SL607"
    name = "named-axes-differ"
    harm = Harm.CRASH
    likely = ("conditional",)
    assumptions: ClassVar[Mapping[str, str]] = {"conditional": "The branch runs, and options keep their defaults."}
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (Violates(*_SAYS),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of a call."""
        message, help = _SAYS[site.violation.kind]
        why = f"checked for {site.release('haliax')}"
        harm = Harm.SILENT if site.violation.kind == "named.input" else None
        yield site.report_violation(message, help=help, why=why, words=site.violation.quoted, harm=harm)

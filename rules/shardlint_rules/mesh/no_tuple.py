"""SL325."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.config.certainty import Certainty
from shardlint.model.values import Items, options
from shardlint.rules_api.rule import Finding, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name

# What holds axis names, one for each dimension, by its name and by its annotation.
_HOLDING = regex(
    r"(^|_)(axes|shardings?|p?specs?|partitions?|partitioning|axis_names|mesh_axes|dims_mapping)$", re.I
)
_TUPLE = regex(
    r"[\"']?(?:\w+\.)*(?:(?:Optional|Annotated|Final|ClassVar)\[)?(?:\w+\.)*"
    r"([Tt]uple|Sequence|Sharding|Axes|AxisNames|LogicalNames)\b"
)
_ONE_OR_MORE = regex(
    r"\bstr\b[^\[\]]*\||\|\s*str\b|Union\[[^\]]*\bstr\b|Optional\[str|^str$|PartitionSpec|\bP\b"
)
_PARENTHESISED = r"\(\s*(?:[\w.]+|\"\w+\"|'\w+')\s*\)"


class NoTuple(Rule):
    """`("data")` is a string: parentheses alone make no tuple.

    ## What it does
    Reports a field or name of axis names (annotated as a tuple or `Sharding`, or called axes, spec or sharding) whose
    value is one name in parentheses.

    ## Why it hurts
    What takes the value for a tuple goes over the letters: `PartitionSpec(*axes)` of `("data")` has the entries `"d"`,
    `"a"`, `"t"` and `"a"`, and raises where the sharding is made. What takes it as a whole raises for a string.

    ## Fix safety
    Unsafe: `("data",)` is a tuple from then on, and code that took it for a name may read it.

    ## Evidence
    The proof runs it. A name that may hold one axis as well (`str | tuple`) is left alone, and so is one that stands
    for a tuple: `(BATCH_AXES)`.
    """

    code = "SL325"
    name = "parentheses-make-no-tuple"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("annotated",)
    triggers = (Lines(rf"[\w.]+\s*(?::[^=\n]+)?=\s*{_PARENTHESISED}\s*(?:#[^\n]*)?$", saying=("= (", "=(")),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for an assignment."""
        match site.syntax:
            case ast.AnnAssign(target=target, value=ast.expr() as value, annotation=annotation):
                said = site.text(annotation)
            case ast.Assign(targets=[target], value=value):
                said = ""
            case _:
                return
        name = last_name(target)
        if _ONE_OR_MORE.search(said) or not (_TUPLE.match(said) if said else _HOLDING.search(name)):
            return
        written = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if not written and not (said and isinstance(value, ast.Attribute | ast.Name)):
            return
        start, end = site.file.span(value)
        text = site.file.source.text
        before, after = text[:start].rstrip(), text[end:].lstrip()
        if not before.endswith("(") or not after.startswith(")"):
            return
        known = options(site.value(value))
        if any(isinstance(one, Items) for one in known) and "Sharding" not in said:
            return
        whole = f"({site.text(value)},)"
        why = "code that took it for a name may read it"
        yield site.finding(
            value,
            "a tuple needs a comma",
            f"`{name}` is {site.text(value)} itself: what goes over it as a tuple of axis names goes over its letters.",
            help=f"write {whole}",
            certainty=Certainty.POSSIBLE,
            form="annotated" if said else "by-name",
            why=f"it is annotated {said}" if said else "its name says that it holds axes",
            fix=site.fix(Safety.UNSAFE, f"write {whole}", [site.replace(value, f"{site.text(value)},")], why),
        )

"""SL325."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.config.certainty import Certainty
from shardlint.model.evaluator.annotations import union_members
from shardlint.model.values import Constant, Place, Unknown, Value, options
from shardlint.rules_api.rule import Finding, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name

# Types that are a name for each dimension, and an entry may be a tuple of names.
_ENTRIES = ("Sharding", "Axes", "AxisNames", "LogicalNames")
_NO_NAMES = ("int", "float", "complex", "bool", "bytes", "tuple", "Tuple", "list", "List", "slice")
_PARENTHESISED = r"\(\s*(?:[\w.]+|\"\w+\"|'\w+')\s*\)"


class NoTuple(Rule):
    """`("data")` is a string: parentheses without a comma make no tuple.

    Code that iterates over the value gets its characters: `PartitionSpec(*axes)` of `("data")` has the entries `"d"`,
    `"a"`, `"t"` and `"a"`, and raises where the sharding is made.

    ## Reports
    - `annotated` (likely): a name in parentheses as the value of a field or variable that is annotated as a tuple of
      names (`tuple[str, ...] | None`, `Sharding`).

    ## Fix
    Adds the comma. Unsafe, since code that took the value for a string may read it.

    ## Limits
    A union with another type that fits (`str | tuple`) and a name that refers to a tuple are not reported.
    """

    code = "SL325"
    name = "parentheses-make-no-tuple"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("annotated",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "annotated": "The code reads the value as its annotation says."
    }
    triggers = (Lines(rf"[\w.]+\s*(?::[^=\n]+)?=\s*{_PARENTHESISED}\s*(?:#[^\n]*)?$", saying=("= (", "=(")),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for an assignment."""
        match site.syntax:
            case ast.AnnAssign(
                target=target,
                value=ast.Constant() | ast.Attribute() | ast.Name() as value,
                annotation=annotation,
            ):
                kinds = _tuple_kinds(site, annotation)
            case _:
                return
        name = last_name(target)
        if not kinds:
            return
        known = options(site.value(value))
        if not kinds <= {*_ENTRIES} and not all(_may_be_string(one) for one in known):
            return
        start, end = site.file.span(value)
        text = site.file.source.text
        before, after = text[:start].rstrip(), text[end:].lstrip()
        if not before.endswith("(") or not after.startswith(")"):
            return
        whole = f"({site.text(value)},)"
        why = "code that takes it for a string may read it"
        yield site.finding(
            value,
            f"Parentheses don't make a tuple: iterating over `{name}` yields characters.",
            label="no comma",
            help=f"write {whole}",
            certainty=Certainty.POSSIBLE,
            form="annotated",
            why=f"`{name}` is annotated {site.text(annotation)}",
            fix=site.fix(Safety.UNSAFE, f"write {whole}", [site.replace(value, f"{site.text(value)},")], why),
        )


def _tuple_kinds(site: Site, annotation: ast.expr) -> frozenset[str]:
    """The types of an annotation, if a tuple of one axis name is of each of them, and nothing else is but None."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return frozenset()
    found: set[str] = set()
    for _, kind in union_members(Place(site.file, annotation)):
        match kind:
            case ast.Constant(value=None):
                continue
            case ast.Subscript(value=ast.Name() | ast.Attribute() as generic, slice=of):
                elements = of.elts if isinstance(of, ast.Tuple) else [of]
                more = [one for one in elements[1:] if not _is_ellipsis(one)]
                named = last_name(generic) in ("tuple", "Tuple", "Sequence") and not more
                fits = named and any(
                    _may_be_name(one) for _, one in union_members(Place(site.file, elements[0]))
                )
                found.add(last_name(generic) if fits else "")
            case _:
                found.add(last_name(kind) if last_name(kind) in ("tuple", "Tuple", *_ENTRIES) else "")
    return frozenset() if "" in found else frozenset(found)


def _may_be_string(value: Value) -> bool:
    """Whether a value is a string, or the value of an enum, of which the model knows nothing."""
    return isinstance(value, Unknown) or (isinstance(value, Constant) and isinstance(value.value, str))


def _may_be_name(element: ast.expr) -> bool:
    generic = element.value if isinstance(element, ast.Subscript) else element
    return last_name(generic) not in _NO_NAMES and not (
        isinstance(element, ast.Constant) and element.value is None
    )


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...

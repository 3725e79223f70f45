"""SL325."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.config.certainty import Certainty
from shardlint.model.evaluator.annotations import union_members
from shardlint.model.values import Constant, Place, Unknown, Value, options
from shardlint.rules_api.rule import Finding, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name

# What holds axis names, one for each dimension, by its name and by its annotation.
_HOLDING = regex(
    r"(^|_)(axes|shardings?|p?specs?|partitions?|partitioning|axis_names|mesh_axes|dims_mapping)$", re.I
)
# Types that are a name for each dimension, and an entry may be a tuple of names.
_ENTRIES = ("Sharding", "Axes", "AxisNames", "LogicalNames")
_NO_NAMES = ("int", "float", "complex", "bool", "bytes", "tuple", "Tuple", "list", "List", "slice")
_PARENTHESISED = r"\(\s*(?:[\w.]+|\"\w+\"|'\w+')\s*\)"


class NoTuple(Rule):
    """`("data")` is a string: parentheses alone make no tuple.

    ## What it does
    Reports a field or name of axis names whose value is one name in parentheses: annotated with a type of which a
    tuple of one name is, and nothing else (`tuple[str, ...] | None`, `Sharding`), or called axes, spec or sharding.

    ## Why it hurts
    What takes the value for a tuple goes over the letters: `PartitionSpec(*axes)` of `("data")` has the entries `"d"`,
    `"a"`, `"t"` and `"a"`, and raises where the sharding is made. What takes it as a whole raises for a string.

    ## Fix safety
    Unsafe: `("data",)` is a tuple from then on, and code that took it for a name may read it.

    ## Evidence
    The proof runs it. A union of which another member may fit (`str | tuple`, `tuple[int, int] | Mode`) is left alone,
    and so is a name that stands for a tuple: `(BATCH_AXES)`.
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
            case ast.AnnAssign(
                target=target, value=ast.Constant() | ast.Attribute() | ast.Name() as value, annotation=annotation
            ):
                kinds, said = _tuple_kinds(site, annotation), f"it is annotated {site.text(annotation)}"
            case ast.Assign(targets=[target], value=ast.Constant(value=str()) as value):
                kinds, said = frozenset({"tuple"}), ""
            case _:
                return
        name = last_name(target)
        if not kinds or not (said or _HOLDING.search(name)):
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
        why = "code that took it for a name may read it"
        yield site.finding(
            value,
            f"`{name}` is {site.text(value)} itself: what goes over it as a tuple of axis names goes over its letters.",
            label="a tuple needs a comma",
            help=f"write {whole}",
            certainty=Certainty.POSSIBLE,
            form="annotated" if said else "by-name",
            why=said or "its name says that it holds axes",
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
                fits = named and any(_may_be_name(one) for _, one in union_members(Place(site.file, elements[0])))
                found.add(last_name(generic) if fits else "")
            case _:
                found.add(last_name(kind) if last_name(kind) in ("tuple", "Tuple", *_ENTRIES) else "")
    return frozenset() if "" in found else frozenset(found)


def _may_be_string(value: Value) -> bool:
    """Whether a value is a string, or the value of an enum, of which the model knows nothing."""
    return isinstance(value, Unknown) or (isinstance(value, Constant) and isinstance(value.value, str))


def _may_be_name(element: ast.expr) -> bool:
    generic = element.value if isinstance(element, ast.Subscript) else element
    return last_name(generic) not in _NO_NAMES and not (isinstance(element, ast.Constant) and element.value is None)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...

"""SL339."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

from shardlint.facts.shardings import is_sharding, is_spec
from shardlint.model.values import Api, Items, Parameter, options
from shardlint.rules_api.rule import (
    Attributes,
    Edit,
    Finding,
    Fix,
    Harm,
    Lines,
    Rule,
    Safety,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import last_name
from shardlint.syntax.nodes import child_nodes, walk_nodes

_SPEC = "jax.sharding.PartitionSpec"
_EQUAL = ("assertEqual", "assertTupleEqual")
_TUPLES = ("builtins.tuple", "builtins.list")
_Kind = Literal["equal", "isinstance"]


@dataclass(frozen=True)
class _SpecUse:
    """A spec used as the tuple it no longer is, and by what it is known for a spec."""

    kind: _Kind
    whole: ast.expr
    spec: ast.expr
    other: ast.expr
    answer: bool
    why: str
    """Empty where it is certain."""


class SpecIsNoTuple(Rule):
    """A `PartitionSpec` is compared with a tuple, or tested with `isinstance(spec, tuple)`.

    Since jax 0.10 a spec never equals a tuple, and since jax 0.6.1 a spec is not an instance of `tuple`. Tests fail
    after an upgrade. A program that branches on the comparison reshards at every step, or never.

    ## Reports
    - proven: `spec == (...)`, `spec != (...)` and `assertEqual(spec, (...))` from jax 0.10 on. The spec is
      `x.sharding.spec`, or the program creates it.
    - proven: a comparison of a spec with a list, on every release.
    - proven: `isinstance(spec, tuple)` from jax 0.6.1 on, unless it tests for `PartitionSpec` too.
    - `annotated` (possible): a comparison or `isinstance` test of a parameter that is annotated as a spec.

    ## Fix
    - `spec == PartitionSpec(...)` for a literal tuple
    - `tuple(spec) == entries` for a variable `entries`
    - `isinstance(spec, (tuple, PartitionSpec))`

    Each of them gives the old result on every release, with one exception: `P("data") == (("data",),)` was true, and
    `tuple(P("data")) == (("data",),)` is false.
    """

    code = "SL339"
    name = "spec-is-no-tuple"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.30"}
    triggers = (
        Attributes("spec", file_says=("jax", "harding", "mesh", "Mesh", "artition")),
        Lines(r"[^#\n]*\bisinstance\(", file_says="PartitionSpec", saying=("isinstance(",)),
    )
    fixes = "safe"

    @detector("attribute")
    def find_around_attribute(self, site: Site) -> Iterator[Finding]:
        """The comparison or question that an attribute stands in."""
        node, parent = site.syntax, site.file.parent(site.syntax)
        if isinstance(node, ast.Attribute) and isinstance(parent, ast.expr):
            yield from self._make_finding(site, _find_spec_questions(site, parent, node))

    @detector("line")
    def find_in_statement(self, site: Site) -> Iterator[Finding]:
        """One finding for each call of a statement that compares or questions a spec."""
        for node in _header_expressions(site.syntax):
            for one in walk_nodes(node):
                if isinstance(one, ast.Call):
                    yield from self._make_finding(site, _find_spec_questions(site, one, None))

    def _make_finding(self, site: Site, spec_uses: Iterable[_SpecUse]) -> Iterator[Finding]:
        for seen in spec_uses:
            listed = _is_list(site, seen.other)
            if seen.kind == "isinstance":
                if not site.allows("jax", ">=0.6.1"):
                    continue
                mistake, why = "is not a tuple", "since jax 0.6.1 PartitionSpec is not a subclass of tuple"
            elif listed:
                mistake, why = "never equals a list", "a PartitionSpec was never equal to a list"
            elif site.allows("jax", ">=0.10"):
                mistake, why = "never equals a tuple", "since jax 0.10 a PartitionSpec is equal to specs only"
            else:
                continue
            called = isinstance(seen.whole, ast.Call) and seen.kind == "equal"
            yield site.finding(
                seen.whole,
                f"This {'always raises AssertionError' if called else f'is always {seen.answer}'}: a `PartitionSpec` "
                f"{mistake}.",
                label="always fails" if called else f"always {seen.answer}",
                help=_write_help(site, seen),
                fix=_write_fix(site, seen) if not listed or seen.kind == "isinstance" else None,
                harm=Harm.CRASH if called or _is_asserted(site, seen) else Harm.SILENT,
                form="annotated" if seen.why else "",
                why="; ".join(filter(None, (why, seen.why))),
            )


def _header_expressions(statement: ast.AST) -> Iterator[ast.expr]:
    """The expressions of a statement that stand on its own lines, not in its blocks."""
    for child in child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child


def _find_spec_questions(site: Site, node: ast.expr, spec: ast.Attribute | None) -> Iterator[_SpecUse]:
    """A comparison or a question of a spec: of this attribute, or of one that is no such attribute."""
    match node:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
            pair, answer = (node.left, right), isinstance(op, ast.NotEq)
        case ast.Call(func=ast.Attribute(attr=attr), args=[left, right, *_]) if attr in _EQUAL:
            pair, answer = (left, right), False
        case ast.Call(func=ast.Name() as called, args=[left, right], keywords=[]):
            mine = spec is left or (spec is None and not _is_spec_attribute(left))
            why = _find_spec(site, left) if mine and _is_api(site, called, "builtins.isinstance") else None
            if why is not None and _tests_for_tuple(site, right):
                yield _SpecUse("isinstance", node, left, right, False, why)
            return
        case _:
            return
    for one, other in (pair, pair[::-1]):
        if one is not spec and (spec is not None or _is_spec_attribute(one)):
            continue
        if not _is_tuple(site, other) and not _is_list(site, other):
            continue
        why = _find_spec(site, one)
        if why is not None:
            yield _SpecUse("equal", node, one, other, answer, why)
            return


def _is_spec_attribute(node: ast.expr) -> bool:
    """Return whether the expression is `x.spec`, which the trigger on attributes reports."""
    return isinstance(node, ast.Attribute) and node.attr == "spec"


def _find_spec(site: Site, node: ast.expr) -> str | None:
    """Why an expression is a spec: empty where that is certain, None where it is none."""
    value = site.value(node)
    if is_spec(value):
        return ""
    if isinstance(node, ast.Attribute) and node.attr == "spec":
        owner = node.value
        if is_sharding(site.value(owner)):
            return ""
        if isinstance(owner, ast.Attribute) and owner.attr == "sharding":
            return None if isinstance(owner.value, ast.Name) and owner.value.id in ("self", "cls") else ""
        return None
    if isinstance(value, Parameter) and value.place.file is site.file:
        annotation = getattr(value.place.node, "annotation", None)
        if annotation is not None and _is_api(site, annotation, _SPEC):
            return f"`{last_name(node)}` is annotated {site.text(annotation)}"
    return None


def _is_api(site: Site, node: ast.AST, name: str) -> bool:
    found = options(site.value(node))
    return all(isinstance(one, Api) and one.name == name for one in found)


def _is_tuple(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return True
    if isinstance(node, ast.Call):
        return _is_api(site, node.func, "builtins.tuple")
    return all(isinstance(one, Items) and one.kind == "tuple" for one in options(site.value(node)))


def _is_list(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.ListComp)


def _tests_for_tuple(site: Site, node: ast.expr) -> bool:
    """Return whether the tested classes are only tuple and list, tuple among them."""
    if isinstance(node, ast.Tuple):
        asked = [next((name for name in _TUPLES if _is_api(site, one, name)), None) for one in node.elts]
        return None not in asked and _TUPLES[0] in asked
    return _is_api(site, node, "builtins.tuple")


def _is_asserted(site: Site, spec_use: _SpecUse) -> bool:
    outer = site.file.parent(spec_use.whole)
    return isinstance(outer, ast.Assert) and outer.test is spec_use.whole and not spec_use.answer


def _write_help(site: Site, spec_use: _SpecUse) -> str:
    if spec_use.kind == "isinstance":
        return "write `isinstance(..., (tuple, PartitionSpec))`"
    text = site.shown(spec_use.spec)
    return f"compare `{text}` with a `PartitionSpec`, or compare `tuple({text})`"


def _write_fix(site: Site, spec_use: _SpecUse) -> Fix | None:
    edits: list[Edit]
    if spec_use.kind == "isinstance":
        spelled, imports = site.spell(_SPEC)
        asked = site.text(spec_use.other)
        inside = asked.strip()[1:-1].rstrip().rstrip(",") if isinstance(spec_use.other, ast.Tuple) else asked
        text = f"({inside}, {spelled})"
        edits = [site.replace(spec_use.other, text), *imports]
        return site.fix(Safety.SAFE, f"test for {spelled} too", edits)
    if isinstance(spec_use.other, ast.Tuple):
        spelled, imports = site.spell(_SPEC)
        inside = ", ".join(site.text(one) for one in spec_use.other.elts)
        edits = [site.replace(spec_use.other, f"{spelled}({inside})"), *imports]
        return site.fix(Safety.SAFE, f"write {spelled}({inside})", edits)
    text = f"tuple({site.text(spec_use.spec)})"
    return site.fix(Safety.SAFE, f"write {text}", [site.replace(spec_use.spec, text)])

"""SL811."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import INDEX
from shardlint.facts.project_objects import find_classes
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import parameters_with_defaults, walk_nodes

_COUNTS = ("jax.process_count", "jax.host_count")
_INDEX = compile_lazily(r"(?i)(?:^|_)(?:index|idx|id|rank|ordinal)$")


class ZeroIsFalsy(Rule):
    """A process count is compared with zero, or process index 0 is treated as missing.

    There is at least one process, so the comparison is always true or always false. So all processes or none run the
    code that is meant for one. `index or jax.process_index()` treats index 0 as missing, and replaces an explicit 0
    with `jax.process_index()`.

    ## Reports
    - proven: `jax.process_count() == 0`, `< 1`, `!= 0`, `> 0`, or `not jax.process_count()`.
    - `index` (likely): `index or jax.process_index()`, `index if index else ...` or `if not index: index = ...`, for a
      parameter or field that is named like an index or rank and defaults to None.

    ## Fix
    Writes `jax.process_index()` for the count. Unsafe: you may want the count, compared with 1.
    """

    code = "SL811"
    name = "zero-is-falsy"
    harm = Harm.SILENT
    likely = ("index",)
    assumptions: ClassVar[Mapping[str, str]] = {"index": "A caller passes 0, which is the first index."}
    triggers = (Calls(*_COUNTS, *INDEX),)
    fixes = "unsafe"

    @detector("call", of=_COUNTS)
    def report_comparison(self, site: Site) -> Finding | None:
        """A comparison of a count with 0 or 1 that always has the same result."""
        parent = site.file.parent(site.call)
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            answer: bool | None = False
        elif isinstance(parent, ast.Compare) and len(parent.ops) == 1 and parent.left is site.call:
            answer = _constant_comparison(parent.ops[0], parent.comparators[0])
        else:
            answer = None
        if answer is None or not isinstance(parent, ast.expr) or isinstance(site.file.parent(parent), ast.Assert):
            return None
        text = site.shown(parent)
        return site.finding(
            parent,
            f"`{text}` is always {answer}: there is at least one process.",
            help="write `jax.process_index() == 0`, or compare the count with 1",
            fix=self._write_fix(site, parent),
        )

    @detector("call", of=INDEX, finds="index")
    def report_choice(self, site: Site) -> Finding | None:
        """A choice `index or jax.process_index()`, where None stands for no index and 0 is the first one."""
        asked, parent = _find_fallback(site) or (None, None)
        if asked is None or parent is None or not _INDEX.search(last_name(asked)):
            return None
        if not _none_by_default(site, asked):
            return None
        text = site.shown(asked)
        return site.finding(
            parent,
            f"An explicit index 0 is ignored: `{text}` is false if it is 0, and `jax.process_index()` replaces it.",
            help=f"write `jax.process_index() if {text} is None else {text}`",
            why=f"`{text}` is None by default, and 0 is the first index",
        )

    def _write_fix(self, site: Site, parent: ast.expr) -> Fix | None:
        if not isinstance(parent, ast.Compare) or not isinstance(parent.ops[0], ast.Eq | ast.NotEq):
            return None
        spelled, imports = site.spell("jax.process_index")
        edits = [site.replace(site.call, f"{spelled}()"), *imports]
        return site.fix(Safety.UNSAFE, f"write {spelled}()", edits, why="you may want the count, compared with 1")


def _constant_comparison(op: ast.cmpop, right: ast.expr) -> bool | None:
    """Return the constant result of a comparison of a count with a number; None if it may be either."""
    if not isinstance(right, ast.Constant) or type(right.value) is not int:
        return None
    match op, right.value:
        case (ast.Eq(), 0) | (ast.Lt(), 0 | 1) | (ast.LtE(), 0):
            return False
        case (ast.NotEq(), 0) | (ast.Gt(), 0) | (ast.GtE(), 0 | 1):
            return True
    return None


def _find_fallback(site: Site) -> tuple[ast.expr, ast.expr] | None:
    """Return the expression that is used if this index counts as false, and the whole expression."""
    parent = site.file.parent(site.call)
    match parent:
        case ast.BoolOp(op=ast.Or(), values=[asked, last]) if last is site.call:
            return asked, parent
        case ast.IfExp(test=test, body=body, orelse=last) if last is site.call:
            return (test, parent) if site.text(test) == site.text(body) else None
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value) if value is site.call:
            branch = site.file.parent(parent)
            if isinstance(branch, ast.If) and parent in branch.body and isinstance(branch.test, ast.UnaryOp):
                asked = branch.test.operand
                same = isinstance(branch.test.op, ast.Not) and site.text(asked) == site.text(target)
                return (asked, site.call) if same else None
    return None


def _none_by_default(site: Site, expression: ast.expr) -> bool:
    """Return whether a parameter, or a field of the object's class or of one of this file, is None where nothing is
    given.
    """
    name = last_name(expression)
    found: list[ast.expr | None] = []
    if isinstance(expression, ast.Name):
        bindings, _ = lookup_bindings(site.file, expression, name)
        kinds = {one.kind for one in bindings}
        found = [one.value for one in bindings if one.kind == "param"] if kinds <= {"param", "assign"} else []
    elif isinstance(expression, ast.Attribute):
        known = [one.place.node for one in find_classes(site.program, Place(site.file, expression.value))]
        for node in (part for tree in known or [site.file.tree] for part in walk_nodes(tree)):
            if isinstance(node, ast.arguments):
                found += [value for one, value in parameters_with_defaults(node) if one.arg == name]
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == name
            ):
                found += [node.value] if node.value is not None else []
    return bool(found) and all(isinstance(one, ast.Constant) and one.value is None for one in found)

"""SL811."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.held import classes
from shardlint.model.process.processes import INDEX
from shardlint.model.reach import lookup
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import defaults, walk
from shardlint_rules.processes.given import given, given_field

_COUNTS = ("jax.process_count", "jax.host_count")
_COUNTING = r"(?:process|device|replica)s?_count|num_(?:process|device|replica|model_replica|shard|host)"
_INDEX = regex(r"(?i)(?:^|_)(?:index|idx|id|rank|ordinal)$")


class ZeroIsFalsy(Rule):
    """A process count is compared with zero, or process index 0 is treated as missing.

    There is at least one process, so the branch runs always or never, and a file is written by all processes or by
    none. After `or`, 0 counts as missing, and a process that is given index 0 uses its own instead.

    ## Reports
    - proven: `jax.process_count() == 0`, `< 1`, `!= 0`, `> 0` and `not jax.process_count()`.
    - proven: `count > processes and processes % count != 0`, whose second condition is true whenever the first is.
    - proven: `index or jax.process_index()`, if a call in sight passes 0; also `index if index else ...` and
      `if not index: index = ...`.
    - `index` (likely): the same for a parameter or field that is named as an index or rank and is None by default.
    - `counted` (possible): the same, if a loop over a range gives the index.

    ## Fix
    Writes `jax.process_index()` for the count. The fix is unsafe: the index may not be what is meant.
    """

    code = "SL811"
    name = "zero-is-falsy"
    harm = Harm.SILENT
    likely = ("index",)
    assumptions: ClassVar[Mapping[str, str]] = {"index": "A caller passes 0, which is the first index."}
    triggers = (
        Calls(*_COUNTS, *INDEX),
        Lines(r"(?:if|and|assert|elif)\b[^#\n]*\S % \S", file_names=_COUNTING, saying=(" % ",), on="any"),
    )
    fixes = "unsafe"
    forms = ("call", "line")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a comparison."""
        if site.form == "line":
            yield from self._divided(site)
            return
        parent = site.file.parent(site.call)
        if site.api in INDEX:
            yield from self._not_given(site)
            return
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            answer: bool | None = False
        elif isinstance(parent, ast.Compare) and len(parent.ops) == 1 and parent.left is site.call:
            answer = _always(parent.ops[0], parent.comparators[0])
        else:
            answer = None
        if answer is None or not isinstance(parent, ast.expr) or self._asserted(site, parent):
            return
        text = site.shown(parent)
        yield site.finding(
            parent,
            f"`{text}` is always {answer}: there is at least one process.",
            help="compare jax.process_index() with 0, or the count with 1",
            fix=self._fix(site, parent),
        )

    def _divided(self, site: Site) -> Iterator[Finding]:
        """`larger > smaller and smaller % larger != 0`."""
        test = getattr(site.syntax, "test", None)
        if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
            return
        for part in test.values:
            match part:
                case ast.Compare(
                    left=ast.BinOp(left=smaller, op=ast.Mod(), right=larger),
                    ops=[ast.NotEq() | ast.Gt()],
                    comparators=[ast.Constant(value=0)],
                ):
                    names = (site.text(smaller), site.text(larger))
                    if any(_orders(site, one) == names for one in test.values):
                        yield site.finding(
                            part,
                            f"`{site.shown(part)}` is always True here: the comparison next to it is reversed.",
                            help=f"write {names[0]} > {names[1]}",
                            why=f"`{names[1]}` is larger than `{names[0]}`, so the remainder is `{names[0]}` itself",
                        )

    def _not_given(self, site: Site) -> Iterator[Finding]:
        """`index or jax.process_index()`, where 0 is given for the index."""
        chosen = _chosen(site)
        if chosen is None:
            return
        asked, parent = chosen
        zeros = [(place, sure) for place in _sources(site, asked) if (sure := _zero(place)) is not None]
        found = next((one for one in zeros if one[1]), zeros[0] if zeros else None)
        text = site.shown(asked)
        if found is not None:
            place, sure = found
            where = f"line {getattr(place.node, 'lineno', 0)}"
            if place.file is not site.file:
                where += f" of {place.file.path.name}"
            form = "" if sure else "counted"
            why = f"0 is passed at {where}" if sure else f"the loop at {where} starts at 0"
        elif _INDEX.search(last_name(asked)) and _none_by_default(site, asked):
            form, why = "index", f"`{text}` is None by default, and 0 is the first index"
        else:
            return
        yield site.finding(
            parent,
            f"Index 0 is ignored: `{text}` counts as false, and the process uses its own index.",
            help=f"write jax.process_index() if {text} is None else {text}",
            certainty=Certainty.PROVEN if not form else Certainty.POSSIBLE,
            form=form,
            why=why,
        )

    def _asserted(self, site: Site, test: ast.expr) -> bool:
        """`assert jax.process_count() > 0` says what is so."""
        return isinstance(site.file.parent(test), ast.Assert)

    def _fix(self, site: Site, parent: ast.expr) -> Fix | None:
        if not isinstance(parent, ast.Compare) or not isinstance(parent.ops[0], ast.Eq | ast.NotEq):
            return None
        spelled, imports = site.spell("jax.process_index")
        edits = [site.replace(site.call, f"{spelled}()"), *imports]
        return site.fix(Safety.UNSAFE, f"write {spelled}()", edits, why="it may not be what was meant")


def _always(op: ast.cmpop, right: ast.expr) -> bool | None:
    """What a comparison of a count with a number always is; None where it may be either."""
    if not isinstance(right, ast.Constant) or type(right.value) is not int:
        return None
    match op, right.value:
        case (ast.Eq(), 0) | (ast.Lt(), 0 | 1) | (ast.LtE(), 0):
            return False
        case (ast.NotEq(), 0) | (ast.Gt(), 0) | (ast.GtE(), 0 | 1):
            return True
    return None


def _orders(site: Site, node: ast.expr) -> tuple[str, str] | None:
    """The smaller and the larger of two numbers of which a comparison says so, as text."""
    match node:
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[right]):
            return site.text(right), site.text(left)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
            return site.text(left), site.text(right)
    return None


def _chosen(site: Site) -> tuple[ast.expr, ast.expr] | None:
    """What this index is taken in place of where that counts as false, and the whole expression."""
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


def _none_by_default(site: Site, asked: ast.expr) -> bool:
    """Whether a parameter, or a field of the object's class or of one of this file, is None where nothing is given."""
    name = last_name(asked)
    found: list[ast.expr | None] = []
    if isinstance(asked, ast.Name):
        bindings, _ = lookup(site.file, asked, name)
        kinds = {one.kind for one in bindings}
        found = [one.value for one in bindings if one.kind == "param"] if kinds <= {"param", "assign"} else []
    elif isinstance(asked, ast.Attribute):
        known = [one.place.node for one in classes(site.program, Place(site.file, asked.value))]
        for node in (part for tree in known or [site.file.tree] for part in walk(tree)):
            if isinstance(node, ast.arguments):
                found += [value for one, value in defaults(node) if one.arg == name]
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == name
            ):
                found += [node.value] if node.value is not None else []
            elif isinstance(node, ast.Call) and last_name(node.func) == "add_argument":
                found += _option(node, name)
    return bool(found) and all(isinstance(one, ast.Constant) and one.value is None for one in found)


def _option(call: ast.Call, name: str) -> list[ast.expr | None]:
    """The default of an option of the command line by that name, None where it says none."""
    written = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    given = {one.arg: one.value for one in call.keywords}
    if "action" in given or name not in [one.lstrip("-").replace("-", "_") for one in written]:
        return []
    return [given.get("default", ast.Constant(None))]


def _sources(site: Site, asked: ast.expr) -> Iterator[Place]:
    """What the calls in sight give a parameter, or a field of the object whose method this is."""
    if isinstance(asked, ast.Name):
        bindings, scope = lookup(site.file, asked, asked.id)
        if scope is not None and [one.kind for one in bindings] == ["param"]:
            yield from given(site.program, site.file, scope, asked.id)
    elif isinstance(asked, ast.Attribute):
        yield from given_field(site.program, site.file, asked)


def _zero(place: Place) -> bool | None:
    """Whether an argument is 0 (True), or counts from 0 (False); None where neither is told."""
    match place.node:
        case ast.Constant(value=value) if type(value) is int and value == 0:
            return True
        case ast.Name(id=name):
            bindings, _ = lookup(place.file, place.node, name)
            if (
                len(bindings) == 1
                and bindings[0].kind in ("for", "comprehension")
                and bindings[0].index is None
            ):
                return False if _from_zero(bindings[0].value) else None
    return None


def _from_zero(node: ast.expr | None) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "range"
        and len(node.args) == 1
    )

"""SL811."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import INDEX
from shardlint.model.reach import lookup
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.processes.given import given, given_field

_COUNTS = ("jax.process_count", "jax.host_count")


class ZeroIsFalsy(Rule):
    """Zero is asked for where it says nothing: the count of processes never is, and process 0 counts as not given.

    ## What it does
    Reports `jax.process_count() == 0`, `< 1`, `!= 0`, `> 0` and `not jax.process_count()`;
    and `index or jax.process_index()` where a call in sight gives 0 for it. Possible: where a loop over a range does.

    ## Why it hurts
    There is always one process, so the branch never runs, or always: what process 0 should write is written by none,
    or by all. Mostly `process_index` was meant. After `or`, 0 is as if nothing was given: every process but the first
    takes its own index instead.

    ## Fix safety
    Unsafe: `process_index` may not be what was meant.

    ## Evidence
    `jax.process_count()` is 1 in a program of one process, on every release. Recorded in NetKet.
    """

    code = "SL811"
    name = "zero-is-falsy"
    harm = Harm.SILENT
    triggers = (Calls(*_COUNTS, *INDEX),)
    fixes = "unsafe"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a comparison."""
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
        text = " ".join(site.text(parent).split())
        yield site.finding(
            parent,
            f"always {answer}",
            f"`{text}` is always {answer}: there is at least one.",
            help="ask for jax.process_index() == 0, or for == 1",
            fix=self._fix(site, parent),
        )

    def _not_given(self, site: Site) -> Iterator[Finding]:
        """`index or jax.process_index()`, where 0 is given for the index."""
        parent = site.file.parent(site.call)
        if not isinstance(parent, ast.BoolOp) or not isinstance(parent.op, ast.Or):
            return
        asked = parent.values[0]
        if len(parent.values) != 2 or parent.values[1] is not site.call:
            return
        zeros = [(place, sure) for place in _sources(site, asked) if (sure := _zero(place)) is not None]
        found = next((one for one in zeros if one[1]), zeros[0] if zeros else None)
        if found is None:
            return
        place, sure = found
        text = " ".join(site.text(asked).split())
        where = f"line {getattr(place.node, 'lineno', 0)}"
        if place.file is not site.file:
            where += f" of {place.file.path.name}"
        yield site.finding(
            parent,
            f"0 is given for it at {where}",
            f"`{text}` may be 0, which counts as false: every process but the first takes its own index instead.",
            help=f"ask whether it was given: jax.process_index() if {text} is None else {text}",
            certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
            form="" if sure else "counted",
            why="" if sure else "a loop begins to count at 0",
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
            if len(bindings) == 1 and bindings[0].kind in ("for", "comprehension") and bindings[0].index is None:
                return False if _from_zero(bindings[0].value) else None
    return None


def _from_zero(node: ast.expr | None) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "range"
        and len(node.args) == 1
    )

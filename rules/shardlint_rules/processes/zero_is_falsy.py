"""SL811."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site

_COUNTS = ("jax.process_count", "jax.host_count")


class ZeroIsFalsy(Rule):
    """The count of processes is asked whether it is zero, which it never is.

    ## What it does
    Reports `jax.process_count() == 0`, `< 1`, `!= 0`, `> 0` and `not jax.process_count()`.

    ## Why it hurts
    There is always one process, so the branch never runs, or always: what process 0 should write is written by none,
    or by all. Mostly `process_index` was meant.

    ## Fix safety
    Unsafe: `process_index` may not be what was meant.

    ## Evidence
    `jax.process_count()` is 1 in a program of one process, on every release. Recorded in NetKet.
    """

    code = "SL811"
    name = "zero-is-falsy"
    harm = Harm.SILENT
    triggers = (Calls(*_COUNTS),)
    fixes = "unsafe"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a comparison."""
        parent = site.file.parent(site.call)
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

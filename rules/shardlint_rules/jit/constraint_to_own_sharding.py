"""SL208."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.shardings import PLACING
from shardlint.facts.tracers import tracer_in_sight
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit.tracer_tests import knows_it_is_traced

_ASKING = ("builtins.hasattr", "builtins.getattr")
_PLACING = tuple(name for name in PLACING if name != "jax.reshard")


class ConstraintToOwnSharding(Rule):
    """Traced code reads `.sharding` of a tracer. Tracers have no sharding.

    In traced code `x.sharding` raises `AttributeError`. `hasattr(x, "sharding")` returns False, and
    `getattr(x, "sharding", None)` returns None. Behind such a test a constraint never runs. Without a test the program
    raises.

    ## Reports
    - `known-calls-traced` (likely): `with_sharding_constraint(y, x.sharding)`, `hasattr(x, "sharding")` or
      `getattr(x, "sharding", None)` in traced code. Reported only if `x` is a tracer in every call in the project.

    ## Write instead
    Read the sharding outside of the traced function. Use it in the function as a variable of the enclosing scope, or
    pass it as a static argument.

    ## Limits
    Not reported: arrays from a closure or `self` (they are constants with a sharding), static arguments, arguments of
    `filter_jit`, and code that checks for a tracer, such as `isinstance(x, jax.core.Tracer)`.
    """

    code = "SL208"
    name = "constraint-to-own-sharding"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("known-calls-traced",)
    assumptions: ClassVar[Mapping[str, str]] = {"known-calls-traced": "Calls outside the project are traced too."}
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (
        Calls(*_PLACING, file_says=(".sharding",)),
        Calls(*_ASKING, file_says=('"sharding"', "'sharding'")),
    )

    @detector("call", of=_ASKING, finds="known-calls-traced")
    def report_test(self, site: Site) -> Finding | None:
        """A test for the attribute, or a default for it, that no tracer has."""
        match site.call.args:
            case [asked, ast.Constant(value="sharding"), *default] if default or site.api == _ASKING[0]:
                if knows_it_is_traced(site) or not site.region.is_proven:
                    return None
                result = site.shown(default[0]) if default else "False"
                return _make_finding(site, site.call, asked, f"This is always {result}", Harm.SILENT)
        return None

    @detector("call", of=_PLACING, finds="known-calls-traced")
    def report_read(self, site: Site) -> Finding | None:
        """A read of the attribute."""
        target = site.argument(PLACING[site.api])
        if not isinstance(target, ast.Attribute) or target.attr != "sharding":
            return None
        if knows_it_is_traced(site) or _is_guarded(site):
            return None
        return _make_finding(site, target, target.value, "This raises AttributeError", Harm.CRASH)


def _make_finding(site: Site, node: ast.expr, expression: ast.expr, effect: str, harm: Harm) -> Finding | None:
    """The finding of a read or test, if it is of a tracer."""
    why = tracer_in_sight(site.program, Place(site.file, expression))
    if not why or (site.region.is_proven and isinstance(expression, ast.Name) and not _is_used(site, expression)):
        return None
    return site.finding(
        node,
        f"{effect}: `{site.text(expression)}` is a tracer and has no sharding.",
        help=f"read `{site.text(expression)}.sharding` outside of the traced function, and use that value inside",
        harm=harm,
        why=f"in every call in the project `{site.text(expression)}` comes from {why}",
    )


def _is_guarded(site: Site) -> bool:
    """True if `hasattr(x, "sharding")` stands before it, or its error is caught: it does not come to the error."""
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.If | ast.IfExp) and "sharding" in site.text(outer.test):
            return True
        if isinstance(outer, ast.Try):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


def _is_used(site: Site, name: ast.Name) -> bool:
    """True if code does more with a name than read its sharding, as it would with an object of another kind."""
    same = (one for one in site.file.find_mentions(name.id) if isinstance(one, ast.Name))
    return any(getattr(site.file.parent(one), "attr", "") != "sharding" for one in same)

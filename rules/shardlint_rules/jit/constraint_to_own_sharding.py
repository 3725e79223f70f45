"""SL208."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.shardings import PLACING
from shardlint.model.tracers import tracer_in_sight
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit._own_sharding import own_sharding
from shardlint_rules.jit._traced_values import is_tracer
from shardlint_rules.jit.placed import knows_it_is_traced

_HELP = "read the sharding outside of the traced function and pass it in"
_ASKING = ("builtins.hasattr", "builtins.getattr")
_PLACING = tuple(name for name in PLACING if name != "jax.reshard")


class ConstraintToOwnSharding(Rule):
    """Traced code reads the sharding of a tracer, which has none.

    `x.sharding` raises `AttributeError` in traced code. `hasattr` returns False and `getattr` its default, so
    a constraint behind such a guard never runs.

    ## Reports
    - proven: `with_sharding_constraint(x, x.sharding)` in traced code, and the guards `hasattr(x,
      "sharding")` and `getattr(x, "sharding", None)`, if `x` surely is a tracer.
    - `in-sight` (likely): the constraint, if `x` is a tracer in every visible call, as an item, a leaf or a
      parameter of a helper.
    - `does-nothing` (likely): a constraint of an array to its own sharding, traced or not, which is a no-op
      at best.

    ## Write instead
    Read the sharding outside of the traced function and pass it in.

    ## Limits
    Arrays that a closure or `self` brings in are constants with a sharding. They are not reported, nor are
    static arguments, arguments of `filter_jit`, code that tests whether it is traced, and `device_put(x,
    x.sharding)`, which copies.
    """

    code = "SL208"
    name = "constraint-to-own-sharding"
    harm = Harm.SILENT
    likely = ("does-nothing", "in-sight")
    assumptions: ClassVar[Mapping[str, str]] = {
        "does-nothing": "No call passes an array that a closure or `self` brings in.",
        "in-sight": "Unseen calls of the function are traced too.",
    }
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (
        Calls(*_PLACING, file_says=(".sharding",)),
        Calls(*_ASKING, file_says=('"sharding"', "'sharding'")),
    )
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a question that a tracer cannot answer."""
        own = own_sharding(site)
        if (own is None and not _asks(site)) or knows_it_is_traced(site):
            return
        if site.api in _ASKING:
            yield from self._guard(site)
            return
        target = site.argument(PLACING[site.api])
        asked = target.value if isinstance(target, ast.Attribute) else None
        if site.region.proven and asked is not None and is_tracer(site, asked):
            if not _guarded(site):
                yield site.finding(
                    target or site.call,
                    f"This raises AttributeError: `{site.text(asked)}` is a tracer and has no sharding.",
                    via=site.region,
                    help=_HELP,
                    harm=Harm.CRASH,
                )
        elif own is not None:
            yield self._does_nothing(site, own)
        elif asked is not None and not site.region.proven and site.wants("in-sight") and not _guarded(site):
            yield from self._in_sight(site, asked)

    def _in_sight(self, site: Site, asked: ast.expr) -> Iterator[Finding]:
        """One finding for the sharding of what is a tracer in the calls that can be seen."""
        why = tracer_in_sight(site.program, Place(site.file, asked))
        if why:
            yield site.finding(
                site.argument(PLACING[site.api]) or site.call,
                f"This raises AttributeError: `{site.text(asked)}` is a tracer and has no sharding.",
                help=_HELP,
                harm=Harm.CRASH,
                certainty=Certainty.POSSIBLE,
                form="in-sight",
                why=f"in every visible call `{site.text(asked)}` comes from {why}",
            )

    def _does_nothing(self, site: Site, own: ast.Name) -> Finding:
        traced = "never runs" if _guarded(site) else "raises AttributeError"
        return site.finding(
            site.argument(PLACING[site.api]) or site.call,
            f"This constraint has no effect: it asks for the sharding that `{own.id}` already has.",
            help="write the intended sharding, or pass it in from outside the traced function",
            certainty=Certainty.POSSIBLE,
            form="does-nothing",
            why=f"in traced code the constraint {traced}",
        )

    def _guard(self, site: Site) -> Iterator[Finding]:
        arguments = site.call.args
        if len(arguments) < 2 or not _says_sharding(arguments[1]):
            return
        if site.api == "builtins.getattr" and len(arguments) < 3:
            return
        if not (site.region.proven and is_tracer(site, arguments[0])):
            return
        always = "False" if site.api == "builtins.hasattr" else site.shown(arguments[2])
        yield site.finding(
            site.call,
            f"This is always {always}: `{site.text(arguments[0])}` is a tracer and has no sharding.",
            via=site.region,
            help=_HELP,
        )


def _asks(site: Site) -> bool:
    """Whether the call has the shape that matters; cheap, where asking why a place is traced is not."""
    if site.api in _ASKING:
        return len(site.call.args) > 1 and _says_sharding(site.call.args[1])
    target = site.argument(PLACING[site.api])
    return isinstance(target, ast.Attribute) and target.attr == "sharding"


def _says_sharding(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "sharding"


def _guarded(site: Site) -> bool:
    """Whether `hasattr(x, "sharding")` stands before it, or its error is caught: it does not come to the error."""
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.If | ast.IfExp) and "sharding" in site.text(outer.test):
            return True
        if isinstance(outer, ast.Try):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False

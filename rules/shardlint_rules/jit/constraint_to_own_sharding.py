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

_ASKING = ("builtins.hasattr", "builtins.getattr")
_PLACING = tuple(name for name in PLACING if name != "jax.reshard")


class ConstraintToOwnSharding(Rule):
    """Traced code asks a tracer for its sharding, and a tracer has none.

    ## What it does
    Reports `with_sharding_constraint(x, x.sharding)` in traced code, and the guards `hasattr(x, "sharding")` and
    `getattr(x, "sharding", None)`, where `x` is surely a tracer; the constraint also where `x` comes from an argument
    of a jitted function in all calls that can be seen, as an item, a leaf or a parameter of a helper. With
    `--certainty possible` it also reports a constraint of an array to its own sharding where the text does not prove
    that it is a tracer.

    ## Why it hurts
    The sharding is not decided until the program is compiled. `x.sharding` raises `AttributeError`; `hasattr` is
    False and `getattr` gives the default, so the constraint behind such a guard never runs. It does run where the
    function is called without jit, in a test say, which is how it goes unseen. And where it runs, a constraint of `x`
    to `x.sharding` moves nothing: `x` lies so already.

    ## Evidence
    Run on jax 0.4.38, 0.6.2, 0.8.3, 0.10.2 and 0.12, in jit with and without a mesh in context, Auto or Explicit:
    always `AttributeError`, always False; under `grad` and `vmap` without jit too. Without a tracer the array comes
    back as it was (since jax 0.8 bound to its devices, if it was not). Left alone: arrays that a closure or `self`
    brings in, which are constants that do have a sharding, arguments that may be static, filter_jit, whose arguments
    may be anything, and code that asks whether it is traced. The possible finding is for parameters and values of the
    function itself, in filter_jit too, and not where the array is another by the time of the constraint;
    `device_put(x, x.sharding)` makes a copy and is left alone.
    """

    code = "SL208"
    name = "constraint-to-own-sharding"
    harm = Harm.SILENT
    likely = ("does-nothing", "in-sight")
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
                    f"On {site.release('jax')} this raises AttributeError: `{site.text(asked)}` is a tracer.",
                    via=site.region,
                    help="take the sharding outside of the traced function, and hand it in",
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
                f"On {site.release('jax')} this raises AttributeError: `{site.text(asked)}` is a tracer.",
                label=f"`{site.text(asked)}` comes from {why}",
                help="take the sharding outside of the traced function, and hand it in",
                harm=Harm.CRASH,
                certainty=Certainty.POSSIBLE,
                form="in-sight",
                why="so it is in all calls that can be seen",
            )

    def _does_nothing(self, site: Site, own: ast.Name) -> Finding:
        traced = "is not reached" if _guarded(site) else "raises AttributeError"
        return site.finding(
            site.argument(PLACING[site.api]) or site.call,
            f"On {site.release('jax')} this moves nothing: `{own.id}` lies so already, and in traced code, where it "
            f"has no sharding, the constraint {traced}.",
            label=f"the sharding that `{own.id}` has already",
            help=f"write the sharding that is meant, or hand in the one `{own.id}` has outside of the traced function",
            certainty=Certainty.POSSIBLE,
            form="does-nothing",
            why=f"it is the sharding of `{own.id}` itself that is given",
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
            f"On {site.release('jax')} this is always {always}: `{site.text(arguments[0])}` is a tracer, which "
            f"has none.",
            via=site.region,
            help="take the sharding outside of the traced function, and hand it in",
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

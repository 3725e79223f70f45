"""SL248."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.mesh.shardings import PLACING
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, Parameter, Place, Transformed, Unknown, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint_rules.jit.optimizers import init_by_name, init_of
from shardlint_rules.jit.placing_later import places_over_a_mesh
from shardlint_rules.jit.repeated import is_test

_PUTTING = ("put", "shard", "place", "replicate", "distribute")
_LINE = rf"[\w.]+(?:\s*:[^=\n]*)? = [\w.]*(?:{'|'.join(_PUTTING)})\w*\("
_FETCH = "jax.device_get"
_STATE = regex(r"(?i)(^|_)(params?|state|model|weights?|variables|cache|net|module|policy|critic|actor)(_|$|\d)")
_COMPARING = regex(r"(?i)assert|allclose|bench|timeit|perf_counter|compare|reference|np\.testing")
_OLD = regex(r"(?i)host|cpu|_?np(_|$)|numpy|local|abstract|shape|unsharded|ref(erence)?|orig|single")


class OriginalAfterPlacing(Rule):
    """A tree is placed under another name, and the one that was not placed goes on being used.

    ## What it does
    Reports `self.target = params` and `step(params, batch)` behind `self.params = jax.device_put(params, sharding)`:
    what the placement returned is the placed one, and `params` is still what it was. So too `tx.init(params)`, and
    placements by `eqx.filter_shard` or by functions of the project that put what they are given over a mesh.

    ## Why it hurts
    The original stays in memory whole on one device beside the placed one, and what goes on with it computes there,
    or moves it to the mesh in each call. jit takes arrays that are bound to no device anywhere, so nothing is raised.

    ## Use instead
    Bind the placed one to the same name (`params = jax.device_put(params, sharding)`), or go on with the new name.

    ## Evidence
    The proof shows the array on one of eight devices. Left alone: names that say so (`host_params`), uses that only
    look at shapes, both given to the same function to be compared, tests and benchmarks.
    """

    code = "SL248"
    name = "original-after-placing"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("original",)
    triggers = (Lines(_LINE, saying=_PUTTING),)
    forms = ("line",)
    where = "host"
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a placement: the first use of what was placed, behind it."""
        statement = site.syntax
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not isinstance(statement.value, ast.Call):
            return
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        call, scope = statement.value, site.scope.function()
        before = call.args[0] if call.args else None
        if scope is None or not isinstance(before, ast.Name) or not isinstance(target, ast.Name | ast.Attribute):
            return
        text = site.text(target)
        if not _STATE.search(before.id) or _OLD.search(before.id) or text == before.id or is_test(site.file, call):
            return
        if _COMPARING.search(site.file.text(scope.node)) or not _placed(site, call) or not _unplaced(site, before):
            return
        for use in site.file.mentions(before.id):
            if not isinstance(use, ast.Name) or use.lineno <= (statement.end_lineno or statement.lineno):
                continue
            if site.file.home(use) is not site.scope or not _same(site, use, before) or _branched(site, use, statement):
                continue
            if self._goes_on(site, use, text) and not _both_given(site, before.id, text):
                yield site.finding(
                    use,
                    f"`{before.id}` is what it was before it was placed",
                    f"`{text}` is the placed one (line {statement.lineno}): `{before.id}` still lies where it was.",
                    help=f"go on with `{text}`",
                    form="original",
                    why=f"line {statement.lineno} puts `{before.id}` over the mesh as `{text}`",
                )
                return

    def _goes_on(self, site: Site, use: ast.Name, text: str) -> bool:
        """Whether what was not placed is kept by an object, given to a jitted function, or to an optimizer's `init`."""
        parent = site.file.parent(use)
        if isinstance(parent, ast.Assign) and parent.value is use:
            return all(isinstance(one, ast.Attribute) for one in parent.targets)
        while isinstance(parent, ast.Call) and getattr(site.value(parent.func), "name", "") == "equinox.filter":
            parent = site.file.parent(parent)
        if not isinstance(parent, ast.Call):
            return False
        if isinstance(parent.func, ast.Attribute) and parent.func.attr == "init":
            here = Place(site.file, parent.func)
            if _placed_or_fetched(site, parent):
                return False
            return bool(init_of(site, here)) or init_by_name(site, here)
        if len(parent.args) + len(parent.keywords) < 2 or _placed(site, parent) or text in site.text(parent):
            return False
        return _compiled(site, parent)


def _both_given(site: Site, name: str, text: str) -> bool:
    """Whether some call is given both: then the original is meant beside the placed one."""
    for call in site.file.walked(site.scope).calls:
        given = {site.file.text(one) for one in (*call.args, *(each.value for each in call.keywords))}
        if {name, text} <= given:
            return True
    return False


def _placed(site: Site, call: ast.Call) -> bool:
    """Whether a call puts what it is given over a mesh, replicated too."""
    made = options(site.value(call))
    for one in made:
        if isinstance(one, CallResult) and one.api in PLACING:
            where = site.shardings.target(one)
            return site.sharding_parts(where) is not None or site.shardings.shards(where) or (
                isinstance(where, Parameter | Unknown) and _says_a_sharding(site, call)
            )
    return places_over_a_mesh(site, call)


def _placed_or_fetched(site: Site, call: ast.Call) -> bool:
    """Whether what a call gives is put over a mesh or brought to the host at once."""
    for outer in site.file.ancestors(call):
        if not isinstance(outer, ast.Call):
            return False
        if any(isinstance(one, CallResult) and one.api == _FETCH for one in options(site.value(outer))):
            return True
        if _placed(site, outer):
            return True
    return False


def _compiled(site: Site, call: ast.Call) -> bool:
    """Whether a call surely runs a jitted function that takes its arguments as they are."""
    return all(
        isinstance(one, Transformed)
        and one.api.name in JIT_WRAPPERS
        and one.call is not None
        and not one.call.open_keywords
        and "in_shardings" not in one.call.keywords
        for one in options(site.program.followed(site.value(call.func)))
    )


def _says_a_sharding(site: Site, call: ast.Call) -> bool:
    given = [*call.args[1:], *(one.value for one in call.keywords)]
    return len(given) == 1 and "shard" in last_name(given[0]).lower()


def _unplaced(site: Site, name: ast.Name) -> bool:
    """Whether nothing says that what a name holds is placed already, and it is no parameter that callers may place."""
    found = options(site.value(name))
    if any(isinstance(one, Api) for one in found) or any(site.shardings.seems_spread(one) for one in found):
        return False
    bindings, _ = lookup(site.file, name, name.id)
    return bool(bindings) and all(one.kind in ("assign", "param") for one in bindings)


def _same(site: Site, one: ast.Name, other: ast.Name) -> bool:
    """Whether a name holds at two places what the same statements gave it."""
    bound = [{id(binding.node) for binding in lookup(site.file, name, name.id)[0]} for name in (one, other)]
    return bound[0] == bound[1]


def _branched(site: Site, use: ast.Name, statement: ast.stmt) -> bool:
    """Whether the placement stands in a branch that the use is not in: without it the original is what there is."""
    outside = set(site.file.ancestors(use))
    return any(
        isinstance(one, ast.If | ast.Try | ast.For | ast.While) and one not in outside
        for one in site.file.ancestors(statement)
    )

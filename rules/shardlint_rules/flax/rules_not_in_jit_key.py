"""SL511."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.logical_rules import LogicalRules, logical_rules_of
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Api, Transformed, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import child_nodes
from shardlint_rules.flax.linen_names import RULES_CONTEXTS, constrains_anywhere

_CONTEXTS = (*RULES_CONTEXTS, "flax.nnx.logical_axis_rules")


class RulesNotInJitKey(Rule):
    """A jitted function that is called under two sets of logical axis rules keeps the first set.

    Axis rules are read while jit traces and are not part of its cache key. A call under other rules runs the code that
    was compiled under the first rules, with their shardings. Nothing is raised.

    ## Reports
    - proven: a second call of a jitted function with the same arguments, under other `logical_axis_rules` than the
      first call. Both calls are in the same function.
    - possible: such a second call with other arguments, for which jit may trace again.

    ## Write instead
    Jit a separate function for each set of rules, and remove the jit of the function that they share, or enter one set
    of rules around both calls.
    """

    code = "SL511"
    name = "rules-not-in-jit-key"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.11"}
    triggers = (Calls(*_CONTEXTS),)

    @detector("call")
    def find_calls(self, site: Site) -> Iterator[Finding]:
        """The calls that came too late for their rules."""
        block = _find_block(site, site.call)
        own = _find_rules(site, site.call)
        if block is None or own is None:
            return
        for call in _find_calls(block):
            if not isinstance(call.func, ast.Name) or not self._is_jitted(site, call.func):
                continue
            before = _earlier_call(site, call, own)
            if before is None or not constrains_anywhere(site):
                continue
            same = [site.text(one) for one in (*call.args, *call.keywords)] == [
                site.text(one) for one in (*before.args, *before.keywords)
            ]
            yield site.finding(
                call,
                f"`{call.func.id}` keeps the shardings of its first rules: new rules don't retrace it.",
                label=f"compiled under other rules at line {before.lineno}",
                help="jit a separate function for each set of rules",
                certainty=Certainty.PROVEN
                if same and _same_argument_values(site, before, call)
                else Certainty.POSSIBLE,
            )

    def _is_jitted(self, site: Site, name: ast.Name) -> bool:
        found = options(site.value(name))
        return all(isinstance(one, Transformed) and one.api.name in JIT_WRAPPERS for one in found)


def _find_block(site: Site, call: ast.AST) -> ast.With | None:
    item = site.file.parent(call)
    block = site.file.parent(item) if isinstance(item, ast.withitem) else None
    return block if isinstance(block, ast.With) else None


def _find_rules(site: Site, call: ast.Call) -> LogicalRules | None:
    return logical_rules_of(site.value(call.args[0])) if len(call.args) == 1 else None


def _find_calls(block: ast.With) -> Iterator[ast.Call]:
    """The calls that a block makes itself."""
    todo: list[ast.AST] = list(block.body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        todo.extend(child_nodes(node))


def _earlier_call(site: Site, call: ast.Call, logical_rules: LogicalRules) -> ast.Call | None:
    """The first call of the same function, before this one in the same scope, if it was under other rules."""
    assert isinstance(call.func, ast.Name)
    name = call.func.id
    bound = [one.node for one in lookup_bindings(site.file, call.func, name)[0]]
    for use in site.file.find_mentions(name):
        earlier = site.file.parent(use)
        if not isinstance(use, ast.Name) or not isinstance(earlier, ast.Call) or earlier.func is not use:
            continue
        if earlier.lineno >= call.lineno or site.file.evaluation_scope(earlier) is not site.file.evaluation_scope(call):
            continue
        if [one.node for one in lookup_bindings(site.file, use, name)[0]] != bound:
            continue
        rules = _rules_around_call(site, earlier)
        if rules is None:
            return None
        return earlier if rules != logical_rules else None
    return None


def _rules_around_call(site: Site, call: ast.Call) -> LogicalRules | None:
    """The rules of the innermost block around a call."""
    for outer in site.file.ancestors(call):
        if isinstance(outer, ast.With):
            for item in reversed(outer.items):
                manager = item.context_expr
                if isinstance(manager, ast.Call) and any(
                    isinstance(one, Api) and one.name in _CONTEXTS
                    for one in options(site.value(manager.func))
                ):
                    return _find_rules(site, manager)
    return None


def _same_argument_values(site: Site, before: ast.Call, call: ast.Call) -> bool:
    """Return whether the arguments of two calls, which are names alone, still have the same values."""
    for one, other in zip(before.args, call.args, strict=False):
        if not isinstance(one, ast.Name) or not isinstance(other, ast.Name):
            return False
        first = [binding.node for binding in lookup_bindings(site.file, one, one.id)[0]]
        if first != [binding.node for binding in lookup_bindings(site.file, other, other.id)[0]]:
            return False
    return not call.keywords

"""SL233."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import lookup
from shardlint.model.signatures import jitted
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

_ASKS = regex(
    r"sharding|constraint|partition|shard_map|pmap|mesh|reshard|flax|haliax|equinox|jit$|device_put"
)
_RULES = ("axis_rules", "axis_mapping")


class LoweredOutsideContext(Rule):
    """A jitted function is lowered outside the mesh or axis rules under which it is called.

    ## What it does
    Reports `step.lower(...)` outside of every `with` of a mesh or axis rules, where the same function calls `step` in
    one, and nowhere else.

    ## Why it hurts
    The mesh and the rules in context are part of what is traced. What is lowered is another program: bare specs raise,
    logical constraints are left out, and the memory and cost that it reports are not those of the step that runs.

    ## Use instead
    Lower in the same `with` as the calls.

    ## Evidence
    The proof raises for a bare spec. Left alone: functions that are also called outside, other objects with a method
    of this name, and files that set the mesh for good.
    """

    code = "SL233"
    name = "lowered-outside-context"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("lowered",)
    triggers = (Methods("lower", file_says=("mesh", "Mesh", "axis_rules")),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call of `lower`."""
        func = site.call.func
        if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name | ast.Attribute):
            return
        if not (site.call.args or site.call.keywords) or not site.wants("lowered"):
            return
        scope = site.scope.function() or site.scope
        written = site.text(func.value)
        calls = [call for call in site.file.walked(scope).calls if site.file.text(call.func) == written]
        if not calls or _entered(site, site.file, site.call) is not None or "set_mesh(" in _plain(site):
            return
        if not all(_same(site, call, func.value) for call in calls):
            return
        around = [_entered(site, site.file, call) for call in calls]
        first = around[0]
        if first is None or any(one is None for one in around) or _tells_all(site, func.value):
            return
        yield site.finding(
            site.call,
            "What is lowered here is another program than the one that is called: bare specs raise, and logical "
            "constraints are left out.",
            label=f"outside of the `{first}` under which `{written}` is called at line {calls[0].lineno}",
            help=f"lower it under `{first}` too",
            form="lowered",
            why="every call in this function is made under it",
        )


def _tells_all(site: Site, node: ast.expr) -> bool:
    """Whether no mesh or rules are looked for: shardings have their own, and the body calls nothing that asks."""
    wrapped = jitted(site.value(node), site.program.evaluator)
    inner = wrapped.inner if wrapped is not None else None
    if wrapped is None or not isinstance(inner, Function):
        return False
    for name in ("in_shardings", "out_shardings"):
        place = wrapped.setting(name)
        if place is not None and not all(
            site.sharding_parts(one) is not None for one in options(site.program.evaluator.value(place))
        ):
            return False
    file = inner.place.file
    calls = [one for one in walk(inner.node) if isinstance(one, ast.Call)]
    found = [one for call in calls for one in options(site.program.value(file, call.func))]
    return all(isinstance(one, Api) and not _ASKS.search(one.name) for one in found)


def _same(site: Site, call: ast.Call, value: ast.expr) -> bool:
    """Whether a call is surely of the same function as what is lowered."""
    if not isinstance(call.func, ast.Name) or not isinstance(value, ast.Name):
        return True
    first, _ = lookup(site.file, call.func, value.id)
    second, _ = lookup(site.file, value, value.id)
    return [one.node for one in first] == [one.node for one in second]


def _entered(site: Site, file: FileFacts, node: ast.AST) -> str | None:
    """The mesh or rules of the nearest `with` around a node, in its function."""
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.With) and inner not in outer.items:
            for item in outer.items:
                if _about_mesh(site, file, item.context_expr):
                    return "with " + ", ".join(
                        " ".join(file.text(one.context_expr).split()) for one in outer.items
                    )
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return None
        inner = outer
    return None


def _about_mesh(site: Site, file: FileFacts, node: ast.expr) -> bool:
    text = file.text(node.func if isinstance(node, ast.Call) else node)
    if any(word in text for word in _RULES):
        return True
    found = site.program.contexts.manager(Place(file, node))
    return found is not None and (found.kind != "unknown" or "mesh" in text.lower())


def _plain(site: Site) -> str:
    """The text of the file without its `with` lines: a mesh may be set for good."""
    lines = site.file.source.text.splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("with "))

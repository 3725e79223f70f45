"""SL233."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.bound_names import reads_of_binding, sole_name_of
from shardlint.model.signatures import jitted_value
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_CONTEXT_READERS = compile_lazily(
    r"sharding|constraint|partition|shard_map|pmap|mesh|reshard|flax|haliax|equinox|jit$|device_put"
)
_COUNTS = "cost_analysis"
_RULES = ("axis_rules", "axis_mapping")


class LoweredOutsideContext(Rule):
    """A jitted function is lowered outside the mesh context or axis rules under which it is called.

    The lowered program differs from the program that runs, because tracing reads the mesh and rules in context:

    - Logical constraints are dropped, so the reported memory and cost are wrong for the real step.
    - A bare PartitionSpec raises RuntimeError.

    ## Reports
    - `lowered` (likely): `step.lower(...)` outside every mesh or axis rules context, if every call of `step` in the
      same function is inside such a context.
    - `only-counted` (possible): such a call, if only `cost_analysis()` of the program is read.

    ## Write instead
    Call `lower` in the same `with` block as the calls.

    ## Limits
    Not reported: files that call `set_mesh` as a statement, and functions that read neither a mesh nor axis rules from
    the context.
    """

    code = "SL233"
    name = "lowered-outside-context"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("lowered",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "lowered": "The function reads the mesh or the axis rules in context."
    }
    triggers = (Methods("lower", file_says=("mesh", "Mesh", "axis_rules")),)
    fixes = "none"

    @detector("method")
    def report_lowering(self, site: Site) -> Finding | None:
        """A call of `lower` outside of the mesh context of the other calls."""
        func = site.call.func
        if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name | ast.Attribute):
            return None
        if not (site.call.args or site.call.keywords):
            return None
        scope = site.scope.enclosing_function() or site.scope
        written = site.text(func.value)
        calls = [call for call in site.file.walk_scope(scope).calls if site.file.source_text(call.func) == written]
        if (
            not calls
            or _nearest_entered_context(site, site.file, site.call) is not None
            or "set_mesh(" in _text_without_contexts(site)
        ):
            return None
        if not all(_is_same_function(site, call, func.value) for call in calls):
            return None
        around = [_nearest_entered_context(site, site.file, call) for call in calls]
        first, form = around[0], "only-counted" if _is_only_counted(site) else "lowered"
        if first is None or any(one is None for one in around):
            return None
        if not site.wants(form) or _needs_no_context(site, func.value):
            return None
        return site.finding(
            site.call,
            f"The program lowered from `{written}` differs from the program that runs: the mesh context is missing.",
            label="outside the `with`",
            help=f"call `lower` under `{first}` too",
            form=form,
            why=f"line {calls[0].lineno} calls `{written}` under `{first}`, and tracing reads that context",
        )


def _is_only_counted(site: Site) -> bool:
    """True if only the operations of the compiled program are counted: constraints change few of them."""
    node: ast.AST = site.call
    parent = site.file.parent(node)
    if isinstance(parent, ast.Attribute) and parent.attr == "compile":
        node = site.file.parent(parent) or node
        parent = site.file.parent(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr == _COUNTS
    target = sole_name_of(site.file, node)
    reads = list(reads_of_binding(site.file, target, only=False)) if target is not None else []
    return bool(reads) and all(getattr(site.file.parent(one), "attr", "") == _COUNTS for one in reads)


def _needs_no_context(site: Site, node: ast.expr) -> bool:
    """True if the shardings name their mesh and the body calls nothing that reads a mesh or rules."""
    wrapped = jitted_value(site.value(node), site.program.evaluator)
    inner = wrapped.inner if wrapped is not None else None
    if wrapped is None or not isinstance(inner, Function):
        return False
    for name in ("in_shardings", "out_shardings"):
        place = wrapped.setting_expression(name)
        if place is not None and not all(
            site.sharding_parts(one) is not None for one in options(site.program.evaluator.value(place))
        ):
            return False
    file = inner.place.file
    calls = [one for one in walk_nodes(inner.node) if isinstance(one, ast.Call)]
    values = [one for call in calls for one in options(site.program.value(file, call.func))]
    return all(isinstance(one, Api) and not _CONTEXT_READERS.search(one.name) for one in values)


def _is_same_function(site: Site, call: ast.Call, value: ast.expr) -> bool:
    """True if the called name has the definitions of the lowered one."""
    if not isinstance(call.func, ast.Name) or not isinstance(value, ast.Name):
        return True
    first, _ = lookup_bindings(site.file, call.func, value.id)
    second, _ = lookup_bindings(site.file, value, value.id)
    return [one.node for one in first] == [one.node for one in second]


def _nearest_entered_context(site: Site, file: FileFacts, node: ast.AST) -> str | None:
    """The mesh or rules of the nearest `with` around a node, in its function."""
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.With) and inner not in outer.items:
            for item in outer.items:
                if _is_mesh_context(site, file, item.context_expr):
                    return "with " + ", ".join(
                        " ".join(file.source_text(one.context_expr).split()) for one in outer.items
                    )
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return None
        inner = outer
    return None


def _is_mesh_context(site: Site, file: FileFacts, node: ast.expr) -> bool:
    text = file.source_text(node.func if isinstance(node, ast.Call) else node)
    if any(word in text for word in _RULES):
        return True
    context = site.program.contexts.context_of_manager(Place(file, node))
    return context is not None and (context.kind != "unknown" or "mesh" in text.lower())


def _text_without_contexts(site: Site) -> str:
    """The text of the file without its `with` lines."""
    lines = site.file.source.text.splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("with "))

"""Calls of `pjit` outside of the mesh that their function enters for others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import CallResult, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.nodes import walk

_GIVEN = ("in_shardings", "out_shardings", "in_axis_resources", "out_axis_resources")
_SPECS = regex(r"(?i)(?:^|_)(?:p?specs?|partition_?specs?)$")
_SETTING = ("set_mesh", "use_mesh", "__enter__", "enter_context")


def outside(site: Site) -> tuple[ast.Call, ast.With] | None:
    """A call of the pjit outside of every `with`, and a `with` of a mesh that its function enters elsewhere."""
    if not any(_of_specs(site, one.value) for one in site.call.keywords if one.arg in _GIVEN):
        return None
    scope = site.scope.function()
    calls = list(_calls(site, scope)) if scope is not None else []
    if scope is None or not calls or any(site.file.says(word) for word in _SETTING):
        return None
    entered = [one for one in scope.statements if isinstance(one, ast.With) and _of_mesh(site, one)]
    alone = [call for call in calls if not _in_with(site.file, call)]
    if not entered or not alone or not _started_without(site, scope):
        return None
    return alone[0], entered[0]


def _of_specs(site: Site, node: ast.expr) -> bool:
    """Whether what is given for shardings is specs, by its value or its name."""
    if isinstance(node, ast.Tuple | ast.List):
        return any(_of_specs(site, one) for one in node.elts)
    found = options(site.value(node))
    made = [one.api for one in found if isinstance(one, CallResult) and one.api.startswith("jax.")]
    if made:
        return all(one == "jax.sharding.PartitionSpec" for one in made)
    return _SPECS.search(last_name(node)) is not None


def _calls(site: Site, scope: Scope) -> Iterator[ast.Call]:
    """The calls of the function that a pjit gives, in the function that makes it."""
    file, parent = site.file, site.file.parent(site.call)
    if isinstance(parent, ast.Call) and parent.func is site.call:
        yield parent
        return
    name = ""
    if site.decorated is not None:
        name = site.decorated.name
    elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
    if not name or len(file.bindings(scope, name)) != 1:
        return
    for call in file.walked(scope).calls:
        if isinstance(call.func, ast.Name) and call.func.id == name and file.home(call) is scope:
            yield call


def _of_mesh(site: Site, statement: ast.With) -> bool:
    """Whether a statement enters a mesh, and calls something there."""
    for item in statement.items:
        found = site.program.contexts.manager(Place(site.file, item.context_expr))
        named = last_name(item.context_expr).endswith("mesh")
        if found is not None and (found.kind == "with mesh" or (found.kind == "unknown" and named)):
            return any(isinstance(one, ast.Call) for part in statement.body for one in walk(part))
    return False


def _in_with(file: FileFacts, node: ast.AST) -> bool:
    for outer in file.ancestors(node):
        if isinstance(outer, ast.With):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
    return False


def _started_without(site: Site, scope: Scope) -> bool:
    """Whether no call of the function that is seen is under a `with`."""
    ends = site.program.flow.ends(site.file, scope.node).found
    return not any(_in_with(one.place.file, one.place.node) for one in ends)

"""A mesh that a function enters only after a constraint. For SL214."""

from __future__ import annotations

import ast

from shardlint.model.reach import field_of, lookup
from shardlint.model.values import CallResult, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

_KNOWN = ("with mesh", "set_mesh", "use_mesh")


def about_meshes(site: Site, test: ast.expr) -> bool:
    """Whether a test says something of meshes or shardings."""
    text = site.text(test).lower()
    return "mesh" in text or "shard" in text


def _entered(site: Site, file: FileFacts, node: ast.With | ast.AsyncWith) -> ast.expr | None:
    """What a `with` enters that surely is a mesh."""
    file.walked(file.scope_at(node.lineno))
    for item in node.items:
        found = site.program.contexts.manager(Place(file, item.context_expr))
        if found is not None and found.kind in _KNOWN:
            return item.context_expr
    return None


def _may_be_entered(site: Site, last: ast.AST) -> bool:
    """Whether a `with` or decorator around the call, up to a node, may set a mesh."""
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.With | ast.AsyncWith) and any(
            site.program.contexts.manager(Place(site.file, item.context_expr)) is not None
            for item in outer.items
        ):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and any(
            "mesh" in site.text(decorator).lower() for decorator in outer.decorator_list
        ):
            return True
        if outer is last:
            break
    return False


@dataclass(frozen=True)
class EnteredLater:
    """The line of the `with` that enters a mesh, and the text of that mesh if it means the same at the constraint."""

    line: int
    mesh: str | None


def entered_later(site: Site) -> EnteredLater | None:
    """The mesh that a function enters only after an eager constraint, and in which it reads the result."""
    function = site.scope.function()
    bound = _bound(site)
    if function is None or bound is None or site.region.proven:
        return None
    if site.program.around(site.file, site.call).contexts or _may_be_entered(site, function.node):
        return None
    inner: ast.AST = site.file.statement(site.syntax)
    for outer in site.file.ancestors(inner):
        block: list[ast.stmt] = getattr(outer, field_of(outer, inner), [])
        below = [later for later in block if later.lineno > getattr(inner, "lineno", 0)]
        for later in below:
            if isinstance(later, ast.With | ast.AsyncWith):
                found = _entered(site, site.file, later)
                if found is not None and _reads(site, later, bound):
                    return EnteredLater(later.lineno, _mesh_text(site, found))
        if outer is function.node:
            break
        inner = outer
    return None


def _bound(site: Site) -> str | None:
    parent = site.file.parent(site.syntax)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _reads(site: Site, block: ast.With | ast.AsyncWith, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for part in block.body for node in walk(part))


def _mesh_text(site: Site, entered: ast.expr) -> str | None:
    """How the mesh is written that a `with` enters, if that means the same at the call."""
    if isinstance(entered, ast.Call):
        value = site.value(entered)
        if (
            not any(isinstance(option, CallResult) and option.api for option in options(value))
            or not entered.args
        ):
            return None
        entered = entered.args[0]
    base: ast.expr = entered
    while isinstance(base, ast.Attribute):
        base = base.value
    if not isinstance(base, ast.Name):
        return None
    here, _ = lookup(site.file, site.call, base.id)
    there, _ = lookup(site.file, entered, base.id)
    return site.text(entered) if here and here == there else None

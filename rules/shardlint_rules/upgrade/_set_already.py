"""Is the mesh of a `with mesh:` set by jax.set_mesh there already?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.contexts import SET_KINDS
from shardlint.model.values import CallResult, Parameter, Place, Value, options
from shardlint.rules_api.site import Site


def set_already(site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem) -> int | None:
    """The line that sets the mesh of a `with` item: another item of the statement, or what stands around it."""
    text, value = site.text(item.context_expr), site.value(item.context_expr)
    for call in _mesh_setting_calls(site, statement):
        mesh = call.args[0] if call.args else next((one.value for one in call.keywords), None)
        if mesh is not None and (site.text(mesh) == text or _are_same_object(site.value(mesh), value)):
            return call.lineno
    return None


def _mesh_setting_calls(site: Site, statement: ast.With | ast.AsyncWith) -> Iterator[ast.Call]:
    """Calls that set a mesh for a statement, in its own function."""
    function = site.file.evaluation_scope(statement).node
    for outer in (statement, *site.file.ancestors(statement)):
        if outer is function:
            break
        for item in outer.items if isinstance(outer, ast.With | ast.AsyncWith) else ():
            if isinstance(item.context_expr, ast.Call) and _sets_mesh(site, item.context_expr):
                yield item.context_expr
    for mention in site.file.find_mentions("set_mesh"):
        call = site.file.parent(mention)
        if isinstance(call, ast.Call) and call.lineno < statement.lineno and _sets_mesh(site, call):
            parent = site.file.parent(call)
            own = site.file.evaluation_scope(call).node is function
            if (
                own
                and isinstance(parent, ast.Expr)
                and site.file.statement_in_block(call, site.file.evaluation_scope(call))
            ):
                yield call


def _sets_mesh(site: Site, call: ast.Call) -> bool:
    found = site.program.contexts.context_of_manager(Place(site.file, call))
    return found is not None and found.kind in SET_KINDS


def _are_same_object(one: Value, two: Value) -> bool:
    """Return whether two expressions are one object: made by the same call, or the same parameter."""
    first, second = options(one), options(two)
    if len(first) != 1 or len(second) != 1:
        return False
    match first[0], second[0]:
        case CallResult(call=left), CallResult(call=right) if left is not None and right is not None:
            return left.place.node is right.place.node
        case Parameter(), Parameter():
            return first[0] == second[0]
    return False

"""The project's own context managers that enter a mesh or axis rules, called as statements."""

from __future__ import annotations

import ast

from shardlint.model.api import MESH_CONTEXTS
from shardlint.model.values import Api, ClassValue, Function, Place, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

MANAGER_WORDS = ("mesh", "partition", "context", "ctx", "rules", "scope", "mapping", "parallel", "env")
_DECORATORS = ("contextlib.contextmanager", "contextlib.asynccontextmanager")
_RULES = ("axis_rules", "logical_axis_rules", "axis_mapping")


def context_of_unused_manager(site: Site) -> str | None:
    """Return the context that a context manager of the project enters, if the statement only makes one; None
    otherwise.
    """
    found = options(site.value(site.call.func))
    if len(found) != 1:
        return None
    definition = _context_manager_function(site, found[0])
    return _entered_mesh_or_rules(site, *definition) if definition is not None else None


def _context_manager_function(site: Site, value: Value) -> tuple[FileFacts, ast.FunctionDef] | None:
    """The function that runs when it is entered."""
    if isinstance(value, ClassValue):
        file = value.place.file
        scope = file.scope(value.node)
        bound = [one.node for name in ("__enter__",) for one in file.bindings(scope, name)]
        return (file, bound[0]) if bound and isinstance(bound[0], ast.FunctionDef) else None
    decorated = False
    while isinstance(value, Transformed):
        decorated = decorated or value.api.name in _DECORATORS
        value = value.inner
    if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
        return None
    file = value.place.file
    named = [one for part in value.node.decorator_list for one in options(site.program.value(file, part))]
    if not decorated and not any(isinstance(one, Api) and one.name in _DECORATORS for one in named):
        return None
    return file, value.node


def _entered_mesh_or_rules(site: Site, file: FileFacts, node: ast.FunctionDef) -> str | None:
    """The mesh or rules that a function enters or sets, as written."""
    for call in file.walk_scope(file.scope(node)).calls:
        for one in options(site.program.value(file, call.func)):
            last = one.name.rpartition(".")[2] if isinstance(one, Api) else ""
            if isinstance(one, Api) and (one.name in MESH_CONTEXTS or last in _RULES):
                return " ".join(file.source_text(call).split())
    for statement in file.walk_scope(file.scope(node)).statements:
        for item in statement.items if isinstance(statement, ast.With) else []:
            if site.program.contexts.context_of_manager(Place(file, item.context_expr)) is None:
                continue
            text = file.source_text(item.context_expr)
            if text.rpartition(".")[2].lower().endswith("mesh"):
                return f"with {text}"
    return None

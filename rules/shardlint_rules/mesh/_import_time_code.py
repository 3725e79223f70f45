"""Code that runs while modules are imported, and names that are not set at that time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Function, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.nodes import walk_nodes


def when_run_at_import(site: Site, node: ast.AST) -> str | None:
    """When a place runs, in words, if it surely runs while modules are imported: before what a program does itself."""
    if is_run_as_script(site.file, node):
        return None
    here = site.file.evaluation_scope(node).enclosing_function()
    if here is None:
        return None if _is_imported_in_function(site, site.file) else "its module is imported"
    if not isinstance(here.node, ast.FunctionDef):
        return None
    decorated = _decorating_function(site, here)
    if decorated is None:
        return None
    file, name = decorated
    return (
        None
        if _is_imported_in_function(site, file)
        else f"`{name}` of {file.path.name} is decorated, at the import of that module"
    )


def globals_none_until_bound(file: FileFacts) -> frozenset[str]:
    """The names of a module that are None until a function of it binds them."""
    rebound = file.rebound_globals
    found: dict[str, bool] = {}
    for scope_statement in file.walk_scope(file.module).statements if rebound else ():
        for target, value in _bound_names(scope_statement):
            if target in rebound:
                none = isinstance(value, ast.Constant) and value.value is None
                found[target] = none and found.get(target, True)
    return frozenset(name for name, none in found.items() if none)


def set_while_importing(site: Site, file: FileFacts, name: str) -> bool:
    """Return whether a function that binds a global may run while modules are imported, before others that read it."""
    setters = [one.name for one in _functions_setting_global(file, name)]
    if not setters:
        return True
    words = "|".join(map(re.escape, setters))
    for where in site.program.project.files_holding(site.file.path, (rf"(?m)\b({words})\(",)):
        if where is None:
            return True
        for setter in setters:
            for use in where.find_mentions(setter):
                call = where.parent(use)
                if not isinstance(call, ast.Call) or call.func is not use:
                    continue
                if where.evaluation_scope(call).enclosing_function() is None and not is_run_as_script(where, call):
                    if _is_import_after(where, call) or _is_imported(site, where):
                        return True
    return False


def _functions_setting_global(file: FileFacts, name: str) -> Iterator[ast.FunctionDef]:
    """The functions that declare a name global and bind it."""
    for node in walk_nodes(file.tree):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(one, ast.Global) and name in one.names for one in node.body
        ):
            yield node


def _bound_names(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from ((one.id, value) for one in targets if isinstance(one, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            yield name, value


def is_run_as_script(file: FileFacts, node: ast.AST) -> bool:
    return any(isinstance(one, ast.If) and "__name__" in file.source_text(one.test) for one in file.ancestors(node))


def _is_import_after(file: FileFacts, call: ast.AST) -> bool:
    line = getattr(call, "lineno", 0)
    return any(isinstance(one, ast.Import | ast.ImportFrom) and one.lineno > line for one in file.tree.body)


def _is_imported(site: Site, file: FileFacts) -> bool:
    return _is_imported_elsewhere(site, file, r"(?m)^[ \t]*")


def _is_imported_in_function(site: Site, file: FileFacts) -> bool:
    """Return whether some function imports the module itself, perhaps after the mesh was set."""
    return _is_imported_elsewhere(site, file, r"(?m)^[ \t]+")


def _is_imported_elsewhere(site: Site, file: FileFacts, begin: str) -> bool:
    stem = re.escape(file.path.parent.name if file.path.name == "__init__.py" else file.path.stem)
    pattern = rf"{begin}(?:from|import)[ \t]+[^\n#]*\b{stem}\b"
    return any(True for _ in site.program.project.files_holding(site.file.path, (pattern,)))


def _decorating_function(site: Site, scope: Scope) -> tuple[FileFacts, str] | None:
    """A function at module level that a function decorates, itself or as what its outer function gives."""
    node = scope.node
    assert isinstance(node, ast.FunctionDef)
    outer = scope.parent.enclosing_function() if scope.parent is not None else None
    made = outer is not None
    if outer is not None:
        returns = site.file.walk_scope(outer).returns
        if not isinstance(outer.node, ast.FunctionDef) or outer.parent is None or outer.parent.kind != "module":
            return None
        if not any(isinstance(one.value, ast.Name) and one.value.id == node.name for one in returns):
            return None
        node = outer.node
    elif not any(isinstance(one, ast.FunctionDef) for one in node.body):
        return None
    pattern = rf"(?m)^[ \t]*@(?:[\w.]+\.)?{re.escape(node.name)}\b"
    for file in site.program.project.files_holding(site.file.path, (pattern,)):
        if file is None:
            return None
        for use in file.find_mentions(node.name):
            decorator = file.parent(use) if made else use
            if made and not (isinstance(decorator, ast.Call) and decorator.func is use):
                continue
            definition = file.parent(decorator) if decorator is not None else None
            if not isinstance(definition, ast.FunctionDef) or decorator not in definition.decorator_list:
                continue
            if file.evaluation_scope(definition).enclosing_function() is not None:
                continue
            found = options(site.program.value(file, use))
            if all(isinstance(one, Function) and one.place.node is node for one in found):
                return file, definition.name
    return None

"""Random keys that one process alone moves on: `key, sub = jax.random.split(key)` under `if process_index() == 0`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.processes.conditions import Guard, find_process_guard
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def moved_by_one(site: Site) -> tuple[str, Guard, ast.AST] | None:
    """The key, what keeps the others from it, and where all processes read the key again."""
    file, call = site.file, site.call
    statement = file.parent(call)
    given = call.args[0] if call.args else None
    if not isinstance(statement, ast.Assign) or not isinstance(given, ast.Name):
        return None
    bound = [one.id for one in walk_nodes(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    if given.id not in bound:
        return None
    alone = find_process_guard(site.program, file, call)
    if alone is None:
        return None
    branch = _find_process_branch(site, statement, alone)
    if branch is None:
        return None
    read = next(_read_by_all(site, branch, given.id), None)
    return (given.id, alone, read) if read is not None else None


def _find_process_branch(site: Site, statement: ast.stmt, guard: Guard) -> ast.If | None:
    """The `if` that asks for the process, where it has no other branch."""
    for outer in _ancestors_around(site.file, statement):
        if isinstance(outer, ast.If) and any(one is guard.test for one in walk_nodes(outer.test)):
            return outer if not outer.orelse else None
    return None


def _read_by_all(site: Site, branch: ast.If, name: str) -> Iterator[ast.AST]:
    """Where the function reads a name after a branch, or in the next turn of its loop, as the branch left it."""
    file = site.file
    loop = next((one for one in _ancestors_around(file, branch) if isinstance(one, _LOOPS)), None)
    scope = file.evaluation_scope(branch).enclosing_function()
    root: ast.AST = scope.node if scope is not None else file.tree
    inside = {id(one) for one in walk_nodes(branch)}
    turn = {id(one) for one in walk_nodes(loop)} if loop is not None else set()
    mentions = [
        one
        for one in walk_nodes(root)
        if isinstance(one, ast.Name) and one.id == name and id(one) not in inside
    ]
    later = [one for one in mentions if id(one) in turn or one.lineno > branch.lineno]
    if not any(isinstance(one.ctx, ast.Store) and not _is_computed_from_itself(file, one, name) for one in later):
        # Else it is made of something else before. A read of the same process alone differs from nobody's.
        yield from (
            one
            for one in later
            if isinstance(one.ctx, ast.Load) and find_process_guard(site.program, file, one) is None
        )


def _is_computed_from_itself(file: FileFacts, target: ast.Name, name: str) -> bool:
    statement = file.statement(target)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return value is not None and any(isinstance(one, ast.Name) and one.id == name for one in walk_nodes(value))


def _ancestors_around(file: FileFacts, node: ast.AST) -> Iterator[ast.AST]:
    for outer in file.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        yield outer

"""Attributes that a method sets again from what they held: `self.step = jax.jit(self.step)`."""

from __future__ import annotations

import ast

from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes


def value_before_reassignment(file: FileFacts, node: ast.Attribute) -> ast.expr | None:
    """Return the value of an attribute that is read to set it again, if the same function surely set it before.

    Only the reading of `self.step` inside an assignment to `self.step` is answered: those that come later have not
    run yet. The last one before must be passed on every way to this one.
    """
    if not isinstance(node.value, ast.Name) or not isinstance(node.ctx, ast.Load):
        return None
    statement = _enclosing_statement(file, node)
    if statement is None or not _assigns_target(statement, node):
        return None
    inner: ast.stmt = statement
    for outer in file.ancestors(statement):
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While | ast.Lambda | ast.ClassDef):
            return None  # a loop comes back with what it set itself
        for block in _inner_blocks(outer):
            if inner in block:
                earlier = block[: block.index(inner)]
                for one in reversed(earlier):
                    if _assigns_target(one, node):
                        assert isinstance(one, ast.Assign)
                        return one.value
                    if _may_set(one, node):
                        return None
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        if isinstance(outer, ast.stmt):
            inner = outer
    return None


def wraps_itself(file: FileFacts, node: ast.Attribute) -> bool:
    """Return whether an attribute of a name is read in an assignment to the same: `self.step = jax.jit(self.step)`."""
    if not isinstance(node.value, ast.Name) or not isinstance(node.ctx, ast.Load):
        return False
    statement = _enclosing_statement(file, node)
    return statement is not None and _assigns_target(statement, node)


def _enclosing_statement(file: FileFacts, node: ast.AST) -> ast.stmt | None:
    for outer in file.ancestors(node):
        if isinstance(outer, ast.Lambda):
            return None  # read when it is called, with what was set then
        if isinstance(outer, ast.stmt):
            return outer
    return None


def _assigns_target(statement: ast.stmt, node: ast.Attribute) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and _is_same_target(statement.targets[0], node)
    )


def _may_set(statement: ast.stmt, node: ast.Attribute) -> bool:
    """Return whether a statement between may set it: by name, through another object under the name, or in a method it
    calls.
    """
    assert isinstance(node.value, ast.Name)
    owner = node.value.id
    for part in walk_nodes(statement):
        if isinstance(part, ast.Call):
            given = [part.func.value] if isinstance(part.func, ast.Attribute) else []
            given += [*part.args, *(keyword.value for keyword in part.keywords)]
            if any(isinstance(one, ast.Name) and one.id == owner for one in given):
                return True
        elif isinstance(getattr(part, "ctx", None), ast.Store | ast.Del):
            if _is_same_target(part, node) or (isinstance(part, ast.Name) and part.id == owner):
                return True
    return False


def _is_same_target(target: ast.AST, node: ast.Attribute) -> bool:
    assert isinstance(node.value, ast.Name)
    return (
        isinstance(target, ast.Attribute)
        and target.attr == node.attr
        and isinstance(target.value, ast.Name)
        and target.value.id == node.value.id
    )


def _inner_blocks(node: ast.AST) -> list[list[ast.stmt]]:
    named = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    return [block for block in named if isinstance(block, list)]

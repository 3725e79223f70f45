"""Names of expressions."""

from __future__ import annotations

import ast


def last_name(node: ast.AST) -> str:
    """A name, or the last part of an attribute; nothing for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def called_name(node: ast.AST) -> str:
    """The same, and of a call that of what it calls: `jit` of `@jax.jit` and of `@jax.jit(...)`."""
    return last_name(node.func if isinstance(node, ast.Call) else node)

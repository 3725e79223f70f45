"""Shares of a list or array for which each process takes the first: `files[: len(files) // jax.process_count()]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import lookup, readers
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts

# What tells the processes apart, by the names that people give it.
_APART = regex(r"(?i)process_?(?:index|id)|host_?(?:index|id)|rank|shard_?(?:index|id)|worker|proc_?id")


def first_shares(site: Site) -> Iterator[ast.Subscript]:
    """Where the part that a count of processes makes is taken from the front, and nothing tells the processes apart."""
    parent = site.file.parent(site.call)
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.FloorDiv) or parent.right is not site.call:
        return
    of = _counted(parent.left)
    scope = site.scope.function()
    if of is None or scope is None:
        return
    function = scope.node
    if any(site.file.says(one) for one in ("process_index", "process_id", "host_id")):
        return
    if _APART.search(site.text(function)):
        return
    for use in _uses(site, parent):
        part = site.file.parent(use)
        taken = site.file.parent(part) if part is not None else None
        if not isinstance(part, ast.Slice) or part.upper is not use or part.step is not None:
            continue
        if part.lower is not None and not (isinstance(part.lower, ast.Constant) and part.lower.value == 0):
            continue
        if isinstance(taken, ast.Subscript) and site.text(taken.value) == site.text(of):
            if _same(site.file, taken.value, of):
                yield taken


def _counted(node: ast.expr) -> ast.expr | None:
    """What a length is of: `len(x)`, `x.shape[0]`, `x.size`."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return of
        case ast.Subscript(value=ast.Attribute(value=of, attr="shape"), slice=ast.Constant(value=0)):
            return of
        case ast.Attribute(value=of, attr="size"):
            return of
    return None


def _uses(site: Site, node: ast.expr) -> Iterator[ast.AST]:
    """An expression, or where the one name that it is given is read."""
    yield node
    parent = site.file.parent(node)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        for use, _ in readers(site.file, parent.targets[0]):
            if len(lookup(site.file, use, use.id)[0]) == 1:
                yield use


def _same(file: FileFacts, one: ast.expr, other: ast.expr) -> bool:
    """Whether a name that is written in two places is bound in the same ones."""
    if not isinstance(one, ast.Name) or not isinstance(other, ast.Name):
        return True
    left, right = (lookup(file, name, name.id)[0] for name in (one, other))
    return [binding.node for binding in left] == [binding.node for binding in right]

"""Keys of its arguments that the body of a `shard_map` reads, and the dicts in its in_specs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import Parameters
from shardlint.model.values import Constant, Items, Table
from shardlint.syntax.nodes import walk


def keys_not_told(takes: Parameters, specs: Items) -> Iterator[tuple[str, str, int]]:
    """Parameter, key and line of what the function surely reads of an argument, and the dict of specs has not."""
    body = takes.node
    if body is None:
        return
    for name, entry in zip(takes.positional, specs.items, strict=False):
        if not isinstance(entry, Table) or entry.open:
            continue
        told = {key.value if isinstance(key, Constant) else key for key, _ in entry.entries}
        if not told or not all(isinstance(key, str) for key in told) or _changed(body, name):
            continue
        done: set[str] = set()
        for key, line in _read(body, name):
            if key not in told and key not in done:
                done.add(key)
                yield name, key, line


def _read(body: ast.AST, name: str) -> Iterator[tuple[str, int]]:
    for node in walk(body):
        match node:
            case ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=str(key)), ctx=ast.Load()) if (
                of == name
            ):
                yield key, node.lineno


def _changed(body: ast.AST, name: str) -> bool:
    """Whether the name is bound again, its keys are set or asked for, or an inner function has one of that name."""
    for node in walk(body):
        match node:
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()) if found == name:
                return True
            case ast.Subscript(value=ast.Name(id=found), ctx=ast.Store() | ast.Del()) if found == name:
                return True
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=found)]) if found == name:
                return True
            case ast.Attribute(value=ast.Name(id=found), attr="update" | "setdefault" | "pop") if found == name:
                return True
            case ast.FunctionDef() | ast.Lambda() | ast.AsyncFunctionDef() if node is not body:
                arguments = node.args
                every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                if any(one.arg == name for one in every):
                    return True
            case ast.Try():
                return True  # a KeyError may be expected
    return False

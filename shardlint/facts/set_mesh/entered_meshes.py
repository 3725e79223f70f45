"""Meshes that `with` statements enter themselves, and expressions that are meshes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import CallResult, Constant, Parameter, Place, Value, options
from shardlint.syntax import FileFacts, last_name

_CALLS = 3  # so many calls back an argument is followed


def entered_meshes(
    program: Program, file: FileFacts
) -> Iterator[tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]]:
    """The `with` items of a file that enter a mesh itself."""
    for node in file.with_statements:
        yield from mesh_items(program, file, node)


def mesh_items(
    program: Program, file: FileFacts, node: ast.With | ast.AsyncWith
) -> Iterator[tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]]:
    """The items of one `with` statement that enter a mesh itself."""
    for item in node.items:
        found = program.contexts.context_of_manager(Place(file, item.context_expr))
        if found is not None and found.kind == "with mesh":
            yield node, item, found


def surely_a_mesh(program: Program, file: FileFacts, node: ast.expr) -> bool:
    """Return whether an expression is a mesh: made in the text, annotated as one, or passed by all visible callers."""
    value = program.value(file, node)
    followed = [one for one in options(program.followed(value)) if one != Constant(None)]
    if followed and all(_is_made(one) for one in followed):
        return True
    if program.contexts.said.is_mesh_expression(Place(file, node)):
        return True
    # Where there may be other callers, what it is called has to say the same.
    return last_name(node).lower().endswith("mesh") and all(_is_mesh_passed(program, one) for one in options(value))


def _is_made(value: Value) -> bool:
    return isinstance(value, CallResult) and value.api in MESH_MAKERS


def _is_mesh_passed(program: Program, value: Value, depth: int = _CALLS) -> bool:
    """Return whether there are visible calls, and all pass a mesh for a parameter."""
    if not isinstance(value, Parameter):
        return _is_made(value)
    if program.contexts.said.is_mesh_parameter(value):
        return True
    seen = [
        one
        for given in program.callers.visible_argument_values(value)
        for one in options(given)
        if one != Constant(None)
    ]
    return bool(seen) and depth > 0 and all(_is_mesh_passed(program, one, depth - 1) for one in seen)

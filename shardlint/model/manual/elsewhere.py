"""Functions that another file maps: who maps the functions of a file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model.manual.mapped import definition, mapped
from shardlint.model.values import Function, Place
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

Met = tuple[ast.AST, str]
"""A place at which `shard_map` or `pmap` is met, and in which form (see `rules_api.site.Site`)."""


@dataclass(frozen=True)
class MappedBy:
    """A function, and the call or partial in another file that maps it."""

    function: Place
    file: FileFacts
    call: ast.expr
    form: str


def mapping_call(program: Program, file: FileFacts, met: Met) -> tuple[ast.expr, str] | None:
    """The call or bare decorator that maps, and its form: what was met, or the call of a helper of the project."""
    node, form = met
    if not isinstance(node, ast.expr):
        return None
    if form == "name":
        parent = file.parent(node)
        is_decorator = isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and node in parent.decorator_list
        return (node, form) if is_decorator else None
    if not isinstance(node, ast.Call):
        return None
    if form != "keyword":
        return node, form
    helper = isinstance(program.value(file, node.func), Function)
    return (node, "call") if helper else None


def mapped_into(
    program: Program, path: Path, meets: Callable[[FileFacts], Iterable[Met]]
) -> tuple[MappedBy, ...]:
    """The functions of a file that others map, by whom. `meets` says where one maps."""
    found: list[MappedBy] = []
    for other in program.project.mappers(path):
        file = program.project.facts(other)
        if file is not None:
            maps = program.of_node(("maps", other), partial(_maps, program, file, meets))
            found += (one for one in maps if one.function.file.path == path)
    return tuple(found)


def _maps(program: Program, file: FileFacts, meets: Callable[[FileFacts], Iterable[Met]]) -> tuple[MappedBy, ...]:
    found: list[MappedBy] = []
    for one in meets(file):
        call = mapping_call(program, file, one)
        if call is not None:
            places = (definition(program, inner.inner) for inner in mapped(program, file, *call))
            found += (MappedBy(place, file, *call) for place in places if place is not None and place.file is not file)
    return tuple(found)

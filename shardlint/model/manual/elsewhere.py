"""Functions that another file maps, or comes to from what it maps: who maps the functions of a file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual.mapped import definition, mapped
from shardlint.model.values import Function, Place
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

_FILES = 12
"""How many files are asked what they map of a file."""
Met = tuple[ast.AST, str]
"""A place at which `shard_map` or `pmap` is met, and in which form (see `rules_api.site.Site`)."""


@dataclass(frozen=True)
class MappedBy:
    """A function, and the call or partial in another file that maps it, or a function that calls it."""

    function: Place
    file: FileFacts
    call: ast.expr
    form: str
    called: bool = False
    """Whether it is another function that is mapped, which comes to this one."""


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


def called_in_mapped(
    program: Program, path: Path, meets: Callable[[FileFacts], Iterable[Met]], summed: bool
) -> tuple[MappedBy, ...]:
    """The functions of a file that what others map comes to, as far as something happens there.

    Nothing where much is assumed: a helper is judged by what the text says of those who map.
    """
    if isinstance(program.evaluator, Assuming):
        return ()

    def look() -> tuple[MappedBy, ...]:
        found: dict[tuple[ast.AST, ast.AST], MappedBy] = {}
        for other in mapping_files(program, path):
            file = program.project.facts(other)
            if file is None:
                continue
            come = _come_to(program, file, meets, summed)
            for (call, form), paths in zip(_mapping_calls(program, file, meets), come, strict=True):
                if path not in paths:
                    continue
                events = (event for ran in program.ran(file, call, form, summed) for event in ran.events)
                for place in (event.place for event in events if event.place.file.path == path):
                    function = defined_around(place)
                    if function is not None:
                        by = MappedBy(Place(place.file, function), file, call, form, called=True)
                        found.setdefault((function, call), by)
        return tuple(found.values())

    return program.of_node(("called in mapped", path, summed), look)


def _come_to(
    program: Program, file: FileFacts, meets: Callable[[FileFacts], Iterable[Met]], summed: bool
) -> tuple[frozenset[Path], ...]:
    """The files in which something happens of what a file maps, for each call that maps."""

    def look() -> tuple[frozenset[Path], ...]:
        ran = (program.ran(file, call, form, summed) for call, form in _mapping_calls(program, file, meets))
        return tuple(frozenset(event.place.file.path for one in found for event in one.events) for found in ran)

    return program.of_file(file, ("mapped come to", summed), look)


def defined_around(place: Place) -> ast.AST | None:
    """The innermost `def` around a place."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return next((one for one in place.file.ancestors(place.node) if isinstance(one, kinds)), None)


def mapping_files(program: Program, path: Path) -> list[Path]:
    """The files that run with one and map something, by their texts."""
    return program.project.mapping(path)[:_FILES]


def _mapping_calls(
    program: Program, file: FileFacts, meets: Callable[[FileFacts], Iterable[Met]]
) -> list[tuple[ast.expr, str]]:
    def look() -> list[tuple[ast.expr, str]]:
        return [call for one in meets(file) if (call := mapping_call(program, file, one)) is not None]

    return program.of_node(("mapping calls", file.path), look)


def _maps(program: Program, file: FileFacts, meets: Callable[[FileFacts], Iterable[Met]]) -> tuple[MappedBy, ...]:
    found: list[MappedBy] = []
    for call in _mapping_calls(program, file, meets):
        places = (definition(program, inner.inner) for inner in mapped(program, file, *call))
        found += (MappedBy(place, file, *call) for place in places if place is not None and place.file is not file)
    return tuple(found)

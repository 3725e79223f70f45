"""Report of the facts that shardlint derives at a line, for debugging a sharding or a rule."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from shardlint.config.folders import find_settings, project_root
from shardlint.config.targets import Targets, find_targets
from shardlint.config.versions import format_release
from shardlint.facts.layouts import layouts_of
from shardlint.layouts.layout import Layout
from shardlint.layouts.values import Instance
from shardlint.model import Program
from shardlint.model.evaluator.evaluate import scope_label
from shardlint.model.mesh.contexts import Context
from shardlint.model.mesh.meshes import Mesh, Spec, mesh_of, sharding_parts, spec_of
from shardlint.model.traced import Region
from shardlint.model.values import (
    Api,
    CallResult,
    Choice,
    ClassValue,
    Constant,
    Function,
    Items,
    Parameter,
    Transformed,
    Unknown,
    Value,
)
from shardlint.source.decoding import decode_file
from shardlint.source.text import read_bytes
from shardlint.syntax import FileFacts, Scope

_SHOWN = ("jax", "equinox", "flax")


def explain_place(path: Path, line: int, cell: int | None = None) -> Iterator[str]:
    """Lines of text about a line of a file: where it runs, under which mesh, what its names are.

    In a notebook it is a line of a `cell`.

    Raises `Unreadable` and `NotParsed` for a file that cannot be read, `LookupError` for a line that is not there.
    """
    absolute = Path(os.path.realpath(path))
    source = decode_file(path, read_bytes(path))
    shown = f"{path}:{line}" if cell is None else f"{path}:cell {cell}:{line}"
    if cell is not None or source.in_cells:
        line = source.line_of(cell, line) or 0
        if not line:
            raise LookupError("this line is in no code cell; write a line of a notebook as PATH:cell N:LINE")
    if not 1 <= line <= len(source.line_starts):
        raise LookupError(f"{path} has no line {line}: it has {len(source.line_starts)}")
    program, targets = program_for_path(absolute)
    releases = (
        f"{name} {format_release(targets.found[name].release)} ({targets.found[name].source})" for name in _SHOWN
    )
    told = list(explain_line(program, program.project.parse_checked(source, absolute), targets, line))
    yield f"{shown}: {source.line_text(line).strip()}"
    yield f"  releases  {', '.join(releases)}"
    yield from map(source.translate_message, told)


def program_for_path(path: Path) -> tuple[Program, Targets]:
    """The program of the project that a file is in, by absolute path, and the releases that hold there."""
    settings, root = find_settings(path.parent), project_root(path)
    return Program(root, own_names=settings.own_names), find_targets(root, {}, settings.targets, settings.file_name)


def explain_line(
    program: Program, facts: FileFacts, targets: Targets, line: int, column: int | None = None
) -> Iterator[str]:
    """Lines of text about a line: of all expressions that begin there, or the smallest that holds a character of it.

    `column` counts bytes of UTF-8 from 0, as the `ast` module does.
    """
    nodes = list(_expressions_on_line(facts, line))
    if column is not None:  # of those that hold it the last one is inside the others
        nodes = [node for node in nodes if _contains_position(node, line, column)][-1:]
    if not nodes:
        yield "  nothing is evaluated on this line"
        return
    yield f"  region    {_describe_region(program.region(facts, nodes[0]), facts)}"
    yield from _describe_context(program.mesh_contexts(facts, nodes[0]), facts)
    seen: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call) and isinstance(
            getattr(node, "ctx", ast.Load()), ast.Load
        ):
            text = " ".join(facts.source_text(node).split())
            value = program.value(facts, node)
            if text not in seen and not isinstance(value, Unknown):
                seen.add(text)
                yield f"  {text:<9} {describe_value(value, program)}"
    yield from _describe_arrays(program, facts, targets, nodes)


def _describe_arrays(
    program: Program, facts: FileFacts, targets: Targets, nodes: list[ast.expr]
) -> Iterator[str]:
    """The layouts of a line, as they are on the last way to it."""
    known = layouts_of(program, facts, targets)
    seen: set[str] = set()
    for node in nodes:
        text, value = " ".join(facts.source_text(node).split()), known.get(node)
        if text in seen or not isinstance(value, Layout | Instance):
            continue
        seen.add(text)
        mesh = f" over {value.mesh}" if isinstance(value, Layout) and value.mesh is not None else ""
        yield f"  array     {text}: {value}{mesh}"


def _expressions_on_line(facts: FileFacts, line: int) -> Iterator[ast.expr]:
    """Expressions that start on a line, outermost first."""
    inner: Scope | None = facts.scope_at(line)
    while inner is not None:
        facts.walk_scope(inner)
        inner = inner.parent
    found = [
        node
        for node in facts.visited_nodes()
        if isinstance(node, ast.expr) and node.lineno == line and not isinstance(node, ast.Constant)
    ]
    return iter(sorted(found, key=lambda node: (node.col_offset, -(node.end_col_offset or 0))))


def _contains_position(node: ast.expr, line: int, column: int) -> bool:
    last, end = node.end_lineno or line, node.end_col_offset or 0
    return node.col_offset <= column and (last > line or column <= end)


def _describe_region(region: Region, facts: FileFacts) -> str:
    if region.scope is None or region.scope.kind == "module":
        return "the module, at import"
    words = {
        "always": "traced, always",
        "sometimes": "traced by some callers, not by others",
        "never": "not traced",
        "unknown": "may be called from code outside the project, so it is not known to be traced",
    }
    if region.reasons_inside_out:
        return f"{words[region.traced]}: {region.describe(facts)}"
    return f"{words[region.traced]}: in {scope_label(region.scope)}"


def _describe_context(context: Context, facts: FileFacts) -> Iterator[str]:
    for found in context.contexts:
        where = f"line {found.place.line}"
        if found.place.file is not facts:
            where = f"{found.place.file.path.name}:{found.place.line}"
        mesh = _describe_mesh(found.mesh) if found.mesh is not None else "an unknown mesh"
        yield f"  mesh      {found.kind} at {where}: {mesh}"
    if context.never:
        yield "  mesh      none is in context, by any caller"
    elif context.bare and context.contexts:
        yield "  mesh      none is in context by other callers"
    if not context.complete:
        yield "  mesh      there may be others: not all callers or context managers are known"


def describe_value(value: Value, program: Program) -> str:
    """A value in words."""
    mesh = mesh_of(value, program.evaluator)
    if mesh is not None:
        return _describe_mesh(mesh)
    spec = spec_of(value, program.evaluator)
    if spec is not None:
        return _describe_spec(spec)
    parts = sharding_parts(value, program.evaluator)
    if parts is not None:
        return f"NamedSharding({describe_value(parts[0], program)}, {describe_value(parts[1], program)})"
    match value:
        case Constant(value=constant):
            return repr(constant)
        case Items(kind=kind, items=items, open=more):
            inside = ", ".join(describe_value(item, program) for item in items) + (", ..." if more else "")
            return f"{kind} ({inside})"
        case Api(written=written):
            return written
        case Function(place=place):
            return f"function at {place.file.path.name}:{place.line}"
        case ClassValue(node=node):
            return f"class {node.name}"
        case Transformed(api=wrapper, inner=inner):
            return f"{wrapper.written} of {describe_value(inner, program)}"
        case CallResult(by=by):
            return f"made by {describe_value(by, program)}"
        case Parameter(name=name):
            return f"parameter {name}"
        case Choice(options=options):
            return " or ".join(dict.fromkeys(describe_value(option, program) for option in options))
        case Unknown(why=why):
            return f"not known ({why})" if why else "not known"
    return type(value).__name__


def format_axes(mesh: Mesh, between: str = ", ") -> str:
    """The axes of a mesh with their sizes; empty where they are not known."""
    named = zip(mesh.axis_names or (), mesh.sizes, strict=False)
    return between.join(f"{name}={size}" if size is not None else name for name, size in named)


def _describe_mesh(mesh: Mesh) -> str:
    if mesh.axis_names is None:
        return "a mesh with unknown axes"
    axes = format_axes(mesh)
    kind = "" if mesh.axis_types in ("default", "unknown") else f", {mesh.axis_types} axes"
    return f"mesh ({axes}){kind} at {mesh.place.file.path.name}:{mesh.place.line}"


def _describe_spec(spec: Spec) -> str:
    parts = []
    for entry in spec.entries:
        if entry.unconstrained:
            parts.append("UNCONSTRAINED")
        elif not entry.known:
            parts.append("?")
        else:
            parts.append("None" if not entry.axes else " and ".join(map(repr, entry.axes)))
    return f"P({', '.join(parts)}{', ...' if spec.open else ''})"

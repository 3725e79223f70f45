"""Code of a project that reads the mesh of `with mesh:`, and does not see one that jax.set_mesh sets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.location import Location
from shardlint.facts.name_uses import find_references
from shardlint.model import Program
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import Api, CallResult, Place, options
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings

PJIT_NAME = "jax.experimental.pjit.pjit"
THREAD_RESOURCES = (
    "jax.interpreters.pxla.thread_resources",
    "jax.experimental.maps.thread_resources",
    "jax._src.mesh.thread_resources",
    "jax._src.interpreters.pxla.thread_resources",
)
PJIT = "pjit, which reads its specs against `with mesh:` only"
AMBIENT = "thread_resources, which jax.set_mesh does not fill"
_WHERE = ("pjit", "thread_resources")
_DEPTH = 4
_SETTERS = ("set_mesh", "use_mesh")
_ENTERS = compile_lazily(r"enter_context\(\s*[\w.]*[mM]esh\b|\b[\w.]*[mM]esh\.__enter__$")


@dataclass(frozen=True)
class Readers:
    """The kinds of readers a project has, in words. `unseen`: it is too large to be searched."""

    said: tuple[str, ...]
    unseen: bool = False


def find_readers(location: Location) -> Readers:
    """Return the code running with a location that reads the old mesh. Comments and strings read nothing."""
    return location.program.once(location.file, "readers of the old mesh", lambda: _find_mesh_readers(location))


def _find_mesh_readers(location: Location) -> Readers:
    found: dict[str, None] = {}
    program = location.program
    for file in program.project.files_holding(location.file.path, _WHERE):
        if file is None:
            return Readers((PJIT, AMBIENT), unseen=True)
        if any(True for _ in uses_of_pjit(program, file)) or renamed_pjit_imports(file):
            found[PJIT] = None
        if any(True for _ in uses_of_thread_resources(program, file)):
            found[AMBIENT] = None
        if len(found) == len(_WHERE):
            break
    return Readers(tuple(one for one in (PJIT, AMBIENT) if one in found))


def uses_of_pjit(program: Program, file: FileFacts) -> Iterator[ast.Name | ast.Attribute]:
    """Where a file refers to pjit, imports aside."""
    return find_references(program, file, PJIT_NAME)


def uses_of_thread_resources(program: Program, file: FileFacts) -> Iterator[ast.Name | ast.Attribute]:
    """Where a file refers to thread_resources, imports aside."""
    return find_references(program, file, *THREAD_RESOURCES)


def renamed_pjit_imports(file: FileFacts) -> list[ast.alias]:
    """Imports of pjit under another name, which other files may take it by."""
    found = []
    for node in file.find_mentions("pjit"):
        statement = file.parent(node)
        if isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom):
            if node.name == "pjit" and node.asname and f"{statement.module}.pjit" == PJIT_NAME:
                found.append(node)
    return found


def sets_a_mesh(program: Program, file: FileFacts) -> bool:
    """Return whether a file sets a mesh by `set_mesh` or `use_mesh`."""
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and any(
            isinstance(one, Api) and one.name.rpartition(".")[2] in _SETTERS
            for one in options(program.value(file, node))
        )
        for word in _SETTERS
        for node in file.find_mentions(word)
    )


def manual_mesh_entries(program: Program, file: FileFacts) -> Iterator[ast.expr]:
    """Where a mesh is or may be entered, but not by a `with` statement of its own."""
    for word in ("enter_context", "__enter__"):
        for node in file.find_mentions(word):
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            call = file.parent(node)
            given: ast.expr | None = node.value if isinstance(node, ast.Attribute) else None
            if word == "enter_context":
                given = call.args[0] if isinstance(call, ast.Call) and call.func is node and call.args else None
            shown = call if word == "enter_context" and isinstance(call, ast.Call) else node
            if _ENTERS.search(file.source_text(shown)) or (given is not None and _may_be_a_mesh(program, file, given)):
                yield node
    for statement in file.with_statements:
        for item in statement.items:
            found = program.contexts.context_of_manager(Place(file, item.context_expr))
            if found is not None and found.kind == "unknown" and _may_be_a_mesh(program, file, item.context_expr):
                yield item.context_expr


def _may_be_a_mesh(program: Program, file: FileFacts, node: ast.expr, depth: int = 0) -> bool:
    """Return whether an expression is a mesh on some path: `mesh if spread else nullcontext()`."""
    found = program.contexts.context_of_manager(Place(file, node))
    if found is not None and found.kind == "with mesh":
        return True
    if any(isinstance(one, CallResult) and one.api in MESH_MAKERS for one in options(program.value(file, node))):
        return True
    return depth < _DEPTH and any(
        _may_be_a_mesh(program, file, part, depth + 1) for part in _possible_expressions(file, node)
    )


def _possible_expressions(file: FileFacts, node: ast.expr) -> list[ast.expr]:
    """The expressions that may give one its value."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            return [one, other]
        case ast.BoolOp(values=parts):
            return parts
        case ast.Name():
            bindings, _ = lookup_bindings(file, node, node.id)
            return [one.value for one in bindings if one.kind == "assign" and one.value is not None]
    return []

"""The meshes that a project makes and hands around, tests aside: what a mesh that is not followed can be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.mesh.meshes import MESH_MAKERS, AxisTypes, Mesh, mesh_of
from shardlint.model.signatures import parameters_of_definition
from shardlint.model.values import Api, Constant, Place, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 4


def _mesh_maker_words(program: Program) -> tuple[str, ...]:
    """The last parts of the names of what makes a mesh."""
    names = (*(name for name in MESH_MAKERS if name != api.USER_MESH), *program.own.meshes)
    return tuple(dict.fromkeys(name.rpartition(".")[2] for name in names))


@dataclass(frozen=True)
class SharedMesh:
    """Where a mesh is made. It outlives the tree of its file."""

    path: Path
    line: int


def shared_meshes(program: Program, file: FileFacts, axis_types: AxisTypes) -> tuple[SharedMesh, ...]:
    """Every mesh made where a file runs that may reach code elsewhere, if they are all made with axes of this type.

    None at all where one is of another type or not known, or not all of the files are read. Left out are tests and
    benchmarks, meshes that stay in the function that makes them, that stand in where none is given
    (`mesh or default_mesh()`), and that are made only on demand of a flag which no call gives.
    """
    question = "shared meshes", axis_types
    return program.once(file, question, lambda: _find_shared_meshes(program, file.path, axis_types))


def _find_shared_meshes(program: Program, path: Path, axis_types: AxisTypes) -> tuple[SharedMesh, ...]:
    found: list[SharedMesh] = []
    for file in program.project.files_calling(path, _mesh_maker_words(program)):
        if file is None:
            return ()
        if any(part.startswith("bench") for part in file.path.relative_to(program.project.root).parts):
            continue
        for call in _mesh_maker_calls(program, file):
            if not _is_value_shared(program, file, call, 0) or _is_behind_flag(program, file, call):
                continue
            made = [mesh_of(option, program.evaluator) for option in options(program.value(file, call))]
            for mesh in made:
                if mesh is None or mesh.axis_types != axis_types:
                    return ()
                found.append(SharedMesh(file.path, call.lineno))
    return tuple(found)


def _mesh_maker_calls(program: Program, file: FileFacts) -> Iterator[ast.Call]:
    for word in _mesh_maker_words(program):
        for node in file.find_mentions(word):
            call = file.parent(node)
            if isinstance(call, ast.Call) and call.func is node:
                callee = options(program.value(file, node))
                if any(isinstance(one, Api) and one.name in MESH_MAKERS for one in callee):
                    yield call


def _is_value_shared(program: Program, file: FileFacts, node: ast.AST, depth: int) -> bool:
    """Return whether the value of an expression may be used outside its function, as the intended mesh."""
    if depth > _DEPTH:
        return True
    parent = file.parent(node)
    if isinstance(parent, ast.IfExp | ast.BoolOp):
        return not _is_fallback_for(file, parent, node) and _is_value_shared(program, file, parent, depth + 1)
    if isinstance(parent, ast.keyword):
        node, parent = parent, file.parent(parent)
    match parent:
        case ast.Attribute() | ast.withitem() | ast.Compare() | ast.Expr():
            named = parent.optional_vars if isinstance(parent, ast.withitem) else None
            return isinstance(named, ast.Name) and _is_use_shared(program, file, named, depth)
        case ast.Call() if parent.func is not node:
            callee = options(program.value(file, parent.func))
            return not all(isinstance(one, Api) and not _stores_arguments(one) for one in callee)
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            if any(_is_default_for_none(file, parent, target) for target in targets):
                return False
            return any(
                not isinstance(one, ast.Name) or _is_use_shared(program, file, one, depth) for one in targets
            )
        case ast.Return():
            return _is_result_shared(program, file, parent, depth)
    return True


def _stores_arguments(callee: Api) -> bool:
    """Return whether a library function stores its arguments and passes them to other code."""
    return callee.name in ("functools.partial", "dataclasses.replace") or not callee.name.startswith(
        ("jax.", "builtins.", "numpy.", "contextlib.", "logging.")
    )


def _is_use_shared(program: Program, file: FileFacts, target: ast.Name, depth: int) -> bool:
    scope = file.evaluation_scope(target)
    if scope.kind in ("module", "class"):
        return True
    for use in file.find_mentions(target.id):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            bindings, _ = lookup_bindings(file, use, target.id)
            may_be = any(one.node is target or one.kind == "more" for one in bindings)
            if may_be and _is_value_shared(program, file, use, depth + 1):
                return True
    return False


def _is_result_shared(program: Program, file: FileFacts, statement: ast.Return, depth: int) -> bool:
    """Return whether the result of a function is shared. It is not if every visible call only replaces a mesh that was
    not given.
    """
    scope = file.evaluation_scope(statement).enclosing_function()
    if scope is None:
        return True
    calls = [end.place for end in program.flow.ends(file, scope.node).found if end.kind == "called"]
    inside = [place for place in calls if not program.project.is_test(place.file.path)]
    return not inside or any(_is_value_shared(program, place.file, place.node, depth + 1) for place in inside)


def _is_fallback_for(file: FileFacts, outer: ast.IfExp | ast.BoolOp, node: ast.AST) -> bool:
    """`mesh if mesh is not None else node`, `mesh or node`."""
    if isinstance(outer, ast.BoolOp):
        return isinstance(outer.op, ast.Or) and node is not outer.values[0]
    return node is not outer.test and "is" in file.source_text(outer.test) and "None" in file.source_text(outer.test)


def _is_default_for_none(file: FileFacts, statement: ast.AST, target: ast.expr) -> bool:
    """`if mesh is None: mesh = ...`."""
    outer = file.parent(statement)
    if not isinstance(outer, ast.If) or statement not in outer.body:
        return False
    written = file.source_text(target)
    return file.source_text(outer.test) in (f"{written} is None", f"not {written}")


def _is_behind_flag(program: Program, file: FileFacts, call: ast.Call) -> bool:
    """Return whether a call is in a branch that a flag with a default skips, and no call sets the flag."""
    scope = file.evaluation_scope(call).enclosing_function()
    if scope is None or not isinstance(scope.node, ast.FunctionDef):
        return False
    inner: ast.AST = call
    for outer in file.ancestors(call):
        if outer is scope.node:
            return False
        if isinstance(outer, ast.If) and inner is not outer.test:
            test, wanted = outer.test, inner in outer.body
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, wanted = test.operand, not wanted
            if isinstance(test, ast.Name):
                given = [one for one in file.bindings(scope, test.id) if one.kind == "param"]
                default = given[0].value if len(given) == 1 else None
                said = program.value(file, default) if default is not None else None
                if isinstance(said, Constant) and bool(said.value) is not wanted:
                    return not _is_ever_passed(program, file, scope.node, test.id)
        inner = outer
    return False


def _is_ever_passed(program: Program, file: FileFacts, function: ast.FunctionDef, flag: str) -> bool:
    """Return whether a call of the function, other than in tests, may set one of its parameters."""
    positional = parameters_of_definition(function).positional
    index = positional.index(flag) if flag in positional else len(positional)
    for other in (file, *program.project.files_importing(file.path, function.name)):
        if other is None:
            return True
        if program.project.is_test(other.path):
            continue
        for node in other.find_mentions(function.name):
            if isinstance(node, ast.alias) and (node.asname is None or node.asname == node.name):
                continue
            parent = other.parent(node)
            if node is function or isinstance(node, ast.keyword | ast.arg):
                continue
            if not isinstance(parent, ast.Call) or parent.func is not node:
                return True
            given = program.evaluator.read_arguments(Place(other, parent))
            hidden = given.open_keywords or given.open_positional
            if hidden or flag in given.keywords or len(given.positional) > index:
                return True
    return False


def files_making_meshes(program: Program, path: Path, tests: bool) -> Iterator[FileFacts | None]:
    """The files that run with one and may make a mesh, tests or all others; None where they cannot be told."""
    for file in program.project.files_holding(path, tuple(f"{word}(" for word in _mesh_maker_words(program))):
        if file is None or program.project.is_test(file.path) is tests:
            yield file


def meshes_made_in(program: Program, file: FileFacts) -> Iterator[Mesh | None]:
    """The meshes made in a file; None where one cannot be told."""
    for call in _mesh_maker_calls(program, file):
        for option in options(program.value(file, call)):
            yield mesh_of(option, program.evaluator)


@dataclass(frozen=True)
class NamedMesh:
    """Where a mesh is made, and the names of its axes. It outlives the tree of its file."""

    path: Path
    line: int
    axes: tuple[str, ...]


def shared_named_meshes(program: Program, file: FileFacts) -> tuple[NamedMesh, ...]:
    """The meshes, made where a file runs, that may reach code elsewhere and whose axes are known, tests aside."""
    return program.once(file, "named meshes", lambda: tuple(_named_meshes(program, file.path)))


def _named_meshes(program: Program, path: Path) -> Iterator[NamedMesh]:
    for file in program.project.files_calling(path, _mesh_maker_words(program)):
        if file is None:
            return
        for call in _mesh_maker_calls(program, file):
            if _is_value_shared(program, file, call, 0):
                for option in options(program.value(file, call)):
                    mesh = mesh_of(option, program.evaluator)
                    if mesh is not None and mesh.axis_names is not None:
                        yield NamedMesh(file.path, call.lineno, mesh.axis_names)

"""A test that calls, with no mesh in context, what the rest of the project calls under one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.model.guards import expected_to_fail
from shardlint.model.mesh.contexts import BRING_A_MESH
from shardlint.model.mesh.meshes import spec_of
from shardlint.model.signatures import JITS
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.mesh.axis_types import CONSTRAINTS

TESTS = Lines(
    r"(?:[\w., ]+(?::[^=\n]+)?= *)?[\w.]+\(", file_says=r"(?is)\A(?!.*mesh).*def test", saying=("(",)
)
"""Statements that call something, in files of tests that do not speak of a mesh."""
_DEPTH = 4
_PASSED = (*JITS, "functools.partial", "equinox.filter_jit", "flax.nnx.jit", "jax.checkpoint")


@dataclass(frozen=True)
class Bare:
    """A call in a test, the constraint that it comes to, and where the mesh is entered for other callers."""

    call: ast.Call
    constraint: Place
    entered: Place


def calls_without_mesh(site: Site) -> Iterator[Bare]:
    """The first call of a statement that comes to a bare spec, where nothing says that the test has a mesh."""
    statement = site.syntax
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) or not _in_a_test(site):
        return
    if _has_conftest(site):
        return
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call) or expected_to_fail(site.file, call):
            continue
        for place in _reached(site, site.program.value(site.file, call.func), set(), 0):
            around = site.program.around(place.file, place.node)
            if around.contexts:
                yield Bare(call, place, around.contexts[0].place)
                return


def _in_a_test(site: Site) -> bool:
    if not site.program.project.is_test(site.file.path):
        return False
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.With | ast.AsyncWith | ast.Try | ast.Lambda):
            return False
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return outer.name.startswith("test")
    return False


def _has_conftest(site: Site) -> bool:
    """Whether a conftest, which may enter a mesh for all tests, lies beside the test."""
    project, path = site.program.project, site.file.path
    return any(project.resolve(name, path) is not None for name in ("conftest", f"{path.parent.name}.conftest"))


def _reached(site: Site, value: Value, met: set[ast.AST], depth: int) -> Iterator[Place]:
    """The constraints to a bare spec that a call surely passes."""
    found = options(value)
    if len(found) != 1 or depth > _DEPTH:
        return
    one = found[0]
    while isinstance(one, Transformed) and one.api.name in _PASSED and one.api.name not in BRING_A_MESH:
        one = one.inner
    if not isinstance(one, Function) or one.node in met or not isinstance(one.node, ast.FunctionDef):
        return
    met.add(one.node)
    file = one.place.file
    if "mesh" in file.text(one.node).lower():
        return  # it asks for a mesh, or is given one
    for call in _always(one.node):
        name = next((each.name for each in options(site.program.value(file, call.func)) if isinstance(each, Api)), "")
        if name in CONSTRAINTS:
            if _bare(site, file, call, CONSTRAINTS[name]):
                yield Place(file, call)
        else:
            yield from _reached(site, site.program.value(file, call.func), met, depth + 1)


def _always(node: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls in the statements of a body that no test keeps from running."""
    for statement in node.body:
        if isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.With | ast.FunctionDef | ast.ClassDef):
            if isinstance(statement, ast.If | ast.While):
                return  # it may return there
            continue
        for part in ast.walk(statement):
            if isinstance(part, ast.Call):
                yield part


def _bare(site: Site, file: FileFacts, call: ast.Call, parameter: str) -> bool:
    given = [one.value for one in call.keywords if one.arg == parameter] or call.args[1:2]
    if not given:
        return False
    found = [spec_of(one, site.program.evaluator) for one in options(site.program.value(file, given[0]))]
    return bool(found) and None not in found

"""A test that calls, with no mesh in context, what the rest of the project calls under one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.guards import expected_to_fail, guarded
from shardlint.model.mesh.contexts import BRING_A_MESH
from shardlint.model.mesh.meshes import spec_of
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.enclosing import around
from shardlint.syntax.nodes import walk
from shardlint_rules.mesh.axis_types import CONSTRAINTS

TESTS = Lines(r"(?:async +)?def test\w*\(", saying=("def test",), on="definition")
"""Functions that are tests."""
_DEPTH = 4
# Names that more files say are no names of helpers: to look for their callers would parse a project to the end.
_MOST_FILES = 60
_WORD = regex(r"\w+")
_PASSED = (*JIT_WRAPPERS, "functools.partial", "jax.checkpoint")


@dataclass(frozen=True)
class Bare:
    """A call in a test, the constraint that it comes to, and where the mesh is entered for other callers."""

    call: ast.Call
    constraint: Place
    entered: Place


def calls_without_mesh(site: Site) -> Iterator[Bare]:
    """Of each statement the first call that comes to a bare spec, where nothing says that the test has a mesh."""
    test, file = site.syntax, site.file
    if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) or not site.program.project.is_test(file.path):
        return
    names = site.program.once(file, "names that come to a bare spec", lambda: _coming_to_one(site), joined=True)
    if not names or names.isdisjoint(_words(file)) or _says_mesh(file) or _has_conftest(site):
        return
    for statement in _statements(test.body):
        if not guarded(file, statement):
            yield from _first(site, statement)


def _first(site: Site, statement: ast.stmt) -> Iterator[Bare]:
    for call in walk(statement):
        if not isinstance(call, ast.Call) or expected_to_fail(site.file, call):
            continue
        for place in _reached(site, site.program.value(site.file, call.func), set(), 0):
            around = site.program.around(place.file, place.node)
            if around.contexts:
                yield Bare(call, place, around.contexts[0].place)
                return


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a test that may call something, outside of blocks that may enter a mesh or catch its error."""
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
            yield statement
        elif isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.While):
            yield from _statements(statement.body + statement.orelse)
        elif isinstance(statement, ast.Match):
            yield from _statements([one for case in statement.cases for one in case.body])


def _coming_to_one(site: Site) -> frozenset[str]:
    """What the functions are called that surely come to a bare spec under a mesh of somebody, by their text.

    Values are asked for only in tests that say one of these names: few projects have any, and many have many tests.
    """
    program = site.program
    names: set[str] = set()
    for file in _outside_tests(site, tuple(name.rpartition(".")[2] for name in CONSTRAINTS)):
        for node in walk(file.tree):
            if isinstance(node, ast.FunctionDef) and not _is_inner(file, node) and _has_one(site, file, node):
                names.add(node.name)
    new = names
    for _ in range(_DEPTH):
        said = rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, new)))})(?!\w)"
        if not new or len(program.project.saying(site.file.path, (said,))) > _MOST_FILES:
            break
        found: set[str] = set()
        for file in _outside_tests(site, (said,)):
            called = program.of_file(file, "what is called surely", partial(_called, file))
            found.update(name for name, words in called if not new.isdisjoint(words))
        new = found - names
        names |= new
    return frozenset(names)


def _is_inner(file: FileFacts, node: ast.stmt) -> bool:
    """Whether a statement stands in a function, so that what it binds is no name that others say."""
    return next(around(file, node, ast.FunctionDef, ast.AsyncFunctionDef), None) is not None


def _outside_tests(site: Site, texts: tuple[str, ...]) -> Iterator[FileFacts]:
    project = site.program.project
    for file in project.holding(site.file.path, texts, joined=True):
        if file is not None and not project.is_test(file.path):
            yield file


def _has_one(site: Site, file: FileFacts, node: ast.FunctionDef) -> bool:
    """Whether a function constrains to a bare spec, and somebody has a mesh in context for it."""
    if "mesh" in file.text(node).lower():
        return False
    for call in _always(node):
        name = _name(site, file, call)
        if name in CONSTRAINTS and _bare(site, file, call, CONSTRAINTS[name]):
            return bool(site.program.around(file, call).contexts)
    return False


def _called(file: FileFacts) -> tuple[tuple[str, frozenset[str]], ...]:
    """The functions of a file that speak of no mesh, and what is made of functions, each with the names they say."""
    found: list[tuple[str, frozenset[str]]] = []
    for node in walk(file.tree):
        match node:
            case ast.FunctionDef(name=name) if not _is_inner(file, node) and "mesh" not in file.text(node).lower():
                found.append((name, frozenset(last_name(one.func) for one in _always(node))))
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name) as bound], value=value) if (
                isinstance(bound, ast.Attribute) or not _is_inner(file, node)
            ):
                said = (one for one in walk(value) if isinstance(one, ast.Name | ast.Attribute))
                found.append((name, frozenset(map(last_name, said))))
            case ast.alias(name=old, asname=str(name)):
                found.append((name, frozenset((old.rpartition(".")[2],))))
    return tuple(found)


def _words(file: FileFacts) -> frozenset[str]:
    return file.remembered("words", file.tree, lambda: frozenset(_WORD.findall(file.source.text)))


def _says_mesh(file: FileFacts) -> bool:
    return file.remembered("says mesh", file.tree, lambda: "mesh" in file.source.text.lower())


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
        name = _name(site, file, call)
        if name in CONSTRAINTS:
            if _bare(site, file, call, CONSTRAINTS[name]):
                yield Place(file, call)
        else:
            yield from _reached(site, site.program.value(file, call.func), met, depth + 1)


def _name(site: Site, file: FileFacts, call: ast.Call) -> str:
    """The library function that is called, or nothing."""
    found = options(site.program.value(file, call.func))
    return next((each.name for each in found if isinstance(each, Api)), "")


def _always(node: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls in the statements of a body that no test keeps from running."""
    for statement in node.body:
        if isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.With | ast.FunctionDef | ast.ClassDef):
            if isinstance(statement, ast.If | ast.While):
                return  # it may return there
            continue
        for part in walk(statement):
            if isinstance(part, ast.Call):
                yield part


def _bare(site: Site, file: FileFacts, call: ast.Call, parameter: str) -> bool:
    given = [one.value for one in call.keywords if one.arg == parameter] or call.args[1:2]
    if not given:
        return False
    found = [spec_of(one, site.program.evaluator) for one in options(site.program.value(file, given[0]))]
    return bool(found) and None not in found

"""Untraced code that runs in a block: its own calls, those of the functions it calls, and the code it yields to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import child_nodes

_FUNCTIONS = 400
_MAPS = (
    "jax.tree.map",
    "jax.tree.map_with_path",
    "jax.tree_util.tree_map",
    "jax.tree_util.tree_map_with_path",
)
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class BlockCalls:
    """The calls; and, where there may be others, why."""

    calls: tuple[Place, ...]
    more: str = ""


def find_calls_in_block(program: Program, block: Place) -> BlockCalls:
    """The calls that a `with` block makes, itself and through functions of the project that are not jitted."""
    assert isinstance(block.node, ast.With | ast.AsyncWith)
    calls = [Place(block.file, call) for call in _calls_in_block(block.node)]
    if yields := [part for part in block.node.body if _contains_yield(part)]:
        users = code_run_during_yield(program, block)
        if users is None:
            return BlockCalls(tuple(calls), f"line {yields[0].lineno} yields in the block to unknown code")
        calls += [Place(use.file, call) for use in users for call in _calls_in_block(use.node)]
    seen: set[ast.AST] = set()
    for place in calls:  # grows
        assert isinstance(place.node, ast.Call)
        for function in _run_by(program, place.file, place.node):
            if function.node in seen:
                continue
            seen.add(function.node)
            if len(seen) > _FUNCTIONS:
                return BlockCalls(tuple(calls), f"the block runs more than {_FUNCTIONS} functions, too many to look at")
            scope = function.place.file.walk_scope(function.place.file.scope(function.node))
            calls += [Place(function.place.file, call) for call in scope.calls]
    return BlockCalls(tuple(calls))


def code_run_during_yield(program: Program, block: Place) -> list[Place] | None:
    """Return the code that runs while a generator is suspended in its block: `with sharded(): ...`, tests that use a
    fixture.
    """
    function = block.file.evaluation_scope(block.node).enclosing_function()
    node = function.node if function is not None else None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    said = [block.file.source_text(decorator) for decorator in node.decorator_list]
    if any("fixture" in one for one in said):
        return None if any("autouse" in one for one in said) else _functions_using_fixture(block.file, node)
    found = []
    for end in program.flow.ends(block.file, node).found:
        item = end.place.file.parent(end.place.node)
        statement = end.place.file.parent(item) if isinstance(item, ast.withitem) else None
        if isinstance(statement, ast.With | ast.AsyncWith):
            found.append(Place(end.place.file, statement))
    return found or None


def _functions_using_fixture(
    file: FileFacts, fixture: ast.FunctionDef | ast.AsyncFunctionDef
) -> list[Place] | None:
    """The functions of a test file that ask for a fixture by name, through others too; None where other files may."""
    stem = file.path.stem
    if not (stem.startswith("test_") or stem.endswith("_test")) or file.find_mentions("usefixtures"):
        return None
    names, found = [fixture.name], dict[ast.AST, Place]()
    for name in names:  # grows
        for node in file.find_mentions(name):
            function = file.evaluation_scope(node).node
            if isinstance(node, ast.arg) and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                found[function] = Place(file, function)
                if function.name not in names:
                    names.append(function.name)
    return list(found.values())


def _calls_in_block(block: ast.AST) -> Iterator[ast.Call]:
    assert isinstance(block, ast.With | ast.AsyncWith | ast.FunctionDef | ast.AsyncFunctionDef)
    for part in block.body:
        yield from _calls_in_body(part)


def _contains_yield(part: ast.AST) -> bool:
    if isinstance(part, _BLOCKS):
        return False
    return isinstance(part, ast.Yield | ast.YieldFrom) or any(map(_contains_yield, child_nodes(part)))


def _run_by(program: Program, file: FileFacts, call: ast.Call) -> Iterator[Function]:
    """The functions of the project that a call runs: its own, and what it maps over a tree."""
    called = program.value(file, call.func)
    yield from _called_project_functions(called)
    if call.args and any(isinstance(one, Api) and one.name in _MAPS for one in options(called)):
        yield from _called_project_functions(program.value(file, call.args[0]))


def _called_project_functions(value: Value) -> Iterator[Function]:
    """The functions of the project that a call runs as they are."""
    for option in options(value):
        inner: Value = option
        while isinstance(inner, Transformed) and inner.api.name == "functools.partial":
            inner = inner.inner
        if isinstance(inner, Function):
            yield inner


def _calls_in_body(part: ast.AST) -> Iterator[ast.Call]:
    if isinstance(part, _BLOCKS):
        return
    if isinstance(part, ast.Call):
        yield part
    for child in child_nodes(part):
        yield from _calls_in_body(child)


def goes_through_transform(value: Value, name: str) -> bool:
    """Return whether a function goes through a transform."""
    while isinstance(value, Transformed):
        if value.api.name == name:
            return True
        value = value.inner
    return False


def possible_api_names(program: Program, place: Place) -> set[str]:
    """The library functions that a call may be of."""
    assert isinstance(place.node, ast.Call)
    found = options(program.value(place.file, place.node.func))
    return {one.name for one in found if isinstance(one, Api)}

"""Where an answer is asked for: the branches and loops that it decides, through names, helpers and properties."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.facts.bound_names import find_binding_reads
from shardlint.facts.project_objects import find_classes
from shardlint.model.function_uses import FunctionUses
from shardlint.model.values import Place
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.enclosing import enclosing_block

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 4
_CALLS = 8
_SAME = ("bool", "bool_")


@dataclass(frozen=True)
class ControlledStatement:
    """A statement that an answer decides, with the test that holds the answer."""

    file: FileFacts
    statement: ast.If | ast.While

    @property
    def whole_test(self) -> Place:
        """The whole condition."""
        return Place(self.file, self.statement.test)


def find_controlled_statements(program: Program, place: Place, depth: int = 0) -> Iterator[ControlledStatement]:
    """The statements that the truth of an expression decides: where it stands, is read by its name, or returned."""
    file, inner = place.file, place.node
    if depth > _DEPTH:
        return
    outer = file.parent(inner)
    while isinstance(outer, ast.BoolOp | ast.UnaryOp) or _says_the_same(outer, inner):
        assert outer is not None
        inner, outer = outer, file.parent(outer)
    match outer:
        case ast.If() | ast.While() if outer.test is inner:
            yield ControlledStatement(file, outer)
        case ast.NamedExpr(target=target):
            yield from find_controlled_statements(program, Place(file, outer), depth + 1)
            yield from _control_uses_of_reads(program, file, target, depth)
        case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
            yield from _control_uses_of_reads(program, file, target, depth)
        case ast.Return() | ast.Lambda():
            for use in find_result_uses(program, file, outer):
                yield from find_controlled_statements(program, use, depth + 1)


def _says_the_same(outer: ast.AST | None, inner: ast.AST) -> bool:
    return isinstance(outer, ast.Call) and last_name(outer.func) in _SAME and outer.func is not inner


def _control_uses_of_reads(
    program: Program, file: FileFacts, target: ast.Name, depth: int
) -> Iterator[ControlledStatement]:
    for use, _ in find_binding_reads(file, target):
        yield from find_controlled_statements(program, Place(file, use), depth + 1)


def find_result_uses(program: Program, file: FileFacts, outer: ast.AST) -> Iterator[Place]:
    """Where the calls in sight of the function around a `return` give what it returns; or a property is read."""
    if isinstance(outer, ast.Lambda):
        yield from _calls_as_expressions(program.flow.ends(file, outer))
        return
    function = file.evaluation_scope(outer).enclosing_function()
    node = function.node if function is not None else None
    if function is None or not isinstance(node, ast.FunctionDef):
        return
    if any("property" in file.source_text(one) for one in node.decorator_list):
        owner = function.parent.node if function.parent is not None else None
        if isinstance(owner, ast.ClassDef):
            yield from _attribute_reads(program, file, owner, node.name)
        return
    yield from _calls_as_expressions(program.flow.in_sight(file, node))


def _calls_as_expressions(uses: FunctionUses) -> Iterator[Place]:
    return (place for place in uses.direct_calls(_CALLS) if isinstance(place.node, ast.expr))


def _attribute_reads(program: Program, file: FileFacts, owner: ast.ClassDef, name: str) -> Iterator[Place]:
    """Where an attribute of the objects of a class is read: in the class, and where its file is imported."""
    for one in (file, *(other for other in program.together(file) if other is not file)):
        for mention in one.find_mentions(name):
            if isinstance(mention, ast.Attribute) and isinstance(mention.ctx, ast.Load):
                if any(cls.place.node is owner for cls in find_classes(program, Place(one, mention.value))):
                    yield Place(one, mention)


def controlled_blocks(controlled_statement: ControlledStatement) -> Iterator[tuple[list[ast.stmt], bool]]:
    """The statements that run only for one of the answers; and whether they are a loop that the answer ends."""
    file, statement = controlled_statement.file, controlled_statement.statement
    yield [*statement.body, *statement.orelse], isinstance(statement, ast.While)
    if isinstance(statement, ast.While):
        return
    for block in (statement.body, statement.orelse):
        last = block[-1] if block else None
        if isinstance(last, ast.Return | ast.Break | ast.Continue):
            yield from _blocks_skipped(file, statement, last)


def _blocks_skipped(
    file: FileFacts, statement: ast.stmt, leaving: ast.stmt
) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Yield the blocks that are not reached if a branch is left in this way: the following statements, and the loop
    around.
    """
    inner: ast.stmt = statement
    while True:
        block = enclosing_block(file, inner)
        rest = block[block.index(inner) + 1 :]
        if rest:
            yield rest, False
        outer = file.parent(inner)
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While):
            if not isinstance(leaving, ast.Continue):
                yield outer.body, True
            if not isinstance(leaving, ast.Return):
                return
        if not isinstance(outer, ast.stmt) or isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        inner = outer

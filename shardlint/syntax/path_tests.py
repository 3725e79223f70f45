"""The tests on the way to a node, and what they say of names: that one is not None."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from shardlint.syntax import Binding, FileFacts, called_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# Of how many tests around a place, the nearest first, each is asked about: in a chain of `elif` they are as many as it
# is long.
MOST_TESTS = 64
# Functions that give the same when they are called again.
_SAME_AGAIN = ("len", "isinstance", "hasattr", "device_count", "local_device_count", "process_count", "devices")


def tests_on_path(
    file: FileFacts, node: ast.AST, end: ast.AST | None = None
) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that are true, or false, where a node runs: around it, and before it where they leave."""
    inner: ast.AST = node
    for outer in file.ancestors(node):
        yield from _tests_around(outer, inner)
        for _, before in file.statements_before(outer, inner):
            for statement in before:
                yield from _tests_after(statement)
        if outer is end:
            return
        inner = outer


def _tests_around(outer: ast.AST, inner: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The tests of a node that decide that one right in it runs."""
    match outer:
        case ast.If(test=test, body=body, orelse=orelse) | ast.IfExp(test=test, body=body, orelse=orelse):
            for block, wanted in ((body, True), (orelse, False)):
                if inner is block or (isinstance(block, list) and inner in block):
                    yield test, wanted
        case ast.While(test=test, body=body) if inner in body:
            yield test, True
        case ast.BoolOp(op=op, values=values):
            for value in values[: values.index(inner)]:  # type: ignore[arg-type]
                yield value, isinstance(op, ast.And)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            if not isinstance(inner, ast.comprehension):
                for generator in outer.generators:
                    yield from ((test, True) for test in generator.ifs)
        case ast.comprehension(ifs=ifs) if inner in ifs:
            yield from ((test, True) for test in ifs[: ifs.index(inner)])
        case ast.Match(subject=subject, cases=cases) if inner in cases:
            for case in cases[: cases.index(inner) + 1]:
                matched = _test_of_pattern(subject, case.pattern)
                if matched is not None:
                    guards = [case.guard] if case.guard is not None else []
                    yield ast.BoolOp(ast.And(), [matched, *guards]), case is inner


def _tests_after(statement: ast.stmt) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that are true, or false, behind a statement."""
    match statement:
        case ast.If(test=test, body=body) if isinstance(body[-1], _LEAVING):
            yield test, False
        case ast.If(test=test, orelse=[*_, last]) if isinstance(last, _LEAVING):
            yield test, True
        case ast.Assert(test=test):
            yield test, True


def _test_of_pattern(subject: ast.expr, pattern: ast.pattern) -> ast.expr | None:
    """The expression that is true where a pattern matches; None of patterns that ask for classes or keys."""
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=constant):
            return ast.Compare(subject, [ast.Is()], [ast.Constant(constant)])
        case ast.MatchAs(pattern=None):
            return ast.Constant(True)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return _test_of_pattern(subject, inner)
        case ast.MatchOr(patterns=patterns):
            parts = [_test_of_pattern(subject, part) for part in patterns]
        case ast.MatchSequence(patterns=patterns):
            star = next((at for at, part in enumerate(patterns) if isinstance(part, ast.MatchStar)), None)
            length = ast.Call(ast.Name("len", ast.Load()), [subject], [])
            least = ast.Constant(len(patterns) - (star is not None))
            parts = [ast.Compare(length, [ast.Eq() if star is None else ast.GtE()], [least])]
            for at, part in enumerate(patterns):
                index = ast.Constant(at if star is None or at < star else at - len(patterns))
                parts += [] if at == star else [_test_of_pattern(ast.Subscript(subject, index, ast.Load()), part)]
        case _:
            return None
    known = [part for part in parts if part is not None]
    joined = ast.Or() if isinstance(pattern, ast.MatchOr) else ast.And()
    return ast.BoolOp(joined, known) if len(known) == len(parts) else None


def is_not_none(file: FileFacts, node: ast.expr) -> bool:
    """Return whether a test on the path to a name or attribute excludes None: `if self.sharding is not None:`."""
    return file.remember_for_node("not none", node, lambda: _is_not_none(file, node))


def _is_not_none(file: FileFacts, node: ast.expr) -> bool:
    wanted = _canonical_text(node), "none", False
    return any(fact == wanted and _same_value(file, test, node) for fact, test in _facts_at(file, node))


def none_is_ruled_out(file: FileFacts, node: ast.Name, binding: Binding) -> bool:
    """Return whether a binding that may give a name None surely does not where the name is read.

    So it is of `rows = sharding if mesh is not None else None` where `mesh` is not None, and of `rows = None` next to
    `mesh = None`.
    """
    given = binding.value
    facts = dict(_facts_at(file, node))
    if isinstance(given, ast.IfExp):
        for part, wanted in ((given.body, True), (given.orelse, False)):
            if isinstance(part, ast.Constant) and part.value is None:
                return any(
                    _is_contradicted(file, fact, test, facts)
                    for fact, test in _facts_of_test(given.test, wanted)
                )
        return False
    statement = file.parent(binding.node)
    parent = file.parent(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if not isinstance(parent, ast.If):
        return False
    block = parent.body if statement in parent.body else parent.orelse
    for (_, asks, wanted), test in facts.items():
        if asks != "none" or wanted or not isinstance(test, ast.Name):
            continue
        bound = lookup_bindings(file, test, test.id)[0]
        here = [one for one in bound if file.parent(one.node) in block]
        nones = [isinstance(one.value, ast.Constant) and one.value.value is None for one in here]
        if nones == [True] and all(_is_inside(file, one.node, parent) for one in bound):
            return True
    return False


def _is_inside(file: FileFacts, node: ast.AST, outer: ast.AST) -> bool:
    return any(one is outer for one in file.ancestors(node))


_Fact = tuple[str, str, bool]
"""An expression, whether it is asked for "none" or "truth", and the answer."""


def _facts_at(file: FileFacts, node: ast.AST) -> Iterator[tuple[_Fact, ast.expr]]:
    for test, wanted in islice(tests_on_path(file, node), MOST_TESTS):
        yield from _facts_of_test(test, wanted)


def _facts_of_test(test: ast.expr, wanted: bool) -> Iterator[tuple[_Fact, ast.expr]]:
    """Yield the facts that hold if a test is true, or false, each with the expression that it is about."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _facts_of_test(operand, not wanted)
        case ast.BoolOp(op=op, values=parts):
            if isinstance(op, ast.And) is wanted:  # all are true, or all are false
                for part in parts:
                    yield from _facts_of_test(part, wanted)
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=None)]):
            left = left.target if isinstance(left, ast.NamedExpr) else left
            if isinstance(op, ast.Is | ast.Eq | ast.IsNot | ast.NotEq):
                yield (_canonical_text(left), "none", isinstance(op, ast.Is | ast.Eq) is wanted), left
        case ast.Call(func=ast.Name(id="isinstance"), args=[asked, _], keywords=[]) if wanted:
            yield (_canonical_text(asked), "none", False), asked
        case ast.NamedExpr(target=target):
            yield from _facts_of_test(target, wanted)
        case _:
            text = _canonical_text(test)
            yield (text, "truth", wanted), test
            if wanted:
                yield (text, "none", False), test


def _canonical_text(node: ast.expr) -> str:
    """A text that is the same for all reads of an expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_canonical_text(value)}.{name}"
    return ast.dump(node)


def _is_contradicted(file: FileFacts, fact: _Fact, test: ast.expr, facts: dict[_Fact, ast.expr]) -> bool:
    """Return whether tests contradict the facts."""
    said = facts.get((fact[0], fact[1], not fact[2]))
    return said is not None and _same_value(file, said, test)


def _same_value(file: FileFacts, test: ast.expr, read: ast.expr) -> bool:
    """Return whether two readings of an expression of names and attributes give the same value, as far as this file
    tells.
    """
    for one, two in zip(walk_nodes(test), walk_nodes(read), strict=False):
        if isinstance(one, ast.Call) and called_name(one) not in _SAME_AGAIN:
            return False
        if isinstance(one, ast.Name) and isinstance(two, ast.Name):
            there, here = (lookup_bindings(file, part, part.id) for part in (one, two))
            if isinstance(one.ctx, ast.Store):
                continue  # `if (rows := find()) is not None:`
            if there[1] is not here[1] or {part.node for part in there[0]} != {part.node for part in here[0]}:
                return False
        elif isinstance(two, ast.Attribute) and file.evaluation_scope(test) is not file.evaluation_scope(read):
            return False  # it may have been set before the function around it is called
        elif isinstance(two, ast.Attribute):
            scope = file.evaluation_scope(read)
            stores = (part for part in file.mentions_in(scope, two.attr) if isinstance(part, ast.Attribute))
            if any(isinstance(part.ctx, ast.Store) for part in stores):
                return False
    return True

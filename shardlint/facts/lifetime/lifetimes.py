"""Lifetimes of arrays in one function: aliases, rebinding, donation, and reads of donated arrays.

A walk over the statements in the order they run, with every way of a branch and two turns of a loop. Where an
outer loop comes to it again one turn is enough, and nesting costs no more than its depth.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.lifetime.buffers import Buffer, BufferHistory, Memory, Use, merge_memories
from shardlint.facts.lifetime.donation import Donations
from shardlint.facts.lifetime.order import Evaluation
from shardlint.facts.lifetime.reads import Reading
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.needs import Memo
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.nodes import child_nodes

_Loop = ast.For | ast.AsyncFor | ast.While
_SWALLOWING = ("raises", "assertRaises", "assert_raises", "suppress", "subTest")


class Lifetimes:
    """The stories of a program's functions; remembered."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.donations = Donations(evaluator)
        self._known: Memo[ast.AST, BufferHistory] = Memo(evaluator.project.needs)
        self._donating: Memo[ast.AST, list[Scope]] = Memo(evaluator.project.needs)

    def buffer_events(self, file: FileFacts, scope: Scope) -> BufferHistory:
        """Return the buffer events of one function or module."""
        return self._known.get_or_make(
            scope.node, lambda: _Walk(file, file.walk_scope(scope), self.donations).walk_body()
        )

    def donating_functions(self, file: FileFacts) -> list[tuple[Scope, BufferHistory]]:
        """The functions of a file in which something is donated, and what happens there."""
        scopes = self._donating.get_or_make(file.tree, lambda: list(self._scopes_with_donations(file)))
        return [(scope, self.buffer_events(file, scope)) for scope in scopes]

    def _scopes_with_donations(self, file: FileFacts) -> Iterator[Scope]:
        for scope in file.inner_scopes(file.module):
            if scope.kind in ("module", "function"):
                if any(self.donations.find_donations(file, call) is not None for call in _calls_in_scope(scope)):
                    yield scope


def _calls_in_scope(scope: Scope) -> list[ast.Call]:
    """The calls of a function, those in its comprehensions too."""
    found = list(scope.calls)
    for child in scope.inner_scopes:
        if child.kind == "comprehension":
            found += _calls_in_scope(child)
    return found


class _Walk(Evaluation):
    """One pass over a scope."""

    def __init__(self, file: FileFacts, scope: Scope, donations: Donations) -> None:
        super().__init__(file, scope, donations)
        self.breaks: list[list[Memory]] = []
        self.continues: list[list[Memory]] = []

    def walk_body(self) -> BufferHistory:
        """Walk the whole body."""
        self._walk_block(self.scope.body_statements)
        self.story.uses = _strongest_uses(self.story.uses)
        seen = {(id(twice.nodes[0]), id(twice.nodes[1])): twice for twice in reversed(self.story.twice)}
        self.story.twice = list(reversed(seen.values()))
        return self.story

    def _walk_block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.memory is None:
                return
            self._walk_statement(statement)

    def _walk_statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                held = self.evaluate_expression(node.value)
                for target in node.targets:
                    self.assign_target(target, node.value, held)
            case ast.AnnAssign() if node.value is not None:
                self.assign_target(node.target, node.value, self.evaluate_expression(node.value))
            case ast.AugAssign():
                self.evaluate_expression(node.value)
                self.read_buffer(node.target)
                self.forget_target(node.target)
            case ast.Return() | ast.Raise():
                for child in child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.evaluate_expression(child)
                self.memory = None
            case ast.Break() | ast.Continue():
                stack = self.breaks if isinstance(node, ast.Break) else self.continues
                if stack and self.memory is not None:
                    stack[-1].append(self.memory)
                self.memory = None
            case ast.If():
                self.evaluate_expression(node.test)
                self._walk_branches([node.body, node.orelse])
            case ast.For() | ast.AsyncFor() | ast.While():
                self._walk_loop(node)
            case ast.With() | ast.AsyncWith():
                self._walk_with(node)
            case ast.Try() | ast.TryStar():
                self._walk_try(node)
            case ast.Match():
                self.evaluate_expression(node.subject)
                self._walk_branches([*(case.body for case in node.cases), []])
            case ast.Delete():
                for target in node.targets:
                    self.forget_target(target)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.bind_path((node.name,), Buffer(None, "unknown"))
            case ast.Expr():
                self.evaluate_expression(node.value)
            case ast.Assert():
                self.evaluate_expression(node.test)

    def _walk_branches(self, blocks: list[list[ast.stmt]]) -> None:
        assert self.memory is not None
        before, ends = self.memory, []
        for block in blocks:
            self.memory = before.copy_memory()
            self._walk_block(block)
            if self.memory is not None:
                ends.append(self.memory)
        self.memory = merge_memories(ends)

    def _walk_loop(self, node: _Loop) -> None:
        assert self.memory is not None
        if not isinstance(node, ast.While):
            self.evaluate_expression(node.iter)
        before = self.memory.copy_memory()
        ends: list[Memory] = []
        self.breaks.append([])
        for _ in range(1 if _runs_once(node) else self.count_iterations(node)):
            self.continues.append([])
            if isinstance(node, ast.While):
                self.evaluate_expression(node.test)
            else:
                self.bind_loop_target(node.target)
            self._walk_block(node.body)
            reached = self.continues.pop()
            if self.memory is not None:
                reached.append(self.memory)
            self.memory = merge_memories(reached)
            if self.memory is None:
                break
            ends.append(self.memory.copy_memory())
        left = self.breaks.pop()
        # A loop that never runs is of no interest: the way round it is not looked at.
        self.memory = (
            None if isinstance(node, ast.While) and _is_always_true(node.test) else merge_memories(ends)
        )
        if self.memory is not None:
            self._walk_block(node.orelse)
        self.memory = merge_memories([*left, self.memory] if self.memory is not None else left)
        if self.memory is None and not (isinstance(node, ast.While) and _is_always_true(node.test)):
            self.memory = before

    def _walk_with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.evaluate_expression(item.context_expr)
            if item.optional_vars is not None:
                self.assign_target(item.optional_vars, None, None)
        before = self.memory.copy_memory() if self.memory is not None else None
        self._walk_block(node.body)
        if before is not None and any(_may_swallow(item.context_expr) for item in node.items):
            self.memory = merge_memories([before, self.memory] if self.memory is not None else [before])

    def _walk_try(self, node: ast.Try | ast.TryStar) -> None:
        assert self.memory is not None
        before = self.memory.copy_memory()
        self.probing += bool(node.handlers)
        self._walk_block(node.body)
        self.probing -= bool(node.handlers)
        # The body may stop anywhere: what it rebinds or donates is not known in the handlers.
        stopped = [before] if self.memory is None else [before, self.memory.copy_memory()]
        self._walk_block(node.orelse)
        ends = [self.memory] if self.memory is not None else []
        for handler in node.handlers:
            self.memory = merge_memories([memory.copy_memory() for memory in stopped])
            self._walk_block(handler.body)
            if self.memory is not None:
                ends.append(self.memory)
        self.memory = merge_memories(ends)
        goes_on = self.memory is not None
        if not goes_on:
            self.memory = merge_memories([memory.copy_memory() for memory in stopped])
        self._walk_block(node.finalbody)
        if not goes_on:
            self.memory = None


def _strongest_uses(uses: list[Use]) -> list[Use]:
    """The uses of each read that tell most, first turns of loops first: a later one may read another buffer."""
    order = (Reading.PERHAPS, Reading.IF_ARRAY, Reading.DATA)
    found: dict[ast.expr, list[Use]] = {}
    for use in uses:
        known = found.setdefault(use.node, [])
        if not known or use.reading is known[0].reading:
            known.append(use)
        elif order.index(use.reading) > order.index(known[0].reading):
            known[:] = [use]
    return [use for known in found.values() for use in known]


def _runs_once(node: _Loop) -> bool:
    if isinstance(node, ast.While):
        return False
    iterated = node.iter
    if isinstance(iterated, ast.Tuple | ast.List):
        return len(iterated.elts) < 2 and not any(isinstance(one, ast.Starred) for one in iterated.elts)
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range":
        only = iterated.args[0] if len(iterated.args) == 1 else None
        return isinstance(only, ast.Constant) and only.value in (0, 1)
    return False


def _is_always_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _may_swallow(context: ast.expr) -> bool:
    """Return whether a `with` may go on after an error in its body."""
    name = context.func if isinstance(context, ast.Call) else context
    last = last_name(name)
    return str(last).startswith(_SWALLOWING)

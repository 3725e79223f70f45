"""Statements: blocks, branches, loops and contexts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from shardlint.layouts.definitions import Definitions
from shardlint.layouts.expressions import EVALUATORS, matches_pattern, readable_target
from shardlint.layouts.iteration import evaluate_iterable, join_items
from shardlint.layouts.operators import call_library, truth_of_condition
from shardlint.layouts.run_state import Flow
from shardlint.layouts.values import (
    Container,
    Instance,
    Unknown,
    Value,
    is_one_copy,
    join_values,
)
from shardlint.model.values import Place

_TURNS = 16
_ROUNDS = 2


class Statements(Definitions):
    """A run of statements."""

    def run_block(self, statements: list[ast.stmt]) -> Flow:
        """Run statements until one leaves."""
        for statement in statements:
            flow = self.run_statement(statement)
            if flow != "next":
                return flow
        return "next"

    def run_statement(self, node: ast.stmt) -> Flow:
        """Run one statement."""
        self.count_step()
        run = _RUN[type(node)]
        return "next" if run is None else run(self, node)

    def _run_expression(self, node: ast.Expr) -> Flow:
        self.evaluate_expression(node.value)
        return "next"

    def _run_assignment(self, node: ast.Assign) -> Flow:
        found = self.evaluate_expression(node.value)
        for target in node.targets:
            self.assign_target(target, found)
        return "next"

    def _run_annotated_assignment(self, node: ast.AnnAssign) -> Flow:
        if node.value is not None:
            self.assign_target(node.target, self.evaluate_expression(node.value))
        return "next"

    def _run_return(self, node: ast.Return) -> Flow:
        self.frame.returned.append(self.evaluate_expression(node.value) if node.value is not None else None)
        return "leave"

    def _run_raise(self, node: ast.Raise) -> Flow:
        return "leave"

    def _run_if(self, node: ast.If) -> Flow:
        known = truth_of_condition(self, node.test)
        if known is not None:
            return self.run_block(node.body if known else node.orelse)
        return self._run_alternatives([node.body, node.orelse])

    def _run_while(self, node: ast.While) -> Flow:
        return "next" if truth_of_condition(self, node.test) is False else self._run_loop(None, None, node.body)

    def _function_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Flow:
        self.bind_name(node.name, self.decorated_function(node))
        return "next"

    def _class_definition(self, node: ast.ClassDef) -> Flow:
        self.bind_name(node.name, self.make_class(node))
        return "next"

    def _run_import(self, node: ast.Import) -> Flow:
        file = self.frame.file
        for alias in node.names:
            dotted = alias.name if alias.asname else alias.name.partition(".")[0]
            self.bind_name(alias.asname or dotted, self.modules.make_lazy(partial(self.module_named, dotted, file)))
        return "next"

    def _import_from(self, node: ast.ImportFrom) -> Flow:
        self.import_names(node)
        return "next"

    def _declare_global(self, node: ast.Global) -> Flow:
        self.frame.globals_.update(node.names)
        return "next"

    def _declare_nonlocal(self, node: ast.Nonlocal) -> Flow:
        self.frame.nonlocals.update(node.names)
        return "next"

    def _run_break(self, node: ast.Break) -> Flow:
        return "break"

    def _run_continue(self, node: ast.Continue) -> Flow:
        return "continue"

    def _run_delete(self, node: ast.Delete) -> Flow:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.frame.names.pop(target.id, None)
        return "next"

    def _run_assert(self, node: ast.Assert) -> Flow:
        return "leave" if truth_of_condition(self, node.test) is False else "next"

    def _run_match(self, node: ast.Match) -> Flow:
        """The first case that fits; all that may, where that is not known."""
        subject = self.evaluate_expression(node.subject)
        possible: list[list[ast.stmt]] = []
        for case in node.cases:
            fits = matches_pattern(self, case.pattern, subject)
            if fits and case.guard is not None:
                fits = truth_of_condition(self, case.guard)
            if fits:
                possible.append(case.body)
                break
            if fits is None:
                possible.append(case.body)
        else:
            possible.append([])
        return self.run_block(possible[0]) if len(possible) == 1 else self._run_alternatives(possible)

    def _run_augmented_assignment(self, node: ast.AugAssign) -> Flow:
        load = ast.copy_location(ast.BinOp(left=readable_target(node.target), op=node.op, right=node.value), node)
        found = EVALUATORS[ast.BinOp](self, load)
        held = self.layouts.get(load.left)
        if isinstance(held, Instance) and held.as_operand is not held:
            self.changes += 1
            self.changeable_copy(held).forget_changes()  # a release of flax changes it in place, another raises
        self.assign_target(node.target, found)
        return "next"

    def _run_alternatives(self, blocks: list[list[ast.stmt]]) -> Flow:
        """Run several blocks of which one runs, and join what they leave."""
        frame, before = self.frame, dict(self.frame.names)
        mesh, known = self.mesh, self.mesh_known
        returned = len(frame.returned)
        ends: list[dict[str, Value]] = []
        flows: list[Flow] = []
        for statements in blocks:
            frame.names = dict(before)
            self.branches += 1
            with self.run_uncertainly():
                flow = self.run_block(statements)
            self.branches -= 1
            flows.append(flow)
            if flow == "next":
                ends.append(frame.names)
            if self.mesh is not mesh:
                known = False
                self.mesh = mesh
        self.mesh_known = known
        if len(frame.returned) > returned:
            frame.maybe_left += 1
            self.branches += 1  # up to the end of the function
        self.doubts += len(frame.returned) > returned or bool({"break", "continue"} & set(flows))
        if not ends:
            frame.names = before
            return flows[0] if len(set(flows)) == 1 else "leave"
        frame.names = _join_frames(ends)
        return "next"

    def _run_for(self, node: ast.For | ast.AsyncFor) -> Flow:
        iterated = evaluate_iterable(self, node.iter)
        items = self.known_items(iterated)
        if items is None or len(items) > _TURNS:
            return self._run_loop(node.target, iterated, node.body)
        for item in items:
            self.assign_target(node.target, item)
            flow = self.run_block(node.body)
            if flow == "leave":
                return flow
            if flow == "break":
                return "next"
        return self.run_block(node.orelse)

    def _run_loop(self, target: ast.expr | None, iterated: Value, body: list[ast.stmt]) -> Flow:
        """A loop of any number of turns: the first one, then those after it."""
        frame = self.frame
        with self.run_uncertainly():
            for turn in range(_ROUNDS):
                before = dict(frame.names)
                if target is not None:
                    self.assign_target(target, join_items(self, iterated))
                self.run_block(body)
                # A name that holds one copy before the loop, and is bound in it, is not read without an iteration.
                skipped = {
                    name: value for name, value in before.items()
                    if frame.names.get(name, value) is value or not is_one_copy(value)
                }  # fmt: skip
                after = _join_frames([skipped, frame.names])
                if turn == _ROUNDS - 1:
                    unstable = {
                        name for name, value in after.items()
                        if name in before and _are_different(before[name], value)
                    }  # fmt: skip
                    after.update(dict.fromkeys(unstable, Unknown("a loop changes it")))
                frame.names = after
        return "next"

    def _run_with(self, node: ast.With | ast.AsyncWith) -> Flow:
        before = self.mesh, self.mesh_known, self.excused, self.legacy, self.contexts
        for item in node.items:
            context = self.evaluate_expression(item.context_expr)
            found = call_library(
                self, "shardlint.enter", (context,), Place(self.frame.file, item.context_expr)
            )
            if item.optional_vars is not None:
                self.assign_target(item.optional_vars, found)
        flow = self.run_block(node.body)
        self.mesh, self.mesh_known, self.excused, self.legacy, self.contexts = before
        return flow

    def _run_try(self, node: ast.Try | ast.TryStar) -> Flow:
        self.excused += bool(node.handlers)
        frame, before = self.frame, dict(self.frame.names)
        flow = self.run_block(node.body)
        if flow == "next":
            flow = self.run_block(node.orelse)
        self.excused -= bool(node.handlers)
        ends = [frame.names] if flow == "next" else []
        for handler in node.handlers:
            frame.names = _join_frames([before, frame.names])
            if handler.name:
                frame.names[handler.name] = Unknown("an exception")
            with self.run_uncertainly():
                if self.run_block(handler.body) == "next":
                    ends.append(frame.names)
        frame.names = _join_frames(ends) if ends else before
        final = self.run_block(node.finalbody)
        if final != "next":
            return final
        return "next" if ends else flow if flow != "next" else "leave"


def _join_frames(ends: list[dict[str, Value]]) -> dict[str, Value]:
    first, *others = ends
    found = dict(first)
    for other in others:
        for name, value in other.items():
            before = found.setdefault(name, value)
            if before is not value:
                found[name] = join_values(before, value)
    return found


def _are_different(one: Value, two: Value) -> bool:
    if one is two:
        return False
    if isinstance(one, Container) or isinstance(two, Container):
        return False
    return not (type(one) is type(two) and one == two)


class _ByKind(dict[type, Callable[[Statements, Any], Flow] | None]):
    """How each kind of statement runs. Definitions of other files have kinds of their own, made from those of `ast`."""

    def __missing__(self, kind: type) -> Callable[[Statements, Any], Flow] | None:
        found = self[kind] = None if kind.__base__ is None else self[kind.__base__]
        return found


_RUN = _ByKind({
    ast.Expr: Statements._run_expression,
    ast.Assign: Statements._run_assignment,
    ast.AnnAssign: Statements._run_annotated_assignment,
    ast.AugAssign: Statements._run_augmented_assignment,
    ast.Return: Statements._run_return,
    ast.Raise: Statements._run_raise,
    ast.If: Statements._run_if,
    ast.For: Statements._run_for,
    ast.AsyncFor: Statements._run_for,
    ast.While: Statements._run_while,
    ast.With: Statements._run_with,
    ast.AsyncWith: Statements._run_with,
    ast.Try: Statements._run_try,
    ast.TryStar: Statements._run_try,
    ast.FunctionDef: Statements._function_definition,
    ast.AsyncFunctionDef: Statements._function_definition,
    ast.ClassDef: Statements._class_definition,
    ast.Import: Statements._run_import,
    ast.ImportFrom: Statements._import_from,
    ast.Global: Statements._declare_global,
    ast.Nonlocal: Statements._declare_nonlocal,
    ast.Break: Statements._run_break,
    ast.Continue: Statements._run_continue,
    ast.Delete: Statements._run_delete,
    ast.Assert: Statements._run_assert,
    ast.Match: Statements._run_match,
})
"""How each kind of statement runs; others do nothing."""

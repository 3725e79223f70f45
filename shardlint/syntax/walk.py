"""Bindings of a scope, and on demand the expressions of its statements, one at a time.

Most questions are about one line. The bindings of a scope are collected in one pass over its statements; expressions
(which names they mention, what they call) only of the statements somebody asks about.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from shardlint.syntax.nodes import child_nodes, walk_nodes
from shardlint.syntax.parts import TELLING
from shardlint.syntax.scope import Binding, BindingKind, Scope, Tables

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_OPENING = frozenset(
    (
        ast.Lambda,
        ast.ListComp,
        ast.SetComp,
        ast.DictComp,
        ast.GeneratorExp,
        ast.NamedExpr,
        ast.Yield,
        ast.YieldFrom,
    )
)
# Nodes that all places share: they have no parent of their own.


class Walker:
    """Collects for the scopes of one file. `walrus` says that expressions may bind names."""

    def __init__(self, tables: Tables, walrus: bool) -> None:
        self.scopes = tables.scopes
        self.homes = tables.homes
        self.walrus = walrus

    def collect_bindings(self, scope: Scope) -> None:
        """Collect the bindings of a scope (once)."""
        if scope.bound:
            return
        scope.bound = True
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._bind_parameters(scope, scope.node.args)
        if scope.body_statements:
            for statement in scope.statements:
                bind = _BINDS.get(type(statement))
                if bind is not None:
                    bind(self, statement, scope)
                if self.walrus:
                    self.visit_statement(statement, scope)

    def collect_scope(self, scope: Scope) -> None:
        """Collect all that a scope says (once)."""
        if scope.walked:
            return
        scope.walked = True
        self.collect_bindings(scope)
        if isinstance(scope.node, ast.Lambda):
            self._visit_expression(scope.node.body, scope.node, scope)
            return
        before = bool(scope.visited)
        for statement in scope.statements:
            self.visit_statement(statement, scope)
        if before:
            scope.calls.sort(key=_text_order)
            scope.returns.sort(key=_text_order)

    def visit_statement(self, statement: ast.stmt, scope: Scope) -> None:
        """Collect the expressions of one statement (once): of a compound one, those of its header."""
        if statement in scope.visited:
            return
        scope.visited.add(statement)
        visit = _VISITS.get(type(statement))
        if visit is not None:
            visit(self, statement, scope)
            return
        for child in child_nodes(statement):
            if isinstance(child, ast.expr):
                self._visit_expression(child, statement, scope)

    # bindings

    def _bind_parameters(self, scope: Scope, args: ast.arguments) -> None:
        positional = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults)) + list(
            args.defaults
        )
        pairs = [
            *zip(positional, defaults, strict=True),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]
        pairs += [(arg, None) for arg in (args.vararg, args.kwarg) if arg]
        for arg, default in pairs:
            self.homes[arg] = (scope.node, scope)
            self._bind_name(scope, arg.arg, "param", arg, default, annotation=arg.annotation)
            scope.named.setdefault(arg.arg, []).append(arg)

    def _bind_name(
        self,
        scope: Scope,
        name: str,
        kind: BindingKind,
        node: ast.AST,
        value: ast.expr | None = None,
        index: int | None = None,
        annotation: ast.expr | None = None,
    ) -> None:
        scope.bindings.setdefault(name, []).append(Binding(name, kind, node, scope, value, index, annotation))

    def _bind_definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope
    ) -> None:
        self._bind_name(scope, node.name, "class" if isinstance(node, ast.ClassDef) else "def", node)
        scope.named.setdefault(node.name, []).append(node)

    def _bind_outer(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        scope.outer_names.update(node.names)

    def _bind_assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self._bind_target(target, node, scope, "assign", node.value)

    def _bind_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        kind: BindingKind = "assign" if node.value is not None else "declared"
        self._bind_target(node.target, node, scope, kind, node.value, annotation=node.annotation)

    def _bind_augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self._bind_target(node.target, node, scope, "augment", node.value)

    def _bind_for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._bind_target(node.target, node, scope, "for", node.iter)

    def _bind_with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            self.homes[item] = (node, scope)
            if item.optional_vars is not None:
                self._bind_target(item.optional_vars, item, scope, "with", item.context_expr)

    def _bind_delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._bind_target(target, node, scope, "delete", None)

    def _bind_try(self, node: ast.Try | ast.TryStar, scope: Scope) -> None:
        for handler in node.handlers:
            if handler.name:
                self._bind_name(scope, handler.name, "except", handler)

    def _bind_match(self, node: ast.Match, scope: Scope) -> None:
        for case in node.cases:
            for part in walk_nodes(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.homes[part] = (case, scope)
                    self._bind_name(scope, name, "match", part)

    def _bind_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            self.homes[alias] = (node, scope)
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.partition(".")[0]
                self._bind_name(scope, name, "import", alias)
            elif alias.name == "*":
                self._bind_name(scope, "*", "star", alias)
                continue
            else:
                name = alias.asname or alias.name
                self._bind_name(scope, name, "from", alias)
            for part in {name, *alias.name.split(".")}:
                scope.named.setdefault(part, []).append(alias)
            if isinstance(node, ast.ImportFrom) and node.module:
                for part in node.module.split("."):
                    scope.taken.setdefault(part, []).append(alias)

    def _bind_target(
        self,
        target: ast.expr,
        parent: ast.AST,
        scope: Scope,
        kind: BindingKind,
        value: ast.expr | None,
        index: int | None = None,
        annotation: ast.expr | None = None,
    ) -> None:
        self.homes[target] = (parent, scope)
        if isinstance(target, ast.Name):
            self._bind_name(scope, target.id, kind, target, value, index, annotation)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, target, scope, "unpack" if kind == "assign" else kind, None)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack_target(target, scope, kind, value)

    def _unpack_target(
        self, target: ast.Tuple | ast.List, scope: Scope, kind: BindingKind, value: ast.expr | None
    ) -> None:
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        literal = (
            kind == "assign"
            and isinstance(value, ast.Tuple | ast.List)
            and len(value.elts) == len(target.elts)
            and not starred
            and not any(isinstance(element, ast.Starred) for element in value.elts)
        )
        for position, element in enumerate(target.elts):
            if literal and isinstance(value, ast.Tuple | ast.List):
                self._bind_target(element, target, scope, "assign", value.elts[position])
            else:
                inner: BindingKind = "unpack" if kind == "assign" else kind
                nested = isinstance(element, ast.Tuple | ast.List)  # parts of a part
                self._bind_target(
                    element, target, scope, inner, None if nested else value, None if starred else position
                )

    # expressions

    def _visit_target(self, target: ast.expr, parent: ast.AST, scope: Scope) -> None:
        self.homes[target] = (parent, scope)
        if isinstance(target, ast.Name):
            scope.named.setdefault(target.id, []).append(target)
        elif isinstance(target, ast.Starred):
            self._visit_target(target.value, target, scope)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._visit_target(element, target, scope)
        else:
            self._visit_expression(target, parent, scope)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        for part in (*node.decorator_list, *_signature_parts(node.args), node.returns):
            if part is not None:
                self._visit_expression(part, node, scope)

    def _visit_class(self, node: ast.ClassDef, scope: Scope) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self._visit_expression(part, node, scope)

    def _visit_nothing(self, node: ast.stmt, scope: Scope) -> None:
        pass

    def _visit_assign(self, node: ast.Assign, scope: Scope) -> None:
        self._visit_expression(node.value, node, scope)
        for target in node.targets:
            self._visit_target(target, node, scope)

    def _visit_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._visit_expression(node.annotation, node, scope)
        if node.value is not None:
            self._visit_expression(node.value, node, scope)
        self._visit_target(node.target, node, scope)

    def _visit_augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self._visit_expression(node.value, node, scope)
        self._visit_target(node.target, node, scope)
        if isinstance(node.target, ast.Name):  # it reads before it writes
            scope.named.setdefault(node.target.id, []).append(node.target)

    def _visit_for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._visit_expression(node.iter, node, scope)
        self._visit_target(node.target, node, scope)

    def _visit_with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            self.homes[item] = (node, scope)
            self._visit_expression(item.context_expr, item, scope)
            if item.optional_vars is not None:
                self._visit_target(item.optional_vars, item, scope)

    def _visit_delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._visit_target(target, node, scope)

    def _visit_return(self, node: ast.Return, scope: Scope) -> None:
        scope.returns.append(node)
        if node.value is not None:
            self._visit_expression(node.value, node, scope)

    def _visit_try(self, node: ast.Try | ast.TryStar, scope: Scope) -> None:
        for handler in node.handlers:
            if handler.type is not None:
                self._visit_expression(handler.type, handler, scope)

    def _visit_match(self, node: ast.Match, scope: Scope) -> None:
        self._visit_expression(node.subject, node, scope)
        for case in node.cases:
            if case.guard is not None:
                self._visit_expression(case.guard, case, scope)
            for part in walk_nodes(case.pattern):
                match part:
                    case ast.MatchValue():
                        self._visit_expression(part.value, case, scope)
                    case ast.MatchClass():
                        self._visit_expression(part.cls, case, scope)
                    case ast.MatchMapping():
                        for key in part.keys:
                            self._visit_expression(key, case, scope)

    def _visit_expression(self, node: ast.AST, parent: ast.AST, scope: Scope) -> None:
        """Collect an expression. Most of a walk is spent here: names and calls come first, and nothing is matched."""
        homes, named = self.homes, scope.named
        todo = [(node, (parent, scope))]
        while todo:
            node, home = todo.pop()
            homes[node] = home
            kind = type(node)
            if kind is ast.Name:
                named.setdefault(node.id, []).append(node)  # type: ignore[attr-defined]
            elif kind is ast.Attribute:
                named.setdefault(node.attr, []).append(node)  # type: ignore[attr-defined]
                todo.append((node.value, (node, scope)))  # type: ignore[attr-defined]
            elif kind is ast.Constant:
                pass
            elif kind is ast.Call:
                scope.calls.append(node)  # type: ignore[arg-type]
                home = node, scope  # one for all that is in it
                todo += [(keyword, home) for keyword in reversed(node.keywords)]  # type: ignore[attr-defined]
                todo += [(argument, home) for argument in reversed(node.args)]  # type: ignore[attr-defined]
                todo.append((node.func, home))  # type: ignore[attr-defined]
            elif kind is ast.keyword:
                if node.arg is not None:  # type: ignore[attr-defined]
                    named.setdefault(node.arg, []).append(node)  # type: ignore[attr-defined]
                todo.append((node.value, (node, scope)))  # type: ignore[attr-defined]
            elif kind in _OPENING:
                self._visit_opening(node, scope)
            else:
                home = node, scope
                todo += [(child, home) for child in reversed(child_nodes(node))]

    def _visit_opening(self, node: ast.AST, scope: Scope) -> None:
        """Visit a node that opens a scope, binds a name or leaves the function in the middle of an expression."""
        match node:
            case ast.Lambda():
                self._visit_lambda(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._visit_comprehension(node, scope)
            case ast.NamedExpr():
                self._visit_expression(node.value, node, scope)
                owner = scope
                while owner.kind == "comprehension" and owner.parent is not None:
                    owner = owner.parent
                self._bind_target(node.target, node, owner, "walrus", node.value)
                self._visit_target(node.target, node, owner)
            case ast.Yield() | ast.YieldFrom():
                scope.returns.append(node)
                if node.value is not None:
                    self._visit_expression(node.value, node, scope)

    def _visit_lambda(self, node: ast.Lambda, scope: Scope) -> None:
        for part in _signature_parts(node.args):
            if part is not None:
                self._visit_expression(part, node, scope)
        inner = Scope("lambda", node, scope)
        scope.within.append(inner)
        self.scopes[node] = inner
        self.collect_scope(inner)

    def _visit_comprehension(self, node: Comprehension, scope: Scope) -> None:
        inner = Scope("comprehension", node, scope, bound=True, walked=True)
        scope.within.append(inner)
        self.scopes[node] = inner
        for position, generator in enumerate(node.generators):
            self.homes[generator] = (node, inner)
            # The first iterable is evaluated outside, the rest inside.
            self._visit_expression(generator.iter, generator, scope if position == 0 else inner)
            self._bind_target(generator.target, generator, inner, "comprehension", generator.iter)
            self._visit_target(generator.target, generator, inner)
            for test in generator.ifs:
                self._visit_expression(test, generator, inner)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for result in results:
            self._visit_expression(result, node, inner)


_BINDS: dict[type[ast.stmt], Any] = {
    ast.FunctionDef: Walker._bind_definition,
    ast.AsyncFunctionDef: Walker._bind_definition,
    ast.ClassDef: Walker._bind_definition,
    ast.Import: Walker._bind_import,
    ast.ImportFrom: Walker._bind_import,
    ast.Global: Walker._bind_outer,
    ast.Nonlocal: Walker._bind_outer,
    ast.Assign: Walker._bind_assign,
    ast.AnnAssign: Walker._bind_annotated,
    ast.AugAssign: Walker._bind_augmented,
    ast.For: Walker._bind_for,
    ast.AsyncFor: Walker._bind_for,
    ast.With: Walker._bind_with,
    ast.AsyncWith: Walker._bind_with,
    ast.Delete: Walker._bind_delete,
    ast.Try: Walker._bind_try,
    ast.TryStar: Walker._bind_try,
    ast.Match: Walker._bind_match,
}
_VISITS: dict[type[ast.stmt], Any] = {
    ast.FunctionDef: Walker._visit_function,
    ast.AsyncFunctionDef: Walker._visit_function,
    ast.ClassDef: Walker._visit_class,
    ast.Import: Walker._visit_nothing,
    ast.ImportFrom: Walker._visit_nothing,
    ast.Global: Walker._visit_nothing,
    ast.Nonlocal: Walker._visit_nothing,
    ast.Assign: Walker._visit_assign,
    ast.AnnAssign: Walker._visit_annotated,
    ast.AugAssign: Walker._visit_augmented,
    ast.For: Walker._visit_for,
    ast.AsyncFor: Walker._visit_for,
    ast.With: Walker._visit_with,
    ast.AsyncWith: Walker._visit_with,
    ast.Delete: Walker._visit_delete,
    ast.Return: Walker._visit_return,
    ast.Try: Walker._visit_try,
    ast.TryStar: Walker._visit_try,
    ast.Match: Walker._visit_match,
}
for _plain, _telling in TELLING.items():
    _BINDS[_telling], _VISITS[_telling] = _BINDS[_plain], _VISITS[_plain]


def _text_order(node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
    """The order of a walk: by where a node begins, what holds it first."""
    return node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)


def _signature_parts(args: ast.arguments) -> Iterator[ast.expr | None]:
    yield from args.defaults
    yield from args.kw_defaults
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            yield arg.annotation

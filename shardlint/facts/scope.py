"""Scopes and the names bound in them.

A file is split into its scopes by statements alone, which is cheap. What a scope says (bindings, names read, calls)
is collected only when someone asks about that scope: most functions of most files are never looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from shardlint.facts.later import Cut, leave_out

Kind = Literal["module", "class", "function", "lambda", "comprehension"]
BindingKind = Literal[
    "import", "from", "star", "def", "class", "assign", "unpack", "augment", "for", "with", "param", "except", "walrus",
    "match", "comprehension", "delete", "declared",
]  # fmt: skip
_OPENING = frozenset(
    (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr, ast.Yield, ast.YieldFrom)
)
# Nodes that all places share: they have no parent of their own.
_NO_PLACE = frozenset(
    kind
    for family in (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
    for kind in family.__subclasses__()
)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False, slots=True)
class Binding:
    """One place that gives a name a value.

    `value` is the expression bound where there is one (for `unpack`, the whole right side, and `index` says which
    element); `node` is what binds (a Name, an alias, an argument, a definition).
    """

    name: str
    kind: BindingKind
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    index: int | None = None
    annotation: ast.expr | None = None

    @property
    def line(self) -> int:
        """Line of the binding, counted from 1."""
        return int(getattr(self.node, "lineno", 1))


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function, lambda or comprehension."""

    kind: Kind
    node: ast.AST
    parent: Scope | None
    children: list[Scope] = field(default_factory=list)
    definitions: list[Scope] = field(default_factory=list)
    """The functions and classes among the children."""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    named: dict[str, list[ast.AST]] = field(default_factory=dict)
    taken: dict[str, list[ast.AST]] = field(default_factory=dict)
    """What `from` statements import, by each part of the module's name."""
    calls: list[ast.Call] = field(default_factory=list)
    returns: list[ast.Return | ast.Yield | ast.YieldFrom] = field(default_factory=list)
    outer_names: set[str] = field(default_factory=set)
    walked: bool = False

    @property
    def name(self) -> str:
        """The name people know the scope by."""
        if self.kind == "module":
            return "the module"
        return getattr(self.node, "name", f"a {self.kind}")

    @property
    def body(self) -> list[ast.stmt]:
        """Statements of the scope; empty for a lambda or comprehension."""
        body = getattr(self.node, "body", [])
        return body if isinstance(body, list) else []

    def outward(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def function(self) -> Scope | None:
        """The function or lambda whose body this is part of: comprehensions and class bodies run inside it."""
        return next((scope for scope in self.outward() if scope.kind in ("function", "lambda")), None)


class Tables:
    """The scope tree of a module by statements alone: the scopes by node, and every statement's parent and scope.

    `left_out` are function bodies that are not parsed yet, by their last line: they are added when they are looked
    into. What remains in it was no function.
    """

    def __init__(self, tree: ast.Module, left_out: dict[int, Cut]) -> None:
        self.module = Scope("module", tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.homes: dict[ast.AST, tuple[ast.AST, Scope]] = {}
        self.left_out = left_out
        self._enter(tree.body, tree, self.module)

    def _enter(self, statements: list[ast.stmt], parent: ast.AST, scope: Scope) -> None:
        for statement in statements:
            self.homes[statement] = (parent, scope)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                kind: Kind = "class" if isinstance(statement, ast.ClassDef) else "function"
                inner = Scope(kind, statement, scope)
                scope.children.append(inner)
                scope.definitions.append(inner)
                self.scopes[statement] = inner
                if not self._is_left_out(statement):
                    self._enter(statement.body, statement, inner)
                continue
            for name in ("body", "orelse", "finalbody"):
                block = getattr(statement, name, None)
                if block:
                    self._enter(block, statement, scope)
            for clause in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                self.homes[clause] = (statement, scope)
                self._enter(clause.body, clause, scope)

    def _is_left_out(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        if not self.left_out or isinstance(node, ast.ClassDef) or len(node.body) != 1:
            return False
        only = node.body[0]
        if not isinstance(only, ast.Expr) or not isinstance(only.value, ast.Name):
            return False
        cut = self.left_out.pop(only.lineno, None)
        if cut is None:
            return False
        leave_out(node, cut, self._looked_into)
        return True

    def _looked_into(self, node: ast.AST) -> None:
        scope = self.scopes[node]
        self._enter(scope.body, node, scope)

    def clear(self) -> None:
        """Break the cycles between scopes and nodes."""
        for node, scope in self.scopes.items():
            node.__dict__.pop("_cut", None)
            scope.parent = None
            for table in (scope.children, scope.definitions, scope.bindings, scope.named, scope.calls, scope.returns):
                table.clear()
        self.scopes.clear()
        self.homes.clear()


class Walker:
    """Collects what one scope says. Lambdas and comprehensions met on the way are collected with it."""

    def __init__(self, tables: Tables) -> None:
        self.scopes = tables.scopes
        self.homes = tables.homes

    def walk(self, scope: Scope) -> None:
        """Fill in the scope's tables (once)."""
        if scope.walked:
            return
        scope.walked = True
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._parameters(scope, scope.node.args)
        if isinstance(scope.node, ast.Lambda):
            self._visit(scope.node.body, scope.node, scope)
            return
        for statement in scope.body:
            self._statement(statement, scope)

    def _parameters(self, scope: Scope, args: ast.arguments) -> None:
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
            self._bind(scope, arg.arg, "param", arg, default, annotation=arg.annotation)
            scope.named.setdefault(arg.arg, []).append(arg)

    def _bind(
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

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        parent = self.homes[node][0]
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(scope, node.name, "def", node)
                scope.named.setdefault(node.name, []).append(node)
                for part in (*node.decorator_list, *_signature_parts(node.args), node.returns):
                    if part is not None:
                        self._visit(part, node, scope)
                return
            case ast.ClassDef():
                self._bind(scope, node.name, "class", node)
                scope.named.setdefault(node.name, []).append(node)
                for part in (*node.decorator_list, *node.bases):
                    self._visit(part, node, scope)
                for keyword in node.keywords:
                    self._visit(keyword, node, scope)
                return
            case ast.Import() | ast.ImportFrom():
                self._import(node, scope)
                return
            case ast.Global() | ast.Nonlocal():
                scope.outer_names.update(node.names)
                return
            case ast.Assign():
                self._visit(node.value, node, scope)
                for target in node.targets:
                    self._target(target, node, scope, "assign", node.value)
                return
            case ast.AnnAssign():
                self._visit(node.annotation, node, scope)
                if node.value is not None:
                    self._visit(node.value, node, scope)
                kind: BindingKind = "assign" if node.value is not None else "declared"
                self._target(node.target, node, scope, kind, node.value, annotation=node.annotation)
                return
            case ast.AugAssign():
                self._visit(node.value, node, scope)
                self._target(node.target, node, scope, "augment", node.value)
                if isinstance(node.target, ast.Name):  # it reads before it writes
                    scope.named.setdefault(node.target.id, []).append(node.target)
                return
            case ast.For() | ast.AsyncFor():
                self._visit(node.iter, node, scope)
                self._target(node.target, node, scope, "for", node.iter)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.homes[item] = (node, scope)
                    self._visit(item.context_expr, item, scope)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, item, scope, "with", item.context_expr)
            case ast.Delete():
                for target in node.targets:
                    self._target(target, node, scope, "delete", None)
                return
            case ast.Return():
                scope.returns.append(node)
                if node.value is not None:
                    self._visit(node.value, node, scope)
                return
            case ast.Match():
                self._visit(node.subject, node, scope)
            case ast.Try() | ast.TryStar():
                for handler in node.handlers:
                    if handler.name:
                        self._bind(scope, handler.name, "except", handler)
                    if handler.type is not None:
                        self._visit(handler.type, handler, scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._visit(child, node, scope)
        self.homes[node] = (parent, scope)
        for name in ("body", "orelse", "finalbody"):
            for statement in getattr(node, name, None) or ():
                self._statement(statement, scope)
        for clause in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            if isinstance(clause, ast.match_case):
                self._pattern(clause, scope)
            for statement in clause.body:
                self._statement(statement, scope)

    def _pattern(self, case: ast.match_case, scope: Scope) -> None:
        if case.guard is not None:
            self._visit(case.guard, case, scope)
        for part in ast.walk(case.pattern):
            name = getattr(part, "name", None) or getattr(part, "rest", None)
            if isinstance(name, str):
                self.homes[part] = (case, scope)
                self._bind(scope, name, "match", part)
            match part:
                case ast.MatchValue():
                    self._visit(part.value, case, scope)
                case ast.MatchClass():
                    self._visit(part.cls, case, scope)
                case ast.MatchMapping():
                    for key in part.keys:
                        self._visit(key, case, scope)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            self.homes[alias] = (node, scope)
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.partition(".")[0]
                self._bind(scope, name, "import", alias)
            elif alias.name == "*":
                self._bind(scope, "*", "star", alias)
                continue
            else:
                name = alias.asname or alias.name
                self._bind(scope, name, "from", alias)
            for part in {name, *alias.name.split(".")}:
                scope.named.setdefault(part, []).append(alias)
            if isinstance(node, ast.ImportFrom) and node.module:
                for part in node.module.split("."):
                    scope.taken.setdefault(part, []).append(alias)

    def _target(
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
            self._bind(scope, target.id, kind, target, value, index, annotation)
            scope.named.setdefault(target.id, []).append(target)
        elif isinstance(target, ast.Starred):
            self._target(target.value, target, scope, "unpack" if kind == "assign" else kind, None)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, scope, kind, value)
        else:
            self._visit(target, parent, scope)

    def _unpack(
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
                self._target(element, target, scope, "assign", value.elts[position])
            else:
                inner: BindingKind = "unpack" if kind == "assign" else kind
                self._target(element, target, scope, inner, value, None if starred else position)

    def _visit(self, node: ast.AST, parent: ast.AST, scope: Scope) -> None:
        """Collect an expression. Most of a walk is spent here: names and calls come first, and nothing is matched."""
        homes, named = self.homes, scope.named
        todo = [(node, parent)]
        while todo:
            node, parent = todo.pop()
            homes[node] = (parent, scope)
            kind = type(node)
            if kind is ast.Name:
                named.setdefault(node.id, []).append(node)  # type: ignore[attr-defined]
            elif kind is ast.Attribute:
                named.setdefault(node.attr, []).append(node)  # type: ignore[attr-defined]
                todo.append((node.value, node))  # type: ignore[attr-defined]
            elif kind is ast.Constant:
                pass
            elif kind is ast.Call:
                scope.calls.append(node)  # type: ignore[arg-type]
                todo += [(keyword, node) for keyword in reversed(node.keywords)]  # type: ignore[attr-defined]
                todo += [(argument, node) for argument in reversed(node.args)]  # type: ignore[attr-defined]
                todo.append((node.func, node))  # type: ignore[attr-defined]
            elif kind is ast.keyword:
                if node.arg is not None:  # type: ignore[attr-defined]
                    named.setdefault(node.arg, []).append(node)  # type: ignore[attr-defined]
                todo.append((node.value, node))  # type: ignore[attr-defined]
            elif kind in _OPENING:
                self._opening(node, scope)
            else:
                inside = [(child, node) for child in ast.iter_child_nodes(node) if type(child) not in _NO_PLACE]
                todo += reversed(inside)

    def _opening(self, node: ast.AST, scope: Scope) -> None:
        """What opens a scope of its own, or binds a name or leaves the function in the middle of an expression."""
        match node:
            case ast.Lambda():
                self._lambda(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node, scope)
            case ast.NamedExpr():
                self._visit(node.value, node, scope)
                owner = scope
                while owner.kind == "comprehension" and owner.parent is not None:
                    owner = owner.parent
                self._target(node.target, node, owner, "walrus", node.value)
            case ast.Yield() | ast.YieldFrom():
                scope.returns.append(node)
                if node.value is not None:
                    self._visit(node.value, node, scope)

    def _lambda(self, node: ast.Lambda, scope: Scope) -> None:
        for part in _signature_parts(node.args):
            if part is not None:
                self._visit(part, node, scope)
        inner = Scope("lambda", node, scope)
        scope.children.append(inner)
        self.scopes[node] = inner
        self.walk(inner)

    def _comprehension(self, node: Comprehension, scope: Scope) -> None:
        inner = Scope("comprehension", node, scope, walked=True)
        scope.children.append(inner)
        self.scopes[node] = inner
        for position, generator in enumerate(node.generators):
            self.homes[generator] = (node, inner)
            # The first iterable is evaluated outside, the rest inside.
            self._visit(generator.iter, generator, scope if position == 0 else inner)
            self._target(generator.target, generator, inner, "comprehension", generator.iter)
            for test in generator.ifs:
                self._visit(test, generator, inner)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for result in results:
            self._visit(result, node, inner)


def _signature_parts(args: ast.arguments) -> Iterator[ast.expr | None]:
    yield from args.defaults
    yield from args.kw_defaults
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            yield arg.annotation

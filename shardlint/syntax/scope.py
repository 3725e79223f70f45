"""Scopes and the names bound in them.

A file is split into its scopes by statements alone, which is cheap. What a scope says (bindings, names read, calls)
is collected only when someone asks about that scope: most functions of most files are never looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["module", "class", "function", "lambda", "comprehension"]
BindingKind = Literal[
    "import", "from", "star", "def", "class", "assign", "unpack", "augment", "for", "with", "param", "except", "walrus",
    "match", "comprehension", "delete", "declared", "more",
]  # fmt: skip


@dataclass(eq=False, slots=True)
class Binding:
    """One place that gives a name a value.

    `value` is the expression bound where there is one (for `unpack`, the whole right side, and `index` says which
    element); `node` is what binds (a Name, an alias, an argument, a definition). Of the kind "more" is what stands for
    bindings that are too many to be told apart: nothing is known of it, and `node` is where the name is read.
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
    definitions: list[Scope] = field(default_factory=list)
    """The functions and classes inside, in text order."""
    within: list[Scope] = field(default_factory=list)
    """The lambdas and comprehensions inside, of the expressions that were visited."""
    statements: list[ast.stmt] = field(default_factory=list)
    """All statements that run as part of the scope, those in branches and loops too."""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    named: dict[str, list[ast.AST]] = field(default_factory=dict)
    taken: dict[str, list[ast.AST]] = field(default_factory=dict)
    """What `from` statements import, by each part of the module's name."""
    calls: list[ast.Call] = field(default_factory=list)
    returns: list[ast.Return | ast.Yield | ast.YieldFrom] = field(default_factory=list)
    outer_names: set[str] = field(default_factory=set)
    visited: set[ast.stmt] = field(default_factory=set)
    bound: bool = False
    """Whether the bindings are collected."""
    walked: bool = False
    """Whether all else is."""

    @property
    def name(self) -> str:
        """The name people know the scope by."""
        if self.kind == "module":
            return "the module"
        return getattr(self.node, "name", f"a {self.kind}")

    @property
    def inner_scopes(self) -> list[Scope]:
        """The scopes directly inside."""
        return [*self.definitions, *self.within]

    @property
    def body_statements(self) -> list[ast.stmt]:
        """Statements of the scope; empty for a lambda or comprehension."""
        body = vars(self.node).get("body", [])  # nobody is told of it: see `syntax.parts`
        return body if isinstance(body, list) else []

    def enclosing_scopes(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def enclosing_function(self) -> Scope | None:
        """The function or lambda whose body this is part of: comprehensions and class bodies run inside it."""
        return next((scope for scope in self.enclosing_scopes() if scope.kind in ("function", "lambda")), None)


# Most statements: those that hold no others.
_SIMPLE = frozenset(
    {ast.Assign, ast.Expr, ast.Return, ast.AugAssign, ast.AnnAssign, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom,
     ast.Pass}
)  # fmt: skip


class Tables:
    """The scope tree of a module by statements alone: the scopes by node, and every statement's parent and scope."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.homes: dict[ast.AST, tuple[ast.AST, Scope]] = {}
        self._fill_scope(self.module)

    def _fill_scope(self, scope: Scope) -> None:
        self._enter_statements(scope.body_statements, scope.node, scope)
        scope.definitions.sort(
            key=first_line
        )  # `except` clauses stand before `finally`, and are visited after it

    def _enter_statements(self, statements: list[ast.stmt], parent: ast.AST, scope: Scope) -> None:
        home = parent, scope
        for statement in statements:
            self.homes[statement] = home
            scope.statements.append(statement)
            if statement.__class__ in _SIMPLE:
                continue
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                kind: Kind = "class" if isinstance(statement, ast.ClassDef) else "function"
                inner = Scope(kind, statement, scope)
                scope.definitions.append(inner)
                self.scopes[statement] = inner
                self._fill_scope(inner)
                continue
            for name in ("body", "orelse", "finalbody"):
                block = getattr(statement, name, None)
                if block:
                    self._enter_statements(block, statement, scope)
            for clause in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                self.homes[clause] = (statement, scope)
                self._enter_statements(clause.body, clause, scope)

    def break_cycles(self) -> None:
        """Break the cycles between scopes and nodes."""
        for scope in self.scopes.values():
            scope.parent = None
            for table in (
                scope.definitions,
                scope.within,
                scope.statements,
                scope.bindings,
                scope.named,
                scope.calls,
            ):
                table.clear()
            scope.returns.clear()
            scope.visited.clear()
        self.scopes.clear()
        self.homes.clear()


def first_line(scope: Scope) -> int:
    """The line on which a scope's node begins."""
    return getattr(scope.node, "lineno", 0)

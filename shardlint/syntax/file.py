"""The facts of one file: its tree, its scopes, and where a name is mentioned."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from shardlint.source.beginning import OnLine, beginning
from shardlint.source.patterns import regex
from shardlint.source.text import Source
from shardlint.syntax.parse import parse
from shardlint.syntax.scope import Binding, Scope, Tables, first_line
from shardlint.syntax.walk import Walker

Answer = TypeVar("Answer")

_IDENTIFIER = regex(r"\w+")
_ASKED_BEFORE_INDEX = 200
# Measured: the bytes of memory that a file takes, and for each character of its text and each node that was reached.
_EACH, _CHARACTER, _NODE = 10_000, 43, 660
NOWHERE = "\0"
"""A text that no source holds."""
_HEADER_END = regex(r":[ \t]*(?:#[^\n]*)?\n")
_GLOBAL = regex(r"global\b([^\n#;]*)")
# A compound statement begins its line.
_WITH = regex(r"^[ \t\f]*(?:async[ \t]+)?with\b", re.MULTILINE)
_CALLED = regex(r"\n[ \t]*+((?:\w++\.)*+(\w++)\()")
_OF_NAMES = regex(r"[\s(]+[\w.]+\s*(?:as\b|[:,)\\])")


class FileFacts:
    """One parsed file. Everything beyond the statement tree is collected on demand, a scope at a time."""

    def __init__(self, source: Source, tree: ast.Module, path: Path, tables: Tables) -> None:
        self.source = source
        self.path = path
        """Absolute path: what identifies the file in a program."""
        self.tree = tree
        self.module = tables.module
        self._tables = tables
        self._scopes, self._homes = tables.scopes, tables.homes
        self._walker = Walker(tables, ":=" in source.text)
        self._in_order: dict[Scope, tuple[list[ast.stmt], list[int]]] = {}
        """The statements of a scope by where they begin, and where that is."""
        self._visited: dict[int, list[Scope]] = {}
        """The scopes around a line in which everything on it was visited."""
        self._beginning: dict[str, list[ast.stmt]] = {}
        self._said: dict[str, bool] = {}
        self._asked = 0
        self._mentions: dict[tuple[str, tuple[str, ...]], list[ast.AST]] = {}
        self.chains: dict[ast.AST, tuple[ast.AST, ...]] = {}
        """The statements around each statement that was asked about: see `program.reach`."""
        self.reaching: dict[tuple[ast.AST, Scope, str], list[Binding]] = {}
        self.exits: dict[Scope, int | None] = {}
        self.version_tests: dict[ast.expr, bool] = {}
        self.in_a_guard: dict[ast.stmt, bool] = {}
        """Whether statements run on some releases only, by what stands around them: see `program.guards`."""
        self.said_of: dict[tuple[str, ast.AST], Any] = {}
        """What the text of the file alone says of nodes, as several rules ask: see `remembered`."""
        self.nearest: dict[tuple[type[ast.AST], ...], dict[ast.AST, ast.AST | None]] = {}
        """The nearest ancestor of some kinds of the nodes that were asked about: see `facts.enclosing`."""
        self.binders: dict[tuple[Scope, str], frozenset[ast.AST]] = {}
        self.readers: dict[tuple[Scope | None, str], dict[ast.AST, list[tuple[ast.Name, bool]]]] = {}
        """The bindings that reach a read of a name: see `program.reach`."""
        self.read: dict[tuple[Scope, str], frozenset[ast.AST]] = {}
        """Of what binds a name in a scope, what somebody reads: see `program.liveness`."""

    @cached_property
    def rebound_globals(self) -> frozenset[str]:
        """Names that some function of the file declares `global`, and so may rebind."""
        names: set[str] = set()
        for found in _GLOBAL.finditer(self.source.text):
            before = self.source.text.rfind("\n", 0, found.start()) + 1
            if self.source.text[before : found.start()].rstrip(" \t")[-1:] in ("", ":", ";"):
                names.update(name.strip() for name in found[1].split(","))
        return frozenset(names)

    @cached_property
    def imports(self) -> list[Binding]:
        """What import statements bind that stand in the module's own block, outside every branch."""
        return [
            binding
            for bindings in self.bound(self.module).bindings.values()
            for binding in bindings
            if binding.kind in ("import", "from")
            and self.statement_in_block(binding.node, self.module) is not None
        ]

    @property
    def held(self) -> int:
        """About how many bytes of memory the facts take by now."""
        return _EACH + _CHARACTER * len(self.source.text) + _NODE * len(self._homes)

    def release(self) -> None:
        """Break the cycles between scopes, so that the tree goes at once and no collector need look for it.

        The facts answer nothing afterwards.
        """
        self._tables.clear()
        self._in_order.clear()
        self._visited.clear()
        self._beginning.clear()
        self._mentions.clear()
        self.nearest.clear()
        self.chains.clear()
        self.reaching.clear()
        self.binders.clear()
        self.exits.clear()
        self.version_tests.clear()
        self.in_a_guard.clear()
        self.said_of.clear()
        self.readers.clear()
        self.read.clear()

    def remembered(self, what: str, node: ast.AST, make: Callable[[], Answer]) -> Answer:
        """What the text of the file alone says of a node, found once."""
        key = what, node
        if key not in self.said_of:
            self.said_of[key] = make()
        return cast(Answer, self.said_of[key])

    def says(self, text: str) -> bool:
        """Whether a text stands anywhere in the file; looked for once."""
        if text not in self._said:
            self._said[text] = text in self.source.text
        return self._said[text]

    def scope(self, node: ast.AST) -> Scope:
        """The scope a function, class, lambda or module node opens."""
        if node not in self._scopes and isinstance(node, ast.Lambda):
            self.home(node)
        return self._scopes[node]

    def bound(self, scope: Scope) -> Scope:
        """The scope with its bindings."""
        if not scope.bound:
            self._walker.bind(scope)
        return scope

    def walked(self, scope: Scope) -> Scope:
        """The scope with all its tables filled in."""
        if not scope.walked:
            self._walker.walk(scope)
        return scope

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The syntactic parent of a node; None for the module."""
        entry = self._homes.get(node) or self._find(node)
        return entry[0] if entry else None

    def home(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        entry = self._homes.get(node) or self._find(node)
        return entry[1] if entry else self.module

    def _find(self, node: ast.AST) -> tuple[ast.AST, Scope] | None:
        """Parent and scope of a node that was not met yet: visit what stands on its line."""
        line = getattr(node, "lineno", None)
        if line is None or node is self.tree:
            return None
        scopes = list(self.scope_at(line).outward())
        for collect in (self._visit_at, lambda scope, _: self.walked(scope)):
            for scope in scopes:
                collect(scope, line)
                if node in self._homes:
                    return self._homes[node]
        return None

    def _visit_at(self, scope: Scope, line: int) -> None:
        """Visit the statements of a scope that are on a line, and those around them."""
        self.bound(scope)
        if scope.walked:
            return
        statements, starts = self._sorted(scope)
        index = bisect_right(starts, line) - 1
        around: ast.AST | None = statements[index] if index >= 0 else None
        while around is not None and around is not scope.node:
            if isinstance(around, ast.stmt):
                self._walker.visit(around, scope)
            around = self._homes[around][0]
        while index >= 0 and (statements[index].end_lineno or 0) >= line:  # a; b
            self._walker.visit(statements[index], scope)
            index -= 1

    def _sorted(self, scope: Scope) -> tuple[list[ast.stmt], list[int]]:
        """The statements of a scope in text order, and the first line of each."""
        if scope not in self._in_order:
            statements = sorted(scope.statements, key=_start)
            self._in_order[scope] = statements, list(map(_start, statements))
        return self._in_order[scope]

    def _statements_at(self, scope: Scope, line: int) -> list[ast.stmt]:
        """The statements of a scope that begin on a line, decorators aside."""
        statements, starts = self._sorted(scope)
        found = statements[bisect_left(starts, line) : bisect_right(starts, line)]
        return [node for node in found if node.lineno == line]

    def _statement_at(self, scope: Scope, line: int) -> ast.stmt | None:
        """The innermost statement of a scope that holds a line."""
        statements, starts = self._sorted(scope)
        index = bisect_right(starts, line) - 1
        around: ast.AST | None = statements[index] if index >= 0 else None
        while isinstance(around, ast.stmt) and around is not scope.node:
            if (around.end_lineno or 0) >= line:
                return around
            around = self._homes[around][0]
        return None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Syntactic ancestors, innermost first, up to the module."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement a node belongs to (itself, for a statement)."""
        while not isinstance(node, ast.stmt):
            parent = self.parent(node)
            if parent is None:
                raise LookupError(f"{self.path}: a node outside every statement")
            node = parent
        return node

    def statement_in_block(self, node: ast.AST, scope: Scope) -> ast.stmt | None:
        """The node's statement if it stands directly in the scope's own block, outside every branch and loop."""
        statement = self.statement(node)
        return statement if self.parent(statement) is scope.node else None

    def scope_at(self, line: int) -> Scope:
        """The innermost function or class whose lines hold this one, else the module."""
        scope, inner = self.module, self._defined_at(self.module, line)
        while inner is not None:
            scope, inner = inner, self._defined_at(inner, line)
        return scope

    def _defined_at(self, scope: Scope, line: int) -> Scope | None:
        """The function or class in a scope's own block whose lines hold this one."""
        found = scope.definitions
        index = bisect_right(found, line, key=first_line) - 1
        return (
            found[index]
            if index >= 0 and line <= (getattr(found[index].node, "end_lineno", 0) or 0)
            else None
        )

    def mentions(self, name: str, beside: tuple[str, ...] = ()) -> list[ast.AST]:
        """Every Name, Attribute, keyword, import alias, argument and definition with this name, in text order.

        `beside` are texts of which one must stand in the same function: a function without any is not
        looked into.
        """
        key = (name, beside)
        if key not in self._mentions:
            nodes: list[ast.AST] = []
            done: set[int] = set()
            for scope in self._around(name, beside):
                self._collect(scope, name, nodes, done)
            nodes.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
            self._mentions[key] = nodes
        return self._mentions[key]

    def mentions_in(self, scope: Scope, name: str) -> list[ast.AST]:
        """The mentions on the lines of a scope: a name of its own is mentioned nowhere else."""
        nodes = self.mentions(name)
        if scope.kind == "module":
            return nodes
        first, last = getattr(scope.node, "lineno", 0), getattr(scope.node, "end_lineno", 0)
        return nodes[bisect_left(nodes, first, key=_line) : bisect_right(nodes, last, key=_line)]

    def taken_from(self, word: str) -> list[ast.AST]:
        """What `from` statements with this word in their module's name import."""
        lines = [line for line in self._lines(word) if "from" in self.source.line(line)]
        scopes = {scope for line in lines for scope in self._evaluating(line, word)[0].outward()}
        return [alias for scope in scopes for alias in self.bound(scope).taken.get(word, ())]

    def _around(self, word: str, beside: tuple[str, ...]) -> list[Scope]:
        """The scopes whose lines hold a word, and those around them; those lines visited."""
        scopes: dict[int, Scope] = {}
        for line in self._lines(word):
            around = self._visited.get(line)
            if around is None:
                scope, is_innermost = self._evaluating(line, word, beside)
                around = list(scope.outward())
                for scope in around:
                    self._visit_at(scope, line)
                if is_innermost:
                    self._visited[line] = around
            for scope in around:
                scopes[id(scope)] = scope
        return list(scopes.values())

    def _lines(self, word: str) -> set[int]:
        """The lines that hold a word. Once many words have been asked for, an index pays."""
        self._asked += 1
        few = self._asked <= _ASKED_BEFORE_INDEX
        if few or not _IDENTIFIER.fullmatch(word) or self.says("\r"):
            return {self.source.position(start)[0] for start in _words(self.source.text, word)}
        return self._words_by_line.get(word, set())

    @cached_property
    def _words_by_line(self) -> dict[str, set[int]]:
        index: dict[str, set[int]] = {}
        for number, line in enumerate(self.source.text.split("\n"), 1):
            for word in _IDENTIFIER.findall(line):
                index.setdefault(word, set()).add(number)
        return index

    def _evaluating(self, line: int, word: str, beside: tuple[str, ...] = ()) -> tuple[Scope, bool]:
        """The innermost scope that evaluates a word on a line: for a header, not the function it opens.

        Nor a function in which nothing of `beside` stands. With it, whether it is the innermost of the line.
        """
        scope, inner = self.module, self._defined_at(self.module, line)
        while inner is not None:
            first, last = inner.body[0].lineno, getattr(inner.node, "end_lineno", 0)
            if line < first and line < _start(inner.body[0]) and not _is_parameter(inner.node, word):
                return scope, False
            if beside and inner.kind == "function" and not self._says_between(first, last, beside):
                return scope, False
            scope, inner = inner, self._defined_at(inner, line)
        return scope, True

    def stands_by(self, node: ast.AST, texts: tuple[str, ...]) -> bool:
        """Whether one of the texts stands in the function around a node; True without texts and without a function."""
        if not texts:
            return True
        scope: Scope | None = self.home(node)
        while scope is not None and scope.kind != "function":
            scope = scope.parent
        if scope is None:
            return True
        return self._says_between(scope.body[0].lineno, getattr(scope.node, "end_lineno", 0), texts)

    def _says_between(self, first: int, last: int, texts: tuple[str, ...]) -> bool:
        """Whether one of the texts stands on some lines."""
        starts = self.source.line_starts
        begin, end = starts[first - 1], starts[last] if last < len(starts) else len(self.source.text)
        return any(self.source.text.find(text, begin, end) >= 0 for text in texts)

    def _collect(self, scope: Scope, name: str, nodes: list[ast.AST], done: set[int]) -> None:
        if id(scope) in done:
            return
        done.add(id(scope))
        nodes.extend(scope.named.get(name, ()))
        for child in scope.within:
            self._collect(child, name, nodes, done)

    def inner_scopes(self, scope: Scope) -> Iterator[Scope]:
        """The scope and all scopes inside it, walked."""
        yield self.walked(scope)
        for child in scope.children:
            yield from self.inner_scopes(child)

    @cached_property
    def withs(self) -> list[ast.With | ast.AsyncWith]:
        """The `with` statements, in text order."""
        return self.withs_saying("")

    def withs_saying(self, word: str) -> list[ast.With | ast.AsyncWith]:
        """The `with` statements in whose header a word stands, in capitals or not, or that enter what a name is.

        In text order.
        """
        found: dict[ast.With | ast.AsyncWith, None] = {}
        text = self.source.text
        for match in _WITH.finditer(text):
            end = _HEADER_END.search(text, match.end())
            header = text[match.end() : end.end() if end is not None else len(text)]
            if word in header.lower() or _OF_NAMES.match(header):
                line = self.source.position(match.end())[0]
                for node in self.scope_at(line).statements:
                    if isinstance(node, ast.With | ast.AsyncWith) and node.lineno == line:
                        found[node] = None
        return list(found)

    @cached_property
    def _called(self) -> list[tuple[int, str]]:
        """The lines that begin with a call, each with the name of what it calls, in small letters."""
        found = _CALLED.finditer("\n" + self.source.text)
        return [(self.source.position(match.start(1) - 1)[0], match[2].lower()) for match in found]

    def statements_calling(self, part: str) -> list[ast.Call]:
        """The calls that are statements by themselves, of something whose name holds this, in capitals or not."""
        found: dict[ast.Call, None] = {}
        for line, name in self._called:
            if part.lower() not in name:
                continue
            for node in self.scope_at(line).statements:
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.lineno == line:
                    found[node.value] = None
        return list(found)

    def statements_beginning(
        self, pattern: str, saying: tuple[str, ...] = (), on: OnLine = "first"
    ) -> list[ast.stmt]:
        """The statements on whose first line, which holds one of the texts, a pattern matches from its beginning.

        On `any` line: the innermost ones that hold such a line. On the line of a `definition`: functions and classes.
        """
        if pattern in self._beginning:
            return self._beginning[pattern]
        found: dict[ast.stmt, None] = {}
        for place in beginning(self.source.text, pattern, saying):
            line = self.source.position(place)[0]
            scope = self.scope_at(line)
            if on == "first":
                found.update(dict.fromkeys(self._statements_at(scope, line)))
            elif on == "any" and (around := self._statement_at(scope, line)) is not None:
                found[around] = None
            elif on == "definition" and isinstance(scope.node, ast.stmt) and scope.node.lineno == line:
                found[scope.node] = None
        self._beginning[pattern] = list(found)
        return self._beginning[pattern]

    def evaluated(self) -> Iterator[ast.AST]:
        """Every node of the scopes looked into so far."""
        yield from list(self._homes)

    def bindings(self, scope: Scope, name: str) -> list[Binding]:
        """Where a scope binds a name, in text order."""
        return self.bound(scope).bindings.get(name, [])

    def text(self, node: ast.AST) -> str:
        """The source text of a node."""
        start, end = self.span(node)
        return self.source.text[start:end]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Character offsets of a node: start and end."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
        return self.source.offset(line, column), self.source.offset(end_line, end_column)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _words(text: str, name: str) -> Iterator[int]:
    """Where a word stands on its own. `str.find` is some ten times faster than a pattern with word boundaries."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            yield start
        start = text.find(name, end)


def _start(node: ast.stmt) -> int:
    """The first line of a statement, its decorators too."""
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]) if decorators else node.lineno


def _is_parameter(node: ast.AST, word: str) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    args = node.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return any(arg is not None and arg.arg == word for arg in every)


def read_facts(source: Source, path: Path) -> FileFacts:
    """Parse a file. Raises `NotParsed` for text this Python cannot parse, and for nesting too deep to read."""
    tree = parse(source.text)
    return FileFacts(source, tree, path, Tables(tree))

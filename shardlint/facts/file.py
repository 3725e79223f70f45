"""The facts of one file: its tree, its scopes, and where a name is mentioned."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from shardlint.facts.scope import Binding, Scope, Walker, split
from shardlint.sources.text import Source


class NotParsed(Exception):
    """A file that this Python cannot parse. The message names the line and what Python says of it."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class FileFacts:
    """One parsed file. Everything beyond the statement tree is collected on demand, a scope at a time."""

    def __init__(self, source: Source, tree: ast.Module, path: Path) -> None:
        self.source = source
        self.path = path
        """Absolute path: what identifies the file in a program."""
        self.tree = tree
        self.module, self._scopes, self._homes = split(tree)
        self._walker = Walker(self._scopes, self._homes)
        self._spans = sorted(
            (node.lineno, -(node.end_lineno or node.lineno), index, scope)
            for index, (node, scope) in enumerate(self._scopes.items())
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        )
        self._starts = [span[0] for span in self._spans]
        self._mentions: dict[str, list[ast.AST]] = {}
        self.chains: dict[ast.AST, tuple[ast.AST, ...]] = {}
        """The statements around each statement that was asked about: see `program.reach`."""

    @cached_property
    def rebound_globals(self) -> frozenset[str]:
        """Names that some function of the file declares `global`, and so may rebind."""
        if "global" not in self.source.text:
            return frozenset()
        lines = re.findall(r"(?:^|[:;])[ \t]*global\b([^\n#;]*)", self.source.text, re.MULTILINE)
        return frozenset(name.strip() for line in lines for name in line.split(","))

    def release(self) -> None:
        """Break the cycles between scopes, so that the tree goes at once and no collector need look for it.

        The facts answer nothing afterwards.
        """
        for scope in list(self._scopes.values()):
            scope.parent = None
            for table in (scope.children, scope.bindings, scope.named, scope.calls, scope.returns):
                table.clear()
        self._scopes.clear()
        self._homes.clear()
        self._mentions.clear()
        self.chains.clear()

    def scope(self, node: ast.AST) -> Scope:
        """The scope a function, class, lambda or module node opens."""
        if node not in self._scopes and isinstance(node, ast.Lambda):
            self.walked(self.home(node))
        return self._scopes[node]

    def walked(self, scope: Scope) -> Scope:
        """The scope with its tables filled in."""
        if not scope.walked:
            self._walker.walk(scope)
        return scope

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The syntactic parent of a node of a walked scope; None for the module."""
        entry = self._homes.get(node)
        return entry[0] if entry else None

    def home(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        entry = self._homes.get(node)
        return entry[1] if entry else self.module

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
        best = self.module
        index = bisect_right(self._starts, line)
        width = None
        for start, negative_end, _, scope in reversed(self._spans[:index]):
            if -negative_end >= line and (width is None or -negative_end - start < width):
                return scope
        return best

    def mentions(self, name: str) -> list[ast.AST]:
        """Every Name, Attribute, keyword, import alias, argument and definition with this name, in text order."""
        if name not in self._mentions:
            nodes: list[ast.AST] = []
            done: set[int] = set()
            for scope in self._around(name):
                self._collect(scope, name, nodes, done)
            nodes.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
            self._mentions[name] = nodes
        return self._mentions[name]

    def mentions_in(self, scope: Scope, name: str) -> list[ast.AST]:
        """The mentions on the lines of a scope: a name of its own is mentioned nowhere else."""
        nodes = self.mentions(name)
        if scope.kind == "module":
            return nodes
        first, last = getattr(scope.node, "lineno", 0), getattr(scope.node, "end_lineno", 0)
        return nodes[bisect_left(nodes, first, key=_line) : bisect_right(nodes, last, key=_line)]

    def taken_from(self, word: str) -> list[ast.AST]:
        """What `from` statements with this word in their module's name import."""
        return [alias for scope in self._around(word) for alias in scope.taken.get(word, ())]

    def _around(self, word: str) -> list[Scope]:
        """The scopes, walked, whose lines hold a word, and those around them."""
        lines = {self.source.position(start)[0] for start in _words(self.source.text, word)}
        scopes: dict[int, Scope] = {}
        for innermost in {self.scope_at(line) for line in lines}:
            for scope in innermost.outward():
                scopes[id(scope)] = scope
        return [self.walked(scope) for scope in list(scopes.values())]

    def _collect(self, scope: Scope, name: str, nodes: list[ast.AST], done: set[int]) -> None:
        if id(scope) in done:
            return
        done.add(id(scope))
        nodes.extend(scope.named.get(name, ()))
        for child in scope.children:
            if child.kind in ("lambda", "comprehension"):
                self._collect(child, name, nodes, done)

    def inner_scopes(self, scope: Scope) -> Iterator[Scope]:
        """The scope and all scopes inside it, walked."""
        yield self.walked(scope)
        for child in list(scope.children):
            yield from self.inner_scopes(child)

    def evaluated(self) -> Iterator[ast.AST]:
        """Every node of the scopes looked into so far."""
        yield from list(self._homes)

    def bindings(self, scope: Scope, name: str) -> list[Binding]:
        """Where a scope binds a name, in text order."""
        return self.walked(scope).bindings.get(name, [])

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


def read_facts(source: Source, path: Path) -> FileFacts:
    """Parse a file.

    Raises `NotParsed` for text this Python cannot parse, with the line, and for nesting too deep to read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes are the user's business, not ours
            tree = ast.parse(source.text, filename=str(path))
        return FileFacts(source, tree, path)
    except SyntaxError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        line = error.lineno or 1
        raise NotParsed(
            f"Python {version} cannot parse line {line}: {error.msg}", line, max(1, error.offset or 1)
        ) from None
    except (RecursionError, MemoryError):
        raise NotParsed("the file is nested too deeply to parse") from None
    except ValueError as error:
        raise NotParsed(f"cannot be parsed: {error}") from None

"""The facts of one file: its tree, its scopes, and where a name is mentioned."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from shardlint.source.line_beginnings import Beginnings, OnLine
from shardlint.source.searches import GLOBALS, SAYS, WITHIN, WORD
from shardlint.source.text import Source
from shardlint.source.words import Words
from shardlint.syntax.lines import EVERY, LineSet
from shardlint.syntax.parse import parse_module
from shardlint.syntax.parts import Looked
from shardlint.syntax.scope import Binding, Scope, Tables, first_line
from shardlint.syntax.walk import Walker

Answer = TypeVar("Answer")

# Measured: the bytes of memory that a file takes, and for each character of its text and each node that was reached.
_EACH, _CHARACTER, _NODE = 10_000, 43, 660
# A branch of a longer chain of `elif` is told of so many branches before it, and of the first.
_NEAR_BRANCHES = 20
NOWHERE = "\0"
"""A text that no source holds."""


class FileFacts:
    """One parsed file. Everything beyond the statement tree is collected on demand, a scope at a time."""

    def __init__(self, source: Source, tree: ast.Module, path: Path, tables: Tables) -> None:
        self._source = source
        self.path = path
        """Absolute path: what identifies the file in a program."""
        self.tree = tree
        self.module = tables.module
        self._tables = tables
        self.looked = Looked(path, tables, source)
        """What is told of what somebody looks at: see `syntax.parts`."""
        self._scopes, self._homes = tables.scopes, tables.homes
        self._walker = Walker(tables, ":=" in source.text)
        self._in_order: dict[Scope, tuple[list[ast.stmt], list[int]]] = {}
        """The statements of a scope by where they begin, and where that is."""
        self._reached: set[ast.stmt] = set()
        """The statements that were visited with those around them and those on the line they begin on."""
        self._visited_around: set[ast.AST] = set()
        """The statements that were visited with those around them."""
        self._first_branches: dict[ast.If, ast.If] = {}
        """By each branch of a chain of `elif` its first."""
        self._visited: dict[int, list[Scope]] = {}
        """The scopes around a line in which everything on it was visited."""
        self._beginning: dict[str, list[ast.stmt]] = {}
        self._words = Words(source)
        self._mentions: dict[tuple[str, tuple[str, ...]], tuple[list[ast.AST], list[Scope]]] = {}
        self.chains: dict[ast.AST, tuple[ast.AST, ...]] = {}
        """The statements around each statement that was asked about: see `program.reach`."""
        self.chain_facts: dict[ast.AST, Any] = {}
        """What is known of each of these chains by its last statement."""
        self.reaching: dict[tuple[ast.AST, Scope, str], list[Binding]] = {}
        self.exits: dict[Scope, int | None] = {}
        self.version_tests: dict[ast.expr, bool] = {}
        self.in_a_guard: dict[ast.stmt, bool] = {}
        """Whether statements run on some releases only, by what stands around them: see `program.guards`."""
        self.said_of: dict[tuple[str, Any], tuple[Any, Any]] = {}
        """What the text of the file alone says, as several rules ask, and what was looked at for it: see `kept`."""
        self.nearest: dict[tuple[type[ast.AST], ...], dict[ast.AST, ast.AST | None]] = {}
        """The nearest ancestor of some kinds of the nodes that were asked about: see `facts.enclosing`."""
        self.binders: dict[tuple[Scope, str], frozenset[ast.AST]] = {}

    @property
    def source(self) -> Source:
        """The text. Whoever reads it looks at the whole file."""
        self.looked.note_whole_text()
        return self._source

    def is_of(self, source: Source) -> bool:
        """Return whether these are the facts of a text."""
        return self._source.text == source.text

    @property
    def untracked_source(self) -> Source:
        """The text, for whoever keeps nothing of it, or keeps it with what the whole text is."""
        return self._source

    def inherit_line_beginnings(self, beginnings: Beginnings) -> None:
        """Take over what is known already of how the lines of the text begin."""
        self._line_beginnings = beginnings

    @cached_property
    def _line_beginnings(self) -> Beginnings:
        return Beginnings(self._source.text.encode("utf-8", "surrogatepass"))

    @property
    def rebound_globals(self) -> frozenset[str]:
        """Names that some function of the file declares `global`, and so may rebind."""
        self.looked.note_access(GLOBALS, ",".join(sorted(self._words.rebound_globals)))
        return self._words.rebound_globals

    @cached_property
    def module_imports(self) -> list[Binding]:
        """Return the bindings of import statements in the module's own block, outside every branch."""
        return [
            binding
            for bindings in self._bind_scope(self.module).bindings.values()
            for binding in bindings
            if binding.kind in ("import", "from")
            and self.statement_in_block(binding.node, self.module) is not None
        ]

    @property
    def memory_bytes(self) -> int:
        """About how many bytes of memory the facts take by now."""
        return _EACH + _CHARACTER * len(self._source.text) + _NODE * len(self._homes)

    def break_cycles(self) -> None:
        """Break the cycles between scopes, so that the tree goes at once and no collector need look for it.

        The facts answer nothing afterwards.
        """
        self._tables.break_cycles()
        self._in_order.clear()
        self._reached.clear()
        self._visited_around.clear()
        self._first_branches.clear()
        self._visited.clear()
        self._beginning.clear()
        self._mentions.clear()
        self.nearest.clear()
        self.chains.clear()
        self.chain_facts.clear()
        self.reaching.clear()
        self.binders.clear()
        self.exits.clear()
        self.version_tests.clear()
        self.in_a_guard.clear()
        self.said_of.clear()
        self.looked.break_cycles()

    def remember_for_node(self, what: str, node: ast.AST, make: Callable[[], Answer]) -> Answer:
        """Return a fact about a node that follows from the text of the file alone, computed once."""
        return self.remember_for_file((what, node), make)

    def remember_for_file(self, key: tuple[str, Any], make: Callable[[], Answer]) -> Answer:
        """The same of whatever stands in the file."""
        known = self.said_of.get(key)
        if known is None:
            known = self.said_of[key] = self.looked.record_accesses(make)
        else:
            self.looked.replay_accesses(known[1])
        return cast(Answer, known[0])

    def contains_text(self, text: str) -> bool:
        """Return whether a text occurs anywhere in the file; searched once."""
        said = self._words.contains_text(text)
        self.looked.note_access(SAYS, text, "1" if said else "")
        return said

    def scope(self, node: ast.AST) -> Scope:
        """The scope a function, class, lambda or module node opens."""
        if node not in self._scopes and isinstance(node, ast.Lambda):
            self.evaluation_scope(node)
        return self._look_at_scope(self._scopes[node])

    def _look_at_scope(self, scope: Scope) -> Scope:
        self.looked.note_scope(scope)
        if scope is self.module:
            self.looked.note_all_names()
        return scope

    def bind_scope(self, scope: Scope) -> Scope:
        """The scope with its bindings."""
        return self._bind_scope(self._look_at_scope(scope))

    def _bind_scope(self, scope: Scope) -> Scope:
        if not scope.bound:
            self._walker.collect_bindings(scope)
        return scope

    def walk_scope(self, scope: Scope) -> Scope:
        """The scope with all its tables filled in."""
        return self._walk_scope(self._look_at_scope(scope))

    def _walk_scope(self, scope: Scope) -> Scope:
        if not scope.walked:
            self._walker.collect_scope(scope)
        return scope

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The syntactic parent of a node; None for the module."""
        entry = self._homes.get(node) or self._find_home(node)
        return entry[0] if entry else None

    def evaluation_scope(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        entry = self._homes.get(node) or self._find_home(node)
        return entry[1] if entry else self.module

    def _find_home(self, node: ast.AST) -> tuple[ast.AST, Scope] | None:
        """Parent and scope of a node that was not met yet: visit what stands on its line."""
        line = getattr(node, "lineno", None)
        if line is None or node is self.tree:
            return None
        scopes = list(self.scope_at(line).enclosing_scopes())
        for collect in (self._visit_at, lambda scope, _: self._walk_scope(scope)):
            for scope in scopes:
                collect(scope, line)
                if node in self._homes:
                    return self._homes[node]
        return None

    def _visit_at(self, scope: Scope, line: int) -> None:
        """Visit the statements of a scope that are on a line, and those around them."""
        if scope.walked:
            return
        self._walker.collect_bindings(scope)
        statements, starts = self._sorted_statements(scope)
        index = bisect_right(starts, line) - 1
        if index < 0 or statements[index] in self._reached:
            return
        self._reached.add(statements[index])
        around: ast.AST = statements[index]
        while around is not scope.node and around not in self._visited_around:
            self._visited_around.add(around)
            if isinstance(around, ast.stmt):
                self._walker.visit_statement(around, scope)
            around = self._homes[around][0]
        first = starts[index]
        while index >= 0 and (statements[index].end_lineno or 0) >= first:  # a; b
            self._walker.visit_statement(statements[index], scope)
            index -= 1

    def _sorted_statements(self, scope: Scope) -> tuple[list[ast.stmt], list[int]]:
        """The statements of a scope in text order, and the first line of each."""
        if scope not in self._in_order:
            statements = sorted(scope.statements, key=_first_line)
            self._in_order[scope] = statements, list(map(_first_line, statements))
        return self._in_order[scope]

    def _statements_at(self, scope: Scope, line: int) -> list[ast.stmt]:
        """The statements of a scope that begin on a line, decorators aside."""
        statements, starts = self._sorted_statements(scope)
        found = statements[bisect_left(starts, line) : bisect_right(starts, line)]
        return [node for node in found if node.lineno == line]

    def _statement_at(self, scope: Scope, line: int) -> ast.stmt | None:
        """The innermost statement of a scope that holds a line."""
        statements, starts = self._sorted_statements(scope)
        index = bisect_right(starts, line) - 1
        around: ast.AST | None = statements[index] if index >= 0 else None
        while isinstance(around, ast.stmt) and around is not scope.node:
            if (around.end_lineno or 0) >= line:
                return around
            around = self._homes[around][0]
        return None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Syntactic ancestors, innermost first, up to the module.

        A chain of `elif` is as deep as it is long: after the nearest branches of a long one comes its first.
        """
        inner, outer, branches = node, self.parent(node), 0
        while outer is not None:
            yield outer
            inner, outer = outer, self.parent(outer)
            branches = branches + 1 if _is_branch(outer, inner) else 0
            if branches > _NEAR_BRANCHES and isinstance(outer, ast.If):
                outer, branches = self._first_branch(outer), 0

    def _first_branch(self, branch: ast.If) -> ast.If:
        """The `if` that a chain of `elif` begins with."""
        passed: list[ast.If] = []
        while branch not in self._first_branches:
            passed.append(branch)
            outer = self.parent(branch)
            if not isinstance(outer, ast.If) or not _is_branch(outer, branch):
                self._first_branches[branch] = branch
                break
            branch = outer
        first = self._first_branches[branch]
        self._first_branches.update(dict.fromkeys(passed, first))
        return first

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement a node belongs to (itself, for a statement)."""
        while not isinstance(node, ast.stmt):
            parent = self.parent(node)
            if parent is None:
                raise LookupError(f"{self.path}: a node outside every statement")
            node = parent
        return node

    def statements_before(self, outer: ast.AST, inner: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
        """The block of a node that another one is a statement of, by its field, and the statements before that.

        Of a module this is no look at which statements it has in all.
        """
        for field in ("body", "orelse", "finalbody"):
            is_module = outer is self.tree and field == "body"
            block: Any = self.module.body_statements if is_module else getattr(outer, field, None)
            if isinstance(block, list) and inner in block:
                yield field, block[: block.index(inner)]

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

    def find_mentions(self, name: str, beside: tuple[str, ...] = ()) -> list[ast.AST]:
        """Every Name, Attribute, keyword, import alias, argument and definition with this name, in text order.

        `beside` are texts of which one must stand in the same function: a function without any is not
        looked into.
        """
        nodes, scopes = self._mentions_of_name(name, beside)
        self.looked.note_access(WORD, name)
        self.looked.note_scopes(scopes)
        return nodes

    def mentions_on(self, lines: LineSet, name: str, beside: tuple[str, ...] = ()) -> list[ast.AST]:
        """Those on some lines, and maybe others: for whoever knows the rest."""
        return self._collect_mentions(name, beside, lines)[0]

    def _mentions_of_name(self, name: str, beside: tuple[str, ...] = ()) -> tuple[list[ast.AST], list[Scope]]:
        """The mentions, and the scopes that hold some."""
        key = (name, beside)
        if key not in self._mentions:
            nodes, done = self._collect_mentions(name, beside, EVERY)
            nodes.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
            self._mentions[key] = nodes, [scope for scope in done if scope.named.get(name)]
        return self._mentions[key]

    def _collect_mentions(
        self, name: str, beside: tuple[str, ...], lines: LineSet
    ) -> tuple[list[ast.AST], list[Scope]]:
        nodes: list[ast.AST] = []
        done: dict[int, Scope] = {}
        for scope in self._scopes_around_word(name, beside, lines):
            self._collect_in_scope(scope, name, nodes, done)
        return nodes, list(done.values())

    def mentions_in(self, scope: Scope, name: str) -> list[ast.AST]:
        """The mentions on the lines of a scope: a name of its own is mentioned nowhere else."""
        if scope.kind == "module":
            return self.find_mentions(name)
        nodes = self._mentions_of_name(name)[0]
        first, last = getattr(scope.node, "lineno", 0), getattr(scope.node, "end_lineno", 0)
        found = nodes[
            bisect_left(nodes, first, key=_line_of_node) : bisect_right(nodes, last, key=_line_of_node)
        ]
        if self.looked.part_of_scope(scope) is None:  # a class
            self.looked.note_access(WORD, name)
            self.looked.note_scopes(self._homes[node][1] for node in found)
        else:
            self.looked.note_scope(scope)
        return found

    def names_imported_from(self, word: str, among: LineSet = EVERY) -> list[ast.AST]:
        """Return the names imported by `from` statements with this word in their module's name, on some lines and
        maybe others.
        """
        lines = [
            line
            for line in self._words.lines_with_word(word)
            if among.contains_line(line) and "from" in self._source.line_text(line)
        ]
        scopes = {scope for line in lines for scope in self._evaluating_scope(line, word)[0].enclosing_scopes()}
        self.looked.note_access(WORD, word)
        self.looked.note_scopes(scopes)
        return [alias for scope in scopes for alias in self._bind_scope(scope).taken.get(word, ())]

    def _scopes_around_word(self, word: str, beside: tuple[str, ...], lines: LineSet) -> list[Scope]:
        """The scopes of whose lines some hold a word, and those around them; those lines visited."""
        scopes: dict[int, Scope] = {}
        for line in self._words.lines_with_word(word):
            if not lines.contains_line(line):
                continue
            around = self._visited.get(line)
            if around is None:
                scope, is_innermost = self._evaluating_scope(line, word, beside)
                around = list(scope.enclosing_scopes())
                for scope in around:
                    self._visit_at(scope, line)
                if is_innermost:
                    self._visited[line] = around
            for scope in around:
                scopes[id(scope)] = scope
        return list(scopes.values())

    def _evaluating_scope(self, line: int, word: str, beside: tuple[str, ...] = ()) -> tuple[Scope, bool]:
        """The innermost scope that evaluates a word on a line: for a header, not the function it opens.

        Nor a function in which nothing of `beside` stands. With it, whether it is the innermost of the line.
        """
        scope, inner = self.module, self._defined_at(self.module, line)
        while inner is not None:
            first, last = inner.body_statements[0].lineno, getattr(inner.node, "end_lineno", 0)
            if line < first and line < _first_line(inner.body_statements[0]) and not _is_parameter(inner.node, word):
                return scope, False
            if beside and inner.kind == "function" and not self._words.says_between(first, last, beside):
                return scope, False
            scope, inner = inner, self._defined_at(inner, line)
        return scope, True

    def is_near_text(self, node: ast.AST, texts: tuple[str, ...]) -> bool:
        """Return whether one of the texts occurs in the function around a node. It is True without texts and without a
        function.
        """
        if not texts:
            return True
        scope: Scope | None = self.evaluation_scope(node)
        while scope is not None and scope.kind != "function":
            scope = scope.parent
        if scope is None:
            return True
        return self._words.says_between(scope.body_statements[0].lineno, getattr(scope.node, "end_lineno", 0), texts)

    def _collect_in_scope(
        self, scope: Scope, name: str, nodes: list[ast.AST], done: dict[int, Scope]
    ) -> None:
        if id(scope) in done:
            return
        done[id(scope)] = scope
        nodes.extend(scope.named.get(name, ()))
        for child in scope.within:
            self._collect_in_scope(child, name, nodes, done)

    def inner_scopes(self, scope: Scope) -> Iterator[Scope]:
        """The scope and all scopes inside it, walked."""
        yield self.walk_scope(scope)
        for child in scope.inner_scopes:
            yield from self.inner_scopes(child)

    @property
    def with_statements(self) -> list[ast.With | ast.AsyncWith]:
        """The `with` statements, in text order."""
        return self.remember_for_file(("withs", None), lambda: self.withs_saying(""))

    def withs_saying(self, word: str, among: LineSet = EVERY) -> list[ast.With | ast.AsyncWith]:
        """The `with` statements in whose header a word stands, in capitals or not, or that enter what a name is.

        In text order; those that begin on some lines.
        """
        found: dict[ast.With | ast.AsyncWith, None] = {}
        self.looked.note_access(WORD, "with")
        for line in filter(among.contains_line, self._words.with_lines(word)):
            for node in self.scope_at(line).statements:
                if isinstance(node, ast.With | ast.AsyncWith) and node.lineno == line:
                    self.looked.note_scope(self._homes[node][1])
                    found[node] = None
        return list(found)

    def statements_calling(self, part: str, among: LineSet = EVERY) -> list[ast.Call]:
        """The calls that are statements by themselves, of something whose name holds this, in capitals or not.

        Those on some lines.
        """
        found: dict[ast.Call, None] = {}
        self.looked.note_access(WITHIN, part.lower())
        for line, name in self._words.call_lines:
            if part.lower() not in name or not among.contains_line(line):
                continue
            for node in self.scope_at(line).statements:
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.lineno == line:
                    self.looked.note_scope(self._homes[node][1])
                    found[node.value] = None
        return list(found)

    def statements_beginning(
        self, pattern: str, saying: tuple[str, ...] = (), on: OnLine = "first", among: LineSet = EVERY
    ) -> list[ast.stmt]:
        """The statements on whose first line, which holds one of the texts, a pattern matches from its beginning.

        On `any` line: the innermost ones that hold such a line. On the line of a `definition`: functions and classes.
        Those lines that are `among` some.
        """
        self.looked.note_whole_text()
        if among is not EVERY:
            return self._statements_beginning(pattern, saying, on, among)
        if pattern not in self._beginning:
            self._beginning[pattern] = self._statements_beginning(pattern, saying, on, among)
        return self._beginning[pattern]

    def _statements_beginning(
        self, pattern: str, saying: tuple[str, ...], on: OnLine, among: LineSet
    ) -> list[ast.stmt]:
        found: dict[ast.stmt, None] = {}
        lines = self._line_beginnings.match_lines(pattern.encode(), tuple(text.encode() for text in saying))
        for line in filter(among.contains_line, lines):
            scope = self.scope_at(line)
            if on == "first":
                found.update(dict.fromkeys(self._statements_at(scope, line)))
            elif on == "any" and (around := self._statement_at(scope, line)) is not None:
                found[around] = None
            elif on == "definition" and isinstance(scope.node, ast.stmt) and scope.node.lineno == line:
                found[scope.node] = None
        return list(found)

    def visited_nodes(self) -> Iterator[ast.AST]:
        """Every node of the scopes looked into so far."""
        yield from list(self._homes)

    def bindings(self, scope: Scope, name: str) -> list[Binding]:
        """Where a scope binds a name, in text order."""
        self.looked.note_scope(scope)
        found = self._bind_scope(scope).bindings.get(name, [])
        if not found and scope is self.module:
            self.looked.note_access(WORD, name)
        return found

    def source_text(self, node: ast.AST) -> str:
        """The source text of a node."""
        start, end = self.character_span(node)
        return self._source.text[start:end]

    def character_span(self, node: ast.AST) -> tuple[int, int]:
        """Character offsets of a node: start and end."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
        return self._source.offset_of(line, column), self._source.offset_of(end_line, end_column)


def _is_branch(outer: ast.AST | None, inner: ast.AST) -> bool:
    """Return whether a statement is the `elif` of another."""
    return isinstance(outer, ast.If) and isinstance(inner, ast.If) and outer.orelse == [inner]


def _line_of_node(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _first_line(node: ast.stmt) -> int:
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
    tree = parse_module(source.text)
    return FileFacts(source, tree, path, Tables(tree))

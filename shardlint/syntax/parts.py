"""The parts of a file that change by themselves: the bodies of its outermost functions, and the rest, its outline.

Whoever looks into a file notes what of it was looked at: a body, all mentions of a word, whether a text stands in it.
So an edit in one body costs only what looked there, or looked for something that now stands there. The same holds for a
function that is added: its header is a part too, where nothing else of the file can depend on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from shardlint.source.searches import PART
from shardlint.source.text import NOTEBOOKS, Source
from shardlint.syntax.lines import LineSet
from shardlint.syntax.nodes import walk_nodes
from shardlint.syntax.parse import NotParsed, parse_module
from shardlint.syntax.scope import Scope, Tables

Answer = TypeVar("Answer")
_Need = Path | tuple[str, ...]

OUTLINE = ""
"""The name of the part that is not the body of a function, nor a header that is a part."""
EVERY = "*"
"""Stands for which statements and names the file has in all: another one where any header or the outline is."""
_HEADER = "()"
_EVALUATED = (ast.Call, ast.Lambda, ast.NamedExpr, ast.comprehension, ast.Await, ast.Yield, ast.YieldFrom)


class Part(NamedTuple):
    """The body of an outermost function: its name with the classes around it, its first line and its last.

    `header` is the first line of its header, where that is a part too; else 0.
    """

    name: str
    first: int
    last: int
    header: int = 0


def header_of(name: str) -> str:
    """The name of the part that is a function's header."""
    return f"{name}{_HEADER}"


def function_of_header(part: str) -> str | None:
    """The function of which a part is the header; None for any other part."""
    return part.removesuffix(_HEADER) if part.endswith(_HEADER) else None


def part_pieces(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts but the outline with those that are headers, in text order."""
    for part in parts:
        if part.header:
            yield Part(header_of(part.name), part.header, part.first - 1, part.header)
        yield part


class _Module(ast.Module):
    """A module, which tells that somebody looks at its statements."""

    _looked: Callable[[], None]

    @property
    def body(self) -> list[ast.stmt]:
        self._looked()
        found: list[ast.stmt] = self.__dict__["body"]
        return found

    @body.setter
    def body(self, value: list[ast.stmt]) -> None:
        self.__dict__["body"] = value


class _Function(ast.FunctionDef):
    """An outermost function, which tells that somebody looks at its body."""

    _looked: Callable[[], None]

    @property
    def body(self) -> list[ast.stmt]:
        self._looked()
        found: list[ast.stmt] = self.__dict__["body"]
        return found

    @body.setter
    def body(self, value: list[ast.stmt]) -> None:
        self.__dict__["body"] = value


class _AsyncFunction(ast.AsyncFunctionDef):
    _looked: Callable[[], None]
    body = _Function.body


_Function.__name__, _AsyncFunction.__name__, _Module.__name__ = "FunctionDef", "AsyncFunctionDef", "Module"
TELLING: dict[type[ast.stmt], type[ast.stmt]] = {
    ast.FunctionDef: _Function,
    ast.AsyncFunctionDef: _AsyncFunction,
}
"""The classes of nodes that tell of it, for those they stand for."""


class Looked:
    """Access log of one file. Nothing is noted, and the file is not cut into parts, until a listener is added."""

    def __init__(self, path: Path, tables: Tables, source: Source) -> None:
        self.path = path
        self._path = str(path)
        self._tables, self._source = tables, source
        self._cut: dict[Scope, Part] = {}
        self._of: dict[Scope, _Need | None] = {}
        self._record: set[_Need] | None = None
        self._tell: Callable[[_Need], None] | None = None

    def report_to(self, told: Callable[[_Need], None]) -> None:
        """From here on somebody is told of whatever is looked at."""
        if self._tell is None:
            self._cut.update(_cut_into_parts(self._tables, self._source, self.path))
            for scope in self._cut:
                self._watch_scope(scope)
            module = self._tables.module.node
            module.__class__ = _Module
            module._looked = self.note_all_names  # type: ignore[attr-defined]
        self._tell = told

    def _watch_scope(self, scope: Scope) -> None:
        node = scope.node
        node.__class__ = TELLING[type(node)]  # type: ignore[index]
        node._looked = lambda: self.note_scope(scope)  # type: ignore[attr-defined]

    def break_cycles(self) -> None:
        """Break the cycles with the tree."""
        for scope in self._cut:
            scope.node._looked = _ignore_access  # type: ignore[attr-defined]
        if self._tell is not None:
            self._tables.module.node._looked = _ignore_access  # type: ignore[attr-defined]
        self._cut.clear()
        self._of.clear()

    @property
    def parts_in_order(self) -> tuple[Part, ...]:
        """The parts but the outline, in text order."""
        return tuple(self._cut.values())

    def note_access(self, kind: str, *said: str) -> None:
        """Something of the file was looked at."""
        if self._tell is not None:
            self._note_need((kind, self._path, *said))

    def note_all_names(self) -> None:
        """Somebody looks at which statements and names the file has."""
        self.note_access(PART, EVERY)

    def note_whole_text(self) -> None:
        """Its text was looked at, no matter what stands where."""
        self._note_need(self.path)

    def _note_need(self, need: _Need) -> None:
        if self._tell is not None:
            self._tell(need)
            if self._record is not None:
                self._record.add(need)

    def note_scope(self, scope: Scope) -> None:
        """Somebody looks at what a scope holds."""
        if self._tell is None:
            return
        need = self._of[scope] if scope in self._of else self._need_of_scope(scope)
        if need is not None:
            self._note_need(need)

    def note_scopes(self, scopes: Iterable[Scope]) -> None:
        """The same of several."""
        if self._tell is not None:
            for scope in {id(one): one for one in scopes}.values():
                self.note_scope(scope)

    def _need_of_scope(self, scope: Scope) -> _Need | None:
        part = self.part_of_scope(scope)
        need = self._of[scope] = None if part is None else (PART, self._path, part.name)
        return need

    def part_of_scope(self, scope: Scope) -> Part | None:
        """The part that a scope is in; None for the outline."""
        return next((self._cut[one] for one in scope.enclosing_scopes() if one in self._cut), None)

    def record_accesses(self, make: Callable[[], Answer]) -> tuple[Answer, tuple[_Need, ...]]:
        """An answer, and what was looked at for it: for whoever keeps the answer."""
        if self._tell is None:
            return make(), ()
        before, self._record = self._record, set()
        try:
            answer = make()
        finally:
            noted, self._record = self._record, before
            if before is not None:
                before |= noted
        return answer, tuple(noted)

    def replay_accesses(self, noted: Iterable[_Need]) -> None:
        """An answer that was kept is used."""
        for need in noted:
            self._note_need(need)


def _ignore_access() -> None:
    """Nobody is to be told."""


def _cut_into_parts(tables: Tables, source: Source, path: Path) -> Iterator[tuple[Scope, Part]]:
    """The outermost functions and their bodies; none where lines cannot be told simply: all is outline then."""
    text = source.text
    if path.suffix in NOTEBOOKS or source.in_cells or "\r" in text or "\f" in text or "coding" in text[:200]:
        return
    met: dict[str, int] = {}
    for scope, name in _outermost_functions(tables.module, ""):
        body = scope.body_statements
        first = min([body[0].lineno, *(one.lineno for one in getattr(body[0], "decorator_list", ()))])
        number = met[name] = met.get(name, 0) + 1
        if not source.line_text(first)[: body[0].col_offset].strip() and first > getattr(scope.node, "lineno", 0):
            last = getattr(scope.node, "end_lineno", first)
            header = scope.node.lineno if number == 1 and _stands_alone(scope) else 0  # type: ignore[attr-defined]
            yield scope, Part(name if number == 1 else f"{name}#{number}", first, last, header)


def _stands_alone(scope: Scope) -> bool:
    """Return whether a definition does nothing but bind its name in the module."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.col_offset or node.decorator_list:
        return False
    evaluated = [node.args, *([node.returns] if node.returns is not None else []), *getattr(node, "type_params", ())]
    return not any(isinstance(one, _EVALUATED) for top in evaluated for one in walk_nodes(top))


def _outermost_functions(scope: Scope, before: str) -> Iterator[tuple[Scope, str]]:
    for inner in scope.definitions:
        name = before + inner.name
        if inner.kind == "class":
            yield from _outermost_functions(inner, f"{name}.")
        else:
            yield inner, name


def parts_of(source: Source, path: Path) -> tuple[Part, ...] | None:
    """The parts of a text; None where it cannot be parsed."""
    try:
        return tuple(part for _, part in _cut_into_parts(Tables(parse_module(source.text)), source, path))
    except (NotParsed, RecursionError):
        return None


def lines_of(names: Container[str], parts: Sequence[Part], count: int) -> LineSet:
    """The lines of some parts of a file, by their names. `count` is how many lines the file has."""
    found: list[tuple[int, int]] = []
    at = 1
    for part in (*part_pieces(parts), Part(OUTLINE, count + 1, count + 1)):
        if OUTLINE in names and at < part.first:
            found.append((at, part.first - 1))
        if part.name != OUTLINE and part.name in names:
            found.append((part.first, part.last))
        at = part.last + 1
    return LineSet(found)


def texts_of_parts(text: str, parts: Iterable[Part]) -> dict[str, str]:
    """Return the text of each part, by its name."""
    lines = iter(text.split("\n"))
    outline: list[str] = []
    found: dict[str, str] = {}
    at = 1
    for part in part_pieces(parts):
        outline += islice(lines, part.first - at)
        found[part.name] = "\n".join(islice(lines, part.last - part.first + 1))
        if not part.header:
            outline.append("\0")
        elif function_of_header(part.name) is not None:  # where it stands among the other statements belongs to it
            found[part.name] += f"\n{sum(map(_is_code, outline))}  # {len(outline)}"
        at = part.last + 1
    outline += lines
    found[OUTLINE] = "\n".join(outline)
    return found


def _is_code(line: str) -> bool:
    line = line.strip()
    return bool(line) and not line.startswith("#")

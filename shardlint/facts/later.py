"""A file's tree whose functions and classes are parsed when somebody looks into them.

Parsing is most of what checking costs, and most functions of most files are never looked into. The text is cut where
bodies begin and end, by indentation; what is left is parsed with a placeholder of the same extent for each body, so
that every position in the tree is that of the file. A body is parsed at its own lines when `body` is first read; one
of a class is cut in its turn.

The cut is a guess that Python checks: where it is wrong (a string or bracket that spans it) a part does not parse.
Then, as for a file that is broken, the whole is parsed. An example of code in a string is cut like code, and found out
as the tree has no such function; then it is left in place.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from shardlint.clock import timed

# A shorter body is parsed sooner than it is cut out.
_LEAST = 160
HEADER_END = re.compile(r":[ \t]*(?:#[^\n]*)?\n")
_HEADER_TRIES = 6
_DEFINITION = re.compile(r"\n[ \t]*(?:def|class|async|@)")
_CLASS = re.compile(r"class[ \t]+\w+[ \t]*[(:\[]")
_QUOTES = ('"""', "'''")
# How often examples in strings are taken for code before a text is left whole.
_TRIES = 3
# Up to here empty lines before a block cost less than counting its lines anew.
_FAR = 4_000

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class CutWrong(Exception):
    """A body that cannot be parsed by itself: the file is broken there, or was cut in the wrong place."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: a function's body cannot be parsed by itself")
        self.path = path


Cuts = dict[int, "Cut"]
"""Bodies that are not parsed yet, by the last line of each."""


@dataclass(slots=True)
class Cut:
    """A body that is not parsed yet: its extent in the text, and the line it begins on."""

    path: Path
    text: str
    begin: int
    end: int
    line: int
    of_class: bool

    def parse(self) -> tuple[list[ast.stmt], Cuts]:
        """The statements, at the file's own lines and columns, and what is not parsed of them. Raises `CutWrong`."""
        if self.of_class:
            found = _parsed(self.text, self.path, self.begin, self.end, self.line)
            if found is not None:
                return self._block(found[0]), found[1]
        try:
            tree = _at(self.text[self.begin : self.end], self.path, self.line)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise CutWrong(self.path) from None
        return self._block(tree), {}

    def _block(self, tree: ast.Module) -> list[ast.stmt]:
        block = tree.body[0]
        if len(tree.body) != 1 or not isinstance(block, ast.If) or block.orelse:
            raise CutWrong(self.path)
        return block.body


class _Later:
    """A definition without its body."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        if name == "body":
            return _look_into(self)
        raise AttributeError(name)


# Named like what they stand for: `ast.NodeVisitor` asks for the name of a node's class.
class FunctionDef(ast.FunctionDef, _Later):
    """A function whose body is not parsed yet."""

    __slots__ = ()


class AsyncFunctionDef(ast.AsyncFunctionDef, _Later):
    """A coroutine whose body is not parsed yet."""

    __slots__ = ()


class ClassDef(ast.ClassDef, _Later):
    """A class whose body is not parsed yet."""

    __slots__ = ()


_LATER: dict[type[ast.AST], type[ast.AST]] = {
    ast.FunctionDef: FunctionDef,
    ast.AsyncFunctionDef: AsyncFunctionDef,
    ast.ClassDef: ClassDef,
}
_WHOLE = {later: whole for whole, later in _LATER.items()}


def leave_out(node: Definition, cut: Cut, entered: Callable[[ast.AST, Cuts], None]) -> None:
    """Take the placeholder from a definition: the body comes when it is asked for, and `entered` is told."""
    del node.body
    node.__dict__["_cut"] = cut, entered
    node.__class__ = _LATER[type(node)]  # type: ignore[assignment]


def left_out(node: ast.AST) -> Cut | None:
    """What is not parsed yet of a definition."""
    kept = node.__dict__.get("_cut")
    return kept[0] if kept else None


def _look_into(node: _Later) -> object:
    cut, entered = node.__dict__["_cut"]
    body, inside = cut.parse()
    del node.__dict__["_cut"]
    node.__class__ = _WHOLE[type(node)]  # type: ignore[index, assignment]
    node.body = body  # type: ignore[attr-defined]
    entered(node, inside)
    return body


def parse(text: str, path: Path) -> ast.Module:
    """What Python makes of a text, without its warnings: an invalid escape is the user's business, not ours."""
    with timed("parsing"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, filename=str(path))


def parsed(text: str, path: Path) -> tuple[ast.Module, Cuts] | None:
    """The tree of a file, and the bodies that are not parsed of it; None where it cannot be cut."""
    if "\r" in text or "\f" in text:  # other lines and other indentation than counted here
        return None
    return _parsed(text, path, 0, len(text), 1)


def _at(text: str, path: Path, line: int) -> ast.Module:
    """The tree of what begins on a line: of a whole text, or of a block below an `if` that is put before it."""
    if line == 1:
        return parse(text, path)
    if line < _FAR:
        return parse(f"{chr(10) * (line - 2)}if 1:\n{text}", path)
    tree = parse(f"if 1:\n{text}", path)
    ast.increment_lineno(tree, line - 2)
    return tree


def _parsed(text: str, path: Path, begin: int, end: int, line: int) -> tuple[ast.Module, Cuts] | None:
    """The tree of a part of a text, which begins on a line."""
    examples: set[int] = set()
    for _ in range(_TRIES):
        cut, left = cuts(text, path, begin, end, line, examples)
        if not left:
            return None
        try:
            tree = _at(cut, path, line)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        strange = left.keys() - {number for node in definitions(tree) if (number := placeholder(node))}
        if not strange:
            return tree, left
        examples |= strange
    return None


def definitions(node: ast.AST) -> Iterator[Definition]:
    """The functions and classes among the statements of a tree, in branches and in each other."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, name, ()):
            if isinstance(statement, Definition):
                yield statement
            yield from definitions(statement)


def placeholder(node: Definition) -> int:
    """The line of the placeholder that a definition has for its body; 0 where it has a body."""
    only = node.body[0]
    found = len(node.body) == 1 and isinstance(only, ast.Expr) and isinstance(only.value, ast.Name)
    return only.lineno if found else 0


def cuts(
    text: str, path: Path, start: int, stop: int, line: int, but: Collection[int] = ()
) -> tuple[str, Cuts]:
    """A part of a text, which begins on a line, with a placeholder for every longer body, and those bodies.

    Those that end on a line of `but` are left in place.
    """
    found: Cuts = {}
    pieces: list[str] = []
    ascii_only = text.isascii()
    kept = counted = position = start
    function = class_ = start - 1
    while True:
        function = function if function >= position else _find(text, "def ", position, stop)
        class_ = class_ if class_ >= position else _find(text, "class ", position, stop)
        header, of_class = min(function, class_), class_ < function
        if header == stop:
            break
        position = header + 4
        indent = _indentation(text, header, of_class)
        begin = _header_end(text, header) if indent is not None else None
        if indent is None or begin is None:
            continue
        position = begin
        extent = _body_end(text, begin, len(indent))
        if extent is None or extent[1] - begin < _LEAST or extent[1] > stop:
            continue
        last, end = extent
        width = end - last if ascii_only else len(text[last:end].encode())
        if width <= len(indent) + 1:
            continue
        line += text.count("\n", counted, begin)
        inside = text.count("\n", begin, last)
        counted = begin
        if line + inside in but:
            continue
        found[line + inside] = Cut(path, text, begin, end, line, of_class)
        pieces += (text[kept:begin], "\n" * inside, indent, " ", "_" * (width - len(indent) - 1))
        kept = position = end
    pieces.append(text[kept:stop])
    return "".join(pieces), found


def _find(text: str, word: str, start: int, stop: int) -> int:
    found = text.find(word, start, stop)
    return found if found >= 0 else stop


def _indentation(text: str, header: int, of_class: bool) -> str | None:
    """The blanks before a definition; None where it is none."""
    left = text[text.rfind("\n", 0, header) + 1 : header]
    indent = left if of_class else left.removesuffix("async ")
    return None if indent.strip(" \t") or (of_class and not _CLASS.match(text, header)) else indent


def _header_end(text: str, start: int) -> int | None:
    """Where the lines after a definition's header begin; None for what is no header, or has its body beside it."""
    at = start
    for _ in range(_HEADER_TRIES):
        match = HEADER_END.search(text, at)
        if match is None:
            return None
        at = match.end()
        header = text[start:at]
        if _balanced(header):
            first, newline, _ = header.partition("\n")
            return None if newline and len(first) + 1 < len(header) and _balanced(first) else at
    return None


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count("[") == text.count("]")


def _body_end(text: str, begin: int, indent: int) -> tuple[int, int] | None:
    """Where the last line of a body begins, and where its code ends; None where only a parser can tell."""
    dedent = _dedent(indent)
    match = dedent.search(text, begin - 1)
    margin = end = match.start() + 1 if match is not None else len(text)
    while odd := [quote for quote in _QUOTES if text.count(quote, begin, end) % 2]:
        # A string goes on at the margin, unless the quotes stood in a comment.
        close = text.find(odd[0], end)
        if close < 0:
            return None
        match = dedent.search(text, close + 3)
        end = match.start() + 1 if match is not None else len(text)
    if end > margin and _DEFINITION.search(text, margin - 1, end):
        return None
    while True:
        code = text[begin:end].rstrip()
        end = begin + len(code)
        last = begin + code.rfind("\n") + 1
        if "#" not in text[last:end]:
            break
        if not text[last:end].lstrip().startswith("#"):
            return None  # a comment behind code, or a string with a # in it
        end = last
        if end <= begin or any(text.count(quote, begin, end) % 2 for quote in _QUOTES):
            return None
    return None if end <= begin or text[end - 1] in ";\\" else (last, end)


@lru_cache(maxsize=64)
def _dedent(indent: int) -> re.Pattern[str]:
    """A line that is not part of a block indented deeper than this: comments at the margin are."""
    return re.compile(rf"\n[ \t]{{0,{indent}}}+[^ \t\n#]")

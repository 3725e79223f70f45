"""A file's tree whose function bodies are parsed when somebody looks into them.

Parsing is most of what checking costs, and most functions of most files are never looked into. The text is cut where
bodies begin and end, by indentation; what is left is parsed with a placeholder of the same extent for each body, so
that every position in the tree is that of the file. A body is parsed at its own lines when `body` is first read.

The cut is a guess that Python checks: where it is wrong (a string or bracket that spans it) a part does not parse.
Then, as for a file that is broken, the whole is parsed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from shardlint.clock import timed

# A shorter body is parsed sooner than it is cut out.
_LEAST = 160
HEADER_END = re.compile(r":[ \t]*(?:#[^\n]*)?\n")
_HEADER_TRIES = 6
_DEFINITION = re.compile(r"\n[ \t]*(?:def|class|async|@)")
_QUOTES = ('"""', "'''")


class CutWrong(Exception):
    """A body that cannot be parsed by itself: the file is broken there, or was cut in the wrong place."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: a function's body cannot be parsed by itself")
        self.path = path


@dataclass(slots=True)
class Cut:
    """A function body that is not parsed yet: its extent in the text, and the line it begins on."""

    path: Path
    text: str
    begin: int
    end: int
    line: int

    def parse(self) -> list[ast.stmt]:
        """The statements, at the file's own lines and columns. Raises `CutWrong`."""
        lines = "\n" * (self.line - 2)
        try:
            (block,) = parse(f"{lines}if 1:\n{self.text[self.begin : self.end]}", self.path).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise CutWrong(self.path) from None
        if not isinstance(block, ast.If) or block.orelse:
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


def leave_out(
    node: ast.FunctionDef | ast.AsyncFunctionDef, cut: Cut, entered: Callable[[ast.AST], None]
) -> None:
    """Take the placeholder from a definition: the body comes when it is asked for, and `entered` is told."""
    del node.body
    node.__dict__["_cut"] = cut, entered
    node.__class__ = FunctionDef if isinstance(node, ast.FunctionDef) else AsyncFunctionDef


def left_out(node: ast.AST) -> Cut | None:
    """What is not parsed yet of a definition."""
    kept = node.__dict__.get("_cut")
    return kept[0] if kept else None


def _look_into(node: _Later) -> object:
    cut, entered = node.__dict__["_cut"]
    body = cut.parse()
    del node.__dict__["_cut"]
    whole = ast.FunctionDef if isinstance(node, ast.FunctionDef) else ast.AsyncFunctionDef
    node.__class__ = whole  # type: ignore[assignment]
    node.body = body  # type: ignore[attr-defined]
    entered(node)
    return body


def parse(text: str, path: Path) -> ast.Module:
    """What Python makes of a text, without its warnings: an invalid escape is the user's business, not ours."""
    with timed("parsing"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, filename=str(path))


def cuts(text: str, path: Path, but: Collection[int] = ()) -> tuple[str, dict[int, Cut]]:
    """The text with a placeholder for every longer function body, and the bodies by the last line of each.

    Those that end on a line of `but` are left in place.
    """
    found: dict[int, Cut] = {}
    if "\r" in text or "\f" in text:  # other lines and other indentation than counted here
        return text, found
    pieces: list[str] = []
    ascii_only = text.isascii()
    kept = counted = position = 0
    line = 1
    while (start := text.find("def ", position)) >= 0:
        left = text.rfind("\n", 0, start) + 1
        indent = text[left:start].removesuffix("async ")
        position = start + 4
        if indent.strip(" \t"):
            continue
        begin = _header_end(text, start)
        if begin is None:
            continue
        position = begin
        extent = _body_end(text, begin, len(indent))
        if extent is None or extent[1] - begin < _LEAST:
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
        found[line + inside] = Cut(path, text, begin, end, line)
        pieces += (text[kept:begin], "\n" * inside, indent, " ", "_" * (width - len(indent) - 1))
        kept = position = end
    pieces.append(text[kept:])
    return "".join(pieces), found


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

"""Data of the operators of `mutations.py`: a file's text and tree, and the byte positions of nodes."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SPECS = ("P", "PS", "PartitionSpec")


class Text:
    """A file, its tree, and where nodes stand in its bytes."""

    def __init__(self, source: bytes) -> None:
        self.bytes = source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse(source)
        self.lines = [0]
        for line in source.split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.nodes = list(ast.walk(self.tree))
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]

    def node_span(self, node: ast.expr) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[last - 1] + column

    def node_text(self, node: ast.expr) -> str:
        start, end = self.node_span(node)
        return self.bytes[start:end].decode("utf-8", "replace")


Change = tuple[int, int, int, str]
"""A line, the first and last byte, and what comes in their place."""


def full_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def calls_of(text: Text, *names: str) -> Iterator[ast.Call]:
    return (node for node in text.calls if full_name(node.func) in names)


def swap_expressions(text: Text, one: ast.expr, two: ast.expr) -> Change:
    """Two expressions of which the second stands after the first change places."""
    (start, middle), (after, end) = text.node_span(one), text.node_span(two)
    between = text.bytes[middle:after].decode()
    return one.lineno, start, end, f"{text.node_text(two)}{between}{text.node_text(one)}"


def remove_call_keyword(text: Text, call: ast.Call, keyword: ast.keyword) -> Change:
    """A call without one of its keywords."""
    assert keyword.arg is not None
    begin, end = text.node_span(keyword.value)
    start = text.bytes.rindex(keyword.arg.encode(), 0, begin)
    after = end
    while text.bytes[after : after + 1] in (b" ", b"\n"):
        after += 1
    if text.bytes[after : after + 1] == b",":
        return call.lineno, start, after + 1, ""
    return call.lineno, len(text.bytes[:start].rstrip().removesuffix(b",")), end, ""


@dataclass(frozen=True)
class Operator:
    """A mutation of files that hold all these words."""

    words: tuple[bytes, ...]
    changes: Callable[[Text], Iterator[Change]]

"""A file with the layouts of its arrays beside the lines that make them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from shardlint.config.targets import Targets
from shardlint.engine.explain import program_for_path
from shardlint.facts.layouts import layouts_of
from shardlint.layouts.layout import Layout
from shardlint.layouts.values import Instance, Value
from shardlint.model import Program
from shardlint.source.decoding import decode_file
from shardlint.source.text import read_bytes
from shardlint.syntax import FileFacts

_WIDTH = 88
_MOST = 4


def explain_file(path: Path) -> Iterator[str]:
    """The lines of a file, each with the layouts of the arrays that it binds or returns, on the last way to it.

    Raises `Unreadable` and `NotParsed` for a file that cannot be read.
    """
    absolute = Path(os.path.realpath(path))
    source = decode_file(path, read_bytes(path))
    program, targets = program_for_path(absolute)
    beside = layouts_by_line(program, program.project.parse_checked(source, absolute), targets)
    for number in range(1, len(source.line_starts) + 1):
        line = source.line_text(number).rstrip()
        shown = "; ".join(beside.get(number, ()))
        yield f"{number:5}  {line:<{_WIDTH}}  {shown}".rstrip() if shown else f"{number:5}  {line}".rstrip()


def layouts_by_line(program: Program, facts: FileFacts, targets: Targets) -> dict[int, list[str]]:
    """Return the layouts that each line binds or returns: `x: float32[64@data, 128]`."""
    known = layouts_of(program, facts, targets)
    found: dict[int, list[str]] = {}
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            named = list(_target_value_pairs(node.targets[0], known.get(node.value)))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            named = list(_target_value_pairs(node.target, known.get(node.value)))
        elif isinstance(node, ast.Return) and node.value is not None:
            named = [("returns", known.get(node.value))]
        else:
            continue
        texts = [
            f"{name}: {value}"
            for name, value in named
            if (isinstance(value, Layout) and value.shape is not None) or isinstance(value, Instance)
        ]
        if texts:
            found.setdefault(node.lineno, []).extend(texts[:_MOST])
    return found


def _target_value_pairs(target: ast.expr, value: Value) -> Iterator[tuple[str, Value]]:
    """The names that a target binds, each with its part of the value."""
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, tuple)
        and len(value) == len(target.elts)
    ):
        for inner, part in zip(target.elts, value, strict=True):
            yield from _target_value_pairs(inner, part)
    elif isinstance(target, ast.Name | ast.Attribute):
        yield ast.unparse(target), value

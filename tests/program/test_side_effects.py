"""Tests of functions that do nothing but return a value."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardlint.facts.side_effects import has_no_effects
from shardlint.model import Program

OWN = """
def f(x):
    rows = [None, None]
    rows[0] = x
    return rows
"""
GIVEN = """
def f(x, rows=None):
    if rows is None:
        rows = [None]
    rows[0] = x
    return rows
"""
ELSEWHERE = """
def f(table, x):
    row = [None]
    for row in table:
        row[0] = x
    return row
"""


@pytest.mark.parametrize(("text", "expected"), [(OWN, True), (GIVEN, False), (ELSEWHERE, False)])
def test_entries_of_a_list_that_only_the_function_has(tmp_path: Path, text: str, expected: bool) -> None:
    path = tmp_path / "a.py"
    path.write_text(f"{text}\n\nprint(f)\n")
    program = Program(tmp_path)
    facts = program.project.facts(path)
    assert facts is not None
    use = next(node for node in facts.find_mentions("f") if isinstance(node, ast.Name))
    assert has_no_effects(program.value(facts, use)) is expected

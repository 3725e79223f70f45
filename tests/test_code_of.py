"""Tests of the code of a text, which the cache of earlier runs compares."""

from __future__ import annotations

import ast
import random
import sysconfig
import warnings
from pathlib import Path

import pytest

from shardlint.source.code import code_of

LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = sorted(LIBRARY.glob("*.py"))


@pytest.mark.filterwarnings("ignore")
def test_the_code_of_a_file_is_the_same_tree() -> None:
    """Of the standard library, with all its odd strings; and what is left out is found again in none of them."""
    assert len(FILES) > 100
    for path in random.Random(3).sample(FILES, 60):
        data = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ast.dump(ast.parse(code_of(data))) == ast.dump(ast.parse(data)), path.name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1\n", "x = 1  # one\n"),
        ("x = 1\ny = 2\n", "# a\n\nx = 1\n\n    # b\n\ny = 2"),
        ("def f():\n    return 1\n", "def f():\n\n    # why\n    return 1   \n\n\n"),
        ("x = '#'  # a\n", "x = '#'  # b\n"),
        ("x = (1,\n     2)\n", "x = (1,  # one\n     2)\n"),
    ],
)
def test_same_code(one: str, other: str) -> None:
    assert code_of(one.encode()) == code_of(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = '#a'\n", "x = '#b'\n"),
        ('x = """\n# a\n"""\n', 'x = """\n# b\n"""\n'),
        ('x = """\n\na"""\n', 'x = """\na"""\n'),
        ("if x:\n    y()\n", "if x:\n  y()\n"),
        ('x = f"{d["#a"]}"\n', 'x = f"{d["#b"]}"\n'),
        ("x = 'a\\\n#b'\n", "x = 'a\\\n#c'\n"),
        ("x = '\\'#a'\n", "x = '\\'#b'\n"),
        ("# coding: latin-1\nx = 1\n", "# coding: utf-8\nx = 1\n"),
    ],
)
def test_other_code(one: str, other: str) -> None:
    assert code_of(one.encode()) != code_of(other.encode())

"""Lines that a fix made too long."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.edits import Layer, back_through, forward_through
from shardlint.rewrite.fix import fix_files
from shardlint.rewrite.line_length import configured_length
from shardlint.rewrite.line_wrapping import line_length, wrap_lines
from shardlint.rules_api.rule import Edit
from shardlint.source.text import Source

Write = Callable[..., Path]
LONG = "named(mesh, spec('data')), " * 4


def rewritten(before: str, old: str, new: str, length: int = 88) -> str:
    start = before.index(old)
    layer = Layer.sort_edits([Edit(start, start + len(old), new)])
    text = layer.apply_edits(before)
    breaks = wrap_lines(Source(Path("x.py"), before), layer, text, length)
    after = text
    for one in breaks:
        after = one.apply_edits(after)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(after))
    assert back_through([layer, *breaks], forward_through([layer, *breaks], start)) == start
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("y = f(HERE)\n", "y = f(\n    aaaa, bbbb, cccc\n)\n", id="what fits on one line"),
        pytest.param("if f(HERE)[0]:\n  pass\n", "if f(\n    aaaa, bbbb, cccc\n)[0]:\n  pass\n", id="a bracket, not the line"),
        pytest.param("y = ff(HERE, dddd)\n", "y = ff(\n    aaaa,\n    bbbb,\n    cccc,\n    dddd,\n)\n", id="one a line"),
        pytest.param("y = ff(HERE, *dd)\n", "y = ff(\n    aaaa,\n    bbbb,\n    cccc,\n    *dd,\n)\n", id="with a star"),
        pytest.param("y = ff[HERE, dddd]\n", "y = ff[\n    aaaa,\n    bbbb,\n    cccc,\n    dddd\n]\n", id="a subscript"),
        pytest.param("return HERE, d\n", "return (\n    aaaa,\n    bbbb,\n    cccc,\n    d,\n)\n", id="a tuple that is returned"),
        pytest.param("a, y = HERE, d(1)\n", "a, y = (\n    aaaa,\n    bbbb,\n    cccc,\n    d(1),\n)\n", id="a tuple that is assigned"),
        pytest.param("y = (HERE, ddddd)\n", "y = (\n    aaaa,\n    bbbb,\n    cccc,\n    ddddd,\n)\n", id="a tuple"),
        pytest.param("yyyyyyyyyyyy = (HERE.real)\n".replace("HERE", "f(HERE)"), "yyyyyyyyyyyy = (\n    f(aaaa, bbbb, cccc).real\n)\n", id="no tuple"),
        pytest.param("y = f(lambda a, b: a, HERE)\n", "y = f(\n    lambda a, b: a,\n    aaaa,\n    bbbb,\n    cccc,\n)\n", id="a lambda"),
        pytest.param("y = f(f'{g(1, 2)}', HERE)\n", "y = f(\n    f'{g(1, 2)}',\n    aaaa,\n    bbbb,\n    cccc,\n)\n", id="an f-string"),
        pytest.param("y = f(\n    HERE, d(1), ee\n)\n", "y = f(\n    aaaa,\n    bbbb,\n    cccc,\n    d(1),\n    ee,\n)\n", id="within a bracket"),
        pytest.param("from m import HERE, dddd\n", "from m import (\n    aaaa,\n    bbbb,\n    cccc,\n    dddd,\n)\n", id="an import"),
        pytest.param("def f():\n\ty = f(HERE)\n", "def f():\n\ty = f(\n\t\taaaa, bbbb, cccc\n\t)\n", id="tabs"),
        pytest.param("y = f(HERE)\r\n", "y = f(\r\n    aaaa, bbbb, cccc\r\n)\r\n", id="newlines"),
        pytest.param("y = ffffffff(HERE)  # noqa\n", None, id="a comment"),
        pytest.param("y = '''\n(HERE, dddd)'''\n", None, id="a string"),
        pytest.param("y = '''\n''', (HERE, dddd)\n", None, id="the end of a string"),
        pytest.param("y = f(HERE)\n".replace("HERE", "HERE"), "y = f(\n    aaaa, bbbb, cccc\n)\n", id="again"),
    ],
)  # fmt: skip
def test_a_line_is_broken_at_its_brackets(before: str, after: str | None) -> None:
    new = "aaaa, bbbb, cccc"
    if after is None:
        after = before.replace("HERE", new)
    assert rewritten(before, "HERE", new, max(21, *map(len, before.splitlines()))) == after


def test_what_was_short_enough_stays() -> None:
    assert rewritten("x = f(HERE)\n", "HERE", "a") == "x = f(a)\n"


def test_a_line_that_was_too_long_before_is_as_its_author_wants_it() -> None:
    assert (
        rewritten("x = f(aaaaaaaaaaaaaaaaaaaaa, HERE)\n", "HERE", "bbbbb", 20)
        == "x = f(aaaaaaaaaaaaaaaaaaaaa, bbbbb)\n"
    )


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("x = 1\n", 88),
        ("if x:\n  y = 1\n", 80),
        ("x" * 97 + "\n", 100),
        ("x" * 101 + "\n", 110),
        ("x" * 300 + "\n", 120),
        ("# https://" + "x" * 100 + "\n", 88),
        ("x\n" * 200 + "x" * 100 + "\n", 88),
        ("x\n" * 200 + ("x" * 79 + "\n") * 5, 79),
        ("x\n" * 200 + ("x" * 80 + "\n") * 5, 80),
        ("x\n" * 20 + ("x" * 79 + "\n") * 5, 88),
        ("x\n" * 200 + ("x" * 60 + "\n") * 5, 88),
    ],
)
def test_lines_may_be_as_long_as_they_are(text: str, length: int) -> None:
    assert line_length(text) == length


@pytest.mark.parametrize(
    ("name", "text", "length"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 100\n", 100),
        ("pyproject.toml", "[tool.pyink]\nline-length = 80\n", 80),
        ("ruff.toml", "line-length = 90\n", 90),
        ("pyproject.toml", "[tool.ruff]\nline-length = 'x'\n", None),
        ("pyproject.toml", "tool = 1\n", None),
        ("pyproject.toml", "[", None),
        ("setup.cfg", "[yapf]\ncolumn_limit = 79\n", 79),
        (".style.yapf", "[style]\nbased_on_style = google\ncolumn_limit: 99\n", 99),
        (".style.yapf", "column_limit = 99\n", None),
        (
            ".pre-commit-config.yaml",
            "repos:\n- repo: x\n  hooks:\n  - id: flake8\n    args: [--line-length=70]\n"
            "  - id: pyink\n    args:\n      - '--pyink-indentation=2'\n      - '--line-length=122'\n",
            122,
        ),
        (".pre-commit-config.yaml", "  - id: black\n    args: ['-l', '79']\n", 79),
        (".pre-commit-config.yaml", '  - id: ruff-format\n    args: ["--line-length", "79"]\n', 79),
        (".pre-commit-config.yaml", "  - id: black\n  - id: other\n    args: [-l 79]\n", 88),
        (".pre-commit-config.yaml", "  - id: yapf\n    args: [--in-place]\n", 79),
        (".pre-commit-config.yaml", "  - id: ruff\n  - id: ruff-check\n", None),
        (".pre-commit-config.yaml", "  - id: ruff\n  - id: ruff-format\n", 88),
    ],
)
def test_a_project_may_say_how_long(write: Write, name: str, text: str, length: int | None) -> None:
    assert configured_length(write({name: text})) == length


def test_a_fix_keeps_to_the_length_of_the_lines(write: Write) -> None:
    before = """\
import functools

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


@functools.partial(jax.jit, in_shardings=(P("data"), P(None, "model")), out_shardings=P())
def matmul(x, w):
    return x @ w


if __name__ == "__main__":
    matmul(np.ones((8, 8)), np.ones((8, 8)))
"""
    root = write({"x.py": before})
    fix_files([root], Options(targets={"jax": "0.12.0"}), unsafe=True, write=True)
    after = (root / "x.py").read_text()
    assert "NamedSharding, PartitionSpec as P" in after
    assert 'NamedSharding(mesh, P(None, "model"))' in after
    assert max(map(len, after.splitlines())) <= 90


def test_a_line_below_a_new_one_stays() -> None:
    before = "from module import aaaa, bbbb, cccc\nx = f(aaaa, bbbb, cccc)\n"
    assert rewritten(before, "", "import b\n", 30) == f"import b\n{before}"

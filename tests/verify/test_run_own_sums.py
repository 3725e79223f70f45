"""Tests of averages over a device's own rows, of arrays replicated for the use of a part, and of round counts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from shardlint.run.syntax import loop_count_line
from shardlint.verify.facts import Line
from tests.programs import skip_without
from tests.verify.running import run

pytestmark = pytest.mark.longer

DATA = Path(__file__).parent / "data"
KINDS = ("nonlinear-of-mean", "gather-before-reduce", "gather-in-loop", "local-as-global")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked from one import of jax")
def test_each_mistake_is_named_at_its_line_and_nothing_else(tmp_path: Path) -> None:
    skip_without("jax")
    path = DATA / "own_sums.py"
    one = run([path], tmp_path)[path]
    assert one.code == 0, one.output
    assert one.facts.notes == []
    marks = [(number, re.search(r"# here (\S+)", line)) for number, line in enumerate(path.read_text().splitlines(), 1)]
    expected = {(number, mark[1]) for number, mark in marks if mark}
    assert {(found.line.line, found.kind) for found in one.facts.found if found.kind in KINDS} == expected


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        ("jax.lax.fori_loop(0, ticks, body, x)", 2),
        ("jax.lax.scan(body, x, jnp.arange(ticks))", 2),
        ("jax.lax.scan(body, x, None, length=ticks)", 2),
        ("jax.lax.fori_loop(0, ticks + 1, body, x)", 3),
        ("jax.lax.scan(body, x, rows)", 3),
    ],
)
def test_where_the_number_of_rounds_is_given(tmp_path: Path, loop: str, line: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"def run(x, rows):\n    ticks = len(rows)\n    return {loop}\n")
    assert loop_count_line(Line(str(path), 3, "run")).line == line


def test_where_the_number_of_rounds_is_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("def run(x, n):\n    n = n + 1\n    n = n - 1\n    return jax.lax.fori_loop(0, n, body, x)\n")
    assert loop_count_line(Line(str(path), 4, "run")).line == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked from one import of jax")
def test_steps_that_look_like_mistakes(tmp_path: Path) -> None:
    skip_without("optax")
    path = DATA / "steps_right.py"
    one = run([path], tmp_path)[path]
    assert one.code == 0, one.output
    assert one.facts.notes == []
    # The same weights lie in several ways in this one program.
    assert [(found.kind, found.line.line) for found in one.facts.found if "of distil" not in found.message] == []

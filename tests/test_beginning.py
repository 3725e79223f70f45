"""Lines that begin as a pattern says: what is found does not rest on the texts that make it fast."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import shardlint_rules
from hypothesis import given
from hypothesis import strategies as st

import shardlint
from shardlint.engine.catalogue import rule_cards
from shardlint.source.line_beginnings import Beginnings

FOLDERS = (Path(shardlint.__file__).parent, Path(shardlint_rules.__file__).parent, Path(__file__).parent / "mistakes")
NAMES = sorted({(code, pattern) for code, card in rule_cards().items() for pattern in card.lines})

TEXT = """\
x = make_mesh(a, b)  # one
    mesh = other(mesh_of(c), mesh(d))
# y = make_mesh(a, b)
return  # mesh(
spec = ("data")
mesh"""


def lines(text: str, pattern: str, saying: tuple[str, ...] = ()) -> list[int]:
    return Beginnings(text.encode()).match_lines(pattern.encode(), tuple(one.encode() for one in saying))


@pytest.mark.parametrize(
    ("pattern", "saying", "found"),
    [
        (r"\w+ = ", (), [1, 2, 5]),
        (r"\w+ = ", ("mesh",), [1, 2]),
        (r"return\b", ("return",), [4]),
        (r"[^#\n]*mesh\w*\(", (), [1, 2]),
        (r"[^#\n]*mesh\w*\(", ("mesh",), [1, 2]),
        (r"[^#\n]*mesh$", ("mesh",), [6]),
        (r"mesh$", ("mesh",), [6]),
        (r"nothing", ("nothing",), []),
    ],
)
def test_each_line_is_found_once(pattern: str, saying: tuple[str, ...], found: list[int]) -> None:
    assert lines(TEXT, pattern, saying) == found


@given(st.text("mesh(# \n=a", max_size=60))
def test_searching_is_trying_every_line(text: str) -> None:
    plain = [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if re.match(r"[ \t]*[^#\n]*mesh\w*\(", line)
    ]
    assert lines(text, r"[^#\n]*mesh\w*\(") == lines(text, r"[^#\n]*mesh\w*\(", ("mesh",)) == plain


@pytest.fixture(scope="module")
def texts() -> list[bytes]:
    """A tenth of the files of this project: their rules quote what they look for."""
    every = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
    return [path.read_bytes() for path in every[::10]]


def _tried(data: bytes, pattern: str, saying: tuple[str, ...]) -> list[int]:
    compiled = re.compile(rb"[ \t]*(?:" + pattern.encode() + rb")", re.MULTILINE)
    found, start = [], 0
    for number, line in enumerate(data.split(b"\n"), 1):
        said = not saying or any(text.encode().rstrip(b"\n") in line for text in saying)
        if said and compiled.match(data, start) is not None:
            found.append(number)
        start += len(line) + 1
    return found


@pytest.mark.parametrize(("code", "pattern"), NAMES)
def test_lines_are_those_at_which_the_pattern_matches(code: str, pattern: str, texts: list[bytes]) -> None:
    saying = rule_cards()[code].lines[pattern][0]
    asked = tuple(text.encode() for text in saying)
    for data in texts:
        assert Beginnings(data).match_lines(pattern.encode(), asked) == _tried(data, pattern, saying)


def test_a_mark_at_the_beginning_is_no_part_of_the_first_line() -> None:
    lines = Beginnings("\ufeffimport jax\nimport flax\n".encode()).match_lines(rb"import\b", (b"import",))
    assert lines == [1, 2]


def test_places_are_found_once_in_a_line_and_not_in_comments() -> None:
    data = b"a = put(x) + put(y)\n# put(z)\nb = 1  # put(z)\r\nc = (put(x),\n     put(y))"
    assert Beginnings(data).match_lines(rb"[^#\n]*put\(", (b"put(",)) == [1, 4, 5]
    assert Beginnings(data).match_lines(rb"\w+ = put\(", (b"put(",)) == [1]

"""Lines that begin as a pattern says: what is found does not rest on the texts that make it fast."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint.source.beginning import beginning

TEXT = """\
x = make_mesh(a, b)  # one
    mesh = other(mesh_of(c), mesh(d))
# y = make_mesh(a, b)
return  # mesh(
spec = ("data")
mesh"""


def lines(text: str, pattern: str, saying: tuple[str, ...] = ()) -> list[int]:
    return [text.count("\n", 0, place) + 1 for place in beginning(text, pattern, saying)]


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


def test_bytes_are_as_text() -> None:
    places = list(beginning(TEXT.encode(), rb"[^#\n]*mesh\w*\(", (b"mesh",)))
    assert places == list(beginning(TEXT, r"[^#\n]*mesh\w*\(", ("mesh",)))

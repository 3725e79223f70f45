"""Which axis mappings are in context at a place: `here()` marks the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.model.values import Table
from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
import contextlib
import haliax as hax
from haliax.partitioning import ResourceAxis, axis_mapping
A, B = {"embed": "data"}, {"batch": ResourceAxis.DATA}
"""


def mappings(ask: Ask, text: str) -> str:
    """Keys of the mappings, inner ones first; "?" when there may be others, "bare" when one way has none."""
    asked = ask(BEFORE + text, None)
    file, node = asked.node("here()", "a.py", -1)
    found = asked.program.axis_mappings(file, node)
    keys = [
        ",".join(str(key) for key, _ in one.value.entries) if isinstance(one.value, Table) else "-"
        for one in found.found
    ]
    assert found.never == (found.complete and not keys)
    return " ".join([*keys, *(["bare"] if found.bare else []), *([] if found.complete else ["?"])])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("here()", "bare", id="module"),
        pytest.param("with hax.axis_mapping(A): here()", "embed", id="around"),
        pytest.param("with mesh, axis_mapping(B): here()", "batch", id="beside-a-mesh"),
        pytest.param("with axis_mapping(A):\n    with axis_mapping(B): here()", "batch embed", id="nested"),
        pytest.param("with axis_mapping(A): pass\nhere()", "bare", id="after"),
        pytest.param("with axis_mapping(config.mapping): here()", "-", id="not-known"),
        pytest.param("with axis_mapping(A, embed='model'): here()", "bare ?", id="more-entries"),
        pytest.param("def f(): here()\nwith axis_mapping(A): f()", "embed", id="called"),
        pytest.param("def f(): here()\nwith axis_mapping(A): f()\nf()", "embed bare", id="two-ways"),
        pytest.param("def f(): here()", "?", id="nobody-calls-it"),
        pytest.param("with trainer(): here()", "bare ?", id="unknown-manager"),
        pytest.param("stack.enter_context(axis_mapping(A))\nhere()", "bare ?", id="exit-stack"),
        pytest.param("@hax.named_jit\ndef f(): here()\nf()", "bare", id="named-jit"),
        pytest.param(
            "@hax.named_jit(axis_resources=A)\ndef f(): here()\nf()", "bare ?", id="named-jit-with-one"
        ),
        pytest.param("f = decorate(lambda: here())\nf()", "?", id="given-away"),
    ],
)
def test_mappings(ask: Ask, text: str, found: str) -> None:
    assert mappings(ask, text) == found

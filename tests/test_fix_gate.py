"""Tests of the check after a fix: a changed meaning is refused, and a finding that a crash had hidden is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.edits import Layer
from shardlint.rewrite.fix import fix_files
from shardlint.rewrite.tree_checks import explain_misread
from shardlint.rules_api.rule import Edit
from shardlint.source.decoding import decode_file
from shardlint.syntax import read_facts

Write = Callable[..., Path]
OPTIONS = Options(targets={"jax": "0.12.0", "equinox": "0.13.8"})
HEAD = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
rep = NamedSharding(mesh, P())
row = NamedSharding(mesh, P("data"))


"""


def judged(text: str, *edits: tuple[str, str]) -> str | None:
    """Return the verdict on edits that replace pieces of a text."""
    layer = Layer.sort_edits(Edit(text.index(old), text.index(old) + len(old), new) for old, new in edits)
    before, after = (
        read_facts(decode_file(Path("x.py"), one.encode()), Path("x.py")) for one in (text, layer.apply_edits(text))
    )
    return explain_misread(before, layer, after)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("y = a if b else c\n", "a", "lambda f: g(f)"),
        ("y = made(1)(plain)\n", "made(1)", "lambda f: g(f)"),
        ("y = x * z\n", "x", "a + b"),
        ("y = x.shape\n", "x", "-a"),
        ("y = not x\n", "x", "a or b"),
    ],
)
def test_an_expression_that_is_read_otherwise_is_refused(text: str, old: str, new: str) -> None:
    assert "line 1" in (judged(text, (old, new)) or "")
    assert judged(text, (old, f"({new})")) is None


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("if a:\n    b = 1\n    c = 2\n", "    b = 1\n", "    b = 1\nif d:\n"),
        ("def f():\n    b = 1\n    c = 2\n", "    b = 1\n", "    b = 1\n\n    def g():\n     pass\n\ndef h():\n"),
        ("b = 1\nc = 'x'\n", "b = 1\n", "b = 1; d = \\\n"),
    ],
)
def test_a_statement_that_is_not_edited_stays_what_it_is(text: str, old: str, new: str) -> None:
    assert "outside the fix" in (judged(text, (old, new)) or "")


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("b = 1\nc = 2\n", "b = 1\n", "import d\n\nb = d.e\n"),
        ("@a\ndef f(x): return x\n", " return x", "\n    x = g(x)\n    return h(x)"),
        ("y = f([a, b])\n", "[a, b]", "a, b"),
        ("x.value = 1\n", "x.value", "x[...]"),
        ("def f():\n    b = 1\n    c = 2\n", "    b = 1\n    c = 2\n", "    with d:\n        b = 1\n        c = 2\n"),
        ("b = '\u00e9'; c = d(b)\nz = 3\n", "d(b)", "(\n    e(b)\n)"),
    ],
)
def test_other_edits_are_let_through(text: str, old: str, new: str) -> None:
    assert judged(text, (old, new)) is None


SCANS = """\
@eqx.filter_jit(in_shardings=(rep, row), out_shardings=(rep, row))
def unroll(net, xs):
    return jax.lax.scan(lambda c, x: (c + x.sum(), x * 2), jnp.zeros(()), xs)
"""


@pytest.mark.parametrize(
    "code",
    [
        SCANS,
        SCANS.replace("(rep, row), out", "[rep, row], out"),
        SCANS.replace("@eqx.filter_jit(", "wrap = eqx.filter_jit(") .replace("def unroll", "\n\n@wrap\ndef unroll"),
    ],
    ids=["entries", "a list", "a name"],
)
def test_a_crash_is_fixed_and_what_it_hid_is_reported(write: Write, code: str) -> None:
    root = write({"main.py": HEAD + code, "pyproject.toml": ""})
    (outcome,) = fix_files([root], OPTIONS, unsafe=True, write=True).fixed
    assert [one.rule.code for one in outcome.done] == ["SL101"]
    assert {one.rule.code for one in outcome.left} <= {"SL348"} and "eqx.filter_shard(" in outcome.after.text


@pytest.mark.parametrize(
    ("imports", "first"),
    [
        ("import functools\n\nimport equinox", "import equinox as eqx"),
        ("import functools\n\n\nimport equinox", "import equinox as eqx"),
        ("import functools\nimport equinox", "import equinox as eqx"),
    ],
)
def test_a_first_import_that_goes_leaves_no_empty_line(write: Write, imports: str, first: str) -> None:
    code = "jit = functools.partial(eqx.filter_jit, in_shardings=(rep, row))\n\n\n@jit\ndef f(a, b):\n    return a\n"
    root = write({"main.py": HEAD.replace("import equinox", imports, 1) + code, "pyproject.toml": ""})
    (outcome,) = fix_files([root], OPTIONS, unsafe=True, write=True).fixed
    assert outcome.done and outcome.after.line_text(1).strip() == first


@pytest.mark.parametrize("more", ["", ", device_put(x - 1, NamedSharding(mesh, P()))", ", x"])
def test_a_line_that_was_long_is_broken_where_it_outgrows_the_file(write: Write, more: str) -> None:
    code = (
        "from jax import device_put, jit\n\n\n@jit\ndef step(x):\n    return device_put(x * 2, NamedSharding(mesh, "
        'P("data"))), device_put(x + 1, device=NamedSharding(mesh, P(None, "model")))' + more + "\n"
    )
    root = write({"main.py": HEAD + code, "pyproject.toml": ""})
    longest = max(map(len, (HEAD + code).splitlines()))
    (outcome,) = fix_files([root], OPTIONS, unsafe=True, write=True).fixed
    assert outcome.done and max(map(len, outcome.after.text.splitlines())) <= longest

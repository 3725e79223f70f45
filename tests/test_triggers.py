"""Rules that trigger on attributes of anything, and on keywords of any call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.config.targets import Target, Targets
from shardlint.engine.dispatch import find_sites
from shardlint.engine.index import RuleIndex
from shardlint.model import Program
from shardlint.rules_api.registry import select_rules
from shardlint.rules_api.rule import Attributes, Finding, Harm, Imports, Keywords, Rule
from shardlint.rules_api.site import Site
from shardlint.source.decoding import decode_file
from shardlint.source.screen import Texts
from shardlint.syntax import read_facts

TEXT = """
import jax
import jax.numpy as jnp

def f(x, mesh):
    x.buffers = 1
    jax.buffers
    return x.buffers, x.inner.buffers, f(x, resources=mesh), jax.jit(f, resources=1), dict(x, other=resources)
"""


class Probe(Rule):
    code = "XX1"
    name = "probe"
    harm = Harm.CRASH
    triggers = (Attributes("buffers"), Keywords("resources"))

    def check(self, site: Site) -> Iterator[Finding]:
        yield from ()


def test_attributes_and_keywords(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(TEXT)
    source = decode_file(path, TEXT.encode())
    index = RuleIndex.index_rules([Probe()])
    assert set(index.make_screen.find_words(TEXT.encode())) == {"buffers", "resources"}
    words = index.words_in(["buffers", "resources"], TEXT.encode())
    targets = Targets({"jax": Target((0, 12), "")})
    program = Program(tmp_path)
    found = [
        (site.form, ast.unparse(site.syntax))
        for site in find_sites(program, read_facts(source, path), index, targets, words)
    ]
    assert sorted(found) == [
        ("attribute", "x.buffers"),
        ("attribute", "x.inner.buffers"),
        ("keyword", "f(x, resources=mesh)"),
        ("keyword", "jax.jit(f, resources=1)"),
    ]


def test_what_runs_together(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import model\nfrom parts.inner import thing\n")
    (tmp_path / "model.py").write_text("from layers import Layer\n")
    (tmp_path / "layers.py").write_text("class Layer: pass\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "inner.py").write_text("thing = 1\n")
    (tmp_path / "runs.py").write_text("import main\n")
    (tmp_path / "apart.py").write_text("import layers\n")
    program = Program(tmp_path)
    home = program.project.facts(tmp_path / "main.py")
    assert home is not None
    names = [file.path.name for file in program.together(home)]
    assert names[0] == "main.py"
    assert set(names[1:]) == {"model.py", "inner.py", "runs.py", "layers.py"}


class Importing(Rule):
    code = "XX2"
    name = "importing"
    harm = Harm.CRASH
    triggers = (Imports("jax"),)

    def check(self, site: Site) -> Iterator[Finding]:
        yield from ()


def test_imports(tmp_path: Path) -> None:
    text = (
        "import os, jax.numpy as jnp\nfrom jaxtyping import Array\nfrom .jax import local\n\n\ndef f():\n"
        "    from jax import (\n        devices,\n        jit as compiled,\n    )\n    return jnp.ones(devices())\n"
    )
    path = tmp_path / "a.py"
    path.write_text(text)
    index = RuleIndex.index_rules([Importing()])
    hits = index.make_screen.find_words(text.encode())
    words = index.words_in(hits, text.encode())
    found = [
        (site.form, site.written)
        for site in find_sites(
            Program(tmp_path), read_facts(decode_file(path, text.encode()), path), index, Targets({}), words
        )
    ]
    assert found == [("import", "jax.numpy"), ("import", "jax.devices"), ("import", "jax.jit")]


# What generated files hold in one line. By the square of its length, each would take from minutes to days.
LONG = {
    "text": b"data = '" + b"ab/c+" * 2_000_000 + b"'\n",
    "calls": b"x = [" + b"f(a, " * 600_000 + b"\n",
    "functions": b"x = [" + b"lambda x: x, " * 300_000 + b"]\n",
    "sum": b"x = " + b"x[0].y + " * 300_000 + b"1\n",
    "makers": b"x = [" + b"zeros((8, 8)), " * 300_000 + b"]\n",
    "blanks": b"x = (" + b" " * 5_000_000 + b")\n",
    "comment": b"x = 1  " + b"# " * 1_000_000 + b"\n",
}


# A pattern that goes over the rest of the line from each place does so in most of them.
_QUICK = ("functions", "comment")


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[] if line in _QUICK else pytest.mark.longer) for line in LONG]
)
def test_a_long_line_costs_its_length(line: str) -> None:
    """No rule's patterns go over the rest of the line from each place in it."""
    screen = RuleIndex.index_rules(select_rules(("all",), ())).make_screen
    words = {text for asked in screen.words.values() for near in asked.values() for text in near or ()}
    texts = Texts(b"import jax\n" + LONG[line])
    assert len({text for text in words if not texts[text]}) > 100, "there are patterns, and most are not there"

"""Tests of the declarations of a rule, which are checked once, before its sites are passed to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardlint.config.targets import Target, Targets
from shardlint.engine.dispatch import find_sites
from shardlint.engine.index import RuleIndex
from shardlint.model import Program
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.source.decoding import decode_file
from shardlint.syntax import read_facts

TEXT = """
import functools
import jax
import pytest

at_home = jax.device_put(1)
given = functools.partial(jax.device_put, device=None)
spread = jax.device_put(*values)
named = jax.device_put(1, **options)
if jax.__version_info__ < (0, 6):
    old = jax.device_put(2)

@jax.jit
def traced(x):
    return jax.device_put(x)

def test():
    with pytest.raises(ValueError):
        raising = jax.device_put(3)
"""
ALL = {"at_home", "given", "spread", "named", "old", "traced", "import"}


class Everywhere(Rule):
    code = "XX1"
    name = "everywhere"
    harm = Harm.CRASH
    triggers = (Calls("jax.device_put"), Uses("jax.device_put"))

    def check(self, site: Site) -> Iterator[Finding]:
        yield site.finding(site.syntax, "It is asked.")


def found(folder: Path, **declared: Any) -> set[str]:
    path = folder / "a.py"
    path.write_text(TEXT)
    rule = type("Declared", (Everywhere,), declared)()
    index = RuleIndex.index_rules([rule])
    words = index.words_in(sorted(index.make_screen.find_words(TEXT.encode())), TEXT.encode())
    facts = read_facts(decode_file(path, TEXT.encode()), path)
    targets = Targets({"jax": Target((0, 12), "")})
    lines = TEXT.splitlines()
    names = set()
    for site in find_sites(Program(folder), facts, index, targets, words):
        for one in site.findings():
            line = lines[TEXT.count("\n", 0, one.start)].strip()
            names.add("traced" if line.startswith("return") else line.partition(" ")[0])
    return names


@pytest.mark.parametrize(
    ("declared", "without"),
    [
        ({}, {"import"}),
        ({"forms": ("partial",)}, {"import", "at_home", "spread", "named", "old", "traced"}),
        ({"forms": ("call",)}, {"import", "given"}),
        ({"closed": ("positional",), "forms": ("call",)}, {"import", "given", "spread"}),
        ({"closed": ("keywords",), "forms": ("call",)}, {"import", "given", "named"}),
        ({"in_version_checks": False}, {"import", "old"}),
        ({"where": "traced"}, ALL - {"traced"}),
        ({"where": "host"}, {"import", "traced"}),
    ],
)
def test_a_rule_is_asked_where_it_says(tmp_path: Path, declared: dict[str, Any], without: set[str]) -> None:
    assert found(tmp_path, **declared) == ALL - without

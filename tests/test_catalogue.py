"""Tests of the cached metadata of rules: it equals that of the rules, which are imported when needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.engine.catalogue import Card, keep_cards, recall_cards, rule_cards
from shardlint.engine.index import RuleIndex
from shardlint.rules_api import registry
from shardlint.source.store import Store

CLEAN = "import jax\nimport jax.numpy as jnp\n\n\n@jax.jit\ndef area(r):\n    return jnp.pi * r**2\n"
WRONG = "import jax\n\n\n@jax.jit\ndef f(x):\n    return jax.device_put(x, jax.devices()[0])\n"
_IMPORTED = """
import pathlib, runpy, sys
names, *sys.argv[1:] = sys.argv[1:]
try:
    runpy.run_module("shardlint", run_name="__main__")
finally:
    pathlib.Path(names).write_text("\\n".join(sys.modules))
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store, and no rules known before or after."""
    registry.forget_packs()
    yield Store(str(tmp_path / "store"))
    registry.forget_packs()


def _told(card: Card) -> tuple[object, ...]:
    return card.known, card.wakes, card.lines


def test_what_is_kept_is_what_the_rules_say(store: Store) -> None:
    registry.import_rules()
    made = {code: _told(card) for code, card in rule_cards().items()}
    assert len(made) > 100
    index = RuleIndex.index_rules(rule_cards().values())
    keep_cards(store)
    registry.forget_packs()
    forgotten = registry.rule_entries()  # another process has not looked for them before
    registry.forget_packs()
    cards_of_another_process(store)
    assert registry.is_metadata_cached() and registry.rule_entries() == forgotten
    kept = rule_cards()
    assert {code: _told(card) for code, card in kept.items()} == made
    assert all(card.loaded is None for card in kept.values())
    again = RuleIndex.index_rules(kept.values())
    assert again.make_screen.dump_screen() == index.make_screen.dump_screen()
    assert {word: set(whens) for word, whens in again.words.items()} == {
        word: set(whens) for word, whens in index.words.items()
    }
    assert kept["SL201"].rule.code == "SL201"


def cards_of_another_process(store: Store) -> None:
    """Recall as a process does that has asked for no rule yet."""
    from shardlint.engine.catalogue import _Catalogue

    _Catalogue.entries = None
    recall_cards(store)


def test_what_is_strange_is_not_taken(store: Store) -> None:
    for strange in ({}, {"whens": [], "rules": [[1]], "entries": []}, {"whens": [[]], "rules": [], "entries": []}):
        store.save_data("rules.json", strange)
        cards_of_another_process(store)
        assert not registry.is_metadata_cached()


def test_rules_are_imported_where_a_site_is_met(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname = 'a'\nversion = '1'\n")
    file = project / "a.py"
    environment = {**os.environ, "SHARDLINT_CACHE_DIR": str(tmp_path / "cache")}

    def check(text: str) -> tuple[str, set[str]]:
        file.write_text(text)
        names = tmp_path / "names"
        command = [sys.executable, "-c", _IMPORTED, str(names), "check", str(file)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        return ended.stdout, set(re.findall(r"shardlint_rules\..*", names.read_text()))

    first, imported = check(CLEAN)
    assert "No findings" in first and len(imported) > 100
    second, imported = check(f"{CLEAN}\n# edited\n")
    assert "No findings" in second and not imported
    third, imported = check(WRONG)
    assert "SL202" in third and 0 < len(imported) < 200

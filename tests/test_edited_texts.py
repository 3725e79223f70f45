"""Tests of reused text searches after an edit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from shardlint.engine.index import RuleIndex
from shardlint.rules_api.registry import make_rules, rule_entries
from shardlint.source.screen import Texts, changed_regions

_FIXTURES = Path(__file__).parent.parent / "fixtures"


def _edited(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    kind = chance.random()
    if kind < 0.4:
        lines[at:at] = [chance.choice(others) for _ in range(chance.choice((1, 1, 3)))]
    elif kind < 0.7:
        del lines[at : at + chance.choice((1, 1, 4))]
    else:
        lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)] + chance.choice(others)[-20:]
    return b"\n".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_edited_text_is_searched_as_a_new_one(seed: int) -> None:
    index = RuleIndex.index_rules(make_rules(rule_entries().keys()))
    chance = random.Random(seed)
    files = chance.sample(sorted(_FIXTURES.rglob("*.py")), 40)
    others = [line for file in files for line in file.read_bytes().split(b"\n") if line.strip()]
    asked = 0
    for file in files:
        data = file.read_bytes()
        texts = Texts(data)
        index.words_in(index.make_screen.find_words(texts), texts)
        for _ in range(4):
            data = _edited(chance, data, others)
            texts, fresh = Texts(data, texts), Texts(data)
            found = [index.words_in(index.make_screen.find_words(one), one) for one in (texts, fresh)]
            assert found[0] == found[1], file
            both = texts.keys() & fresh.keys()
            assert {text: texts[text] for text in both} == {text: fresh[text] for text in both}, file
            asked += len(both)
    assert asked > 1000


def test_lines_around_an_edit_reach_to_the_definitions_about_it() -> None:
    before = b"import jax\nx = 1\n\ndef one():\n    a = 1\n    b = 2\n\ndef two():\n    pass\n"
    had, has = changed_regions(before, before.replace(b"b = 2", b"b = 2\n    c = 3"))
    assert had == b"\ndef one():\n    a = 1\n    b = 2\n\ndef two():\n"
    assert has == b"\ndef one():\n    a = 1\n    b = 2\n    c = 3\n\ndef two():\n"


def test_a_text_that_is_not_edited_is_as_it_was() -> None:
    data = b"import jax\ny = jax.device_put(x)\n"
    texts = Texts(data)
    assert texts[b"device_put"] and not texts[b"shard_map"]
    again = Texts(data, texts)
    assert again[b"device_put"] and not again[b"shard_map"]

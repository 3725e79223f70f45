"""The language of what a user reads: messages, rule pages and guides."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.rules_api.registry import entries, rules
from shardlint.rules_api.rule import Rule

ROOT = Path(__file__).parent.parent
FORBIDDEN = re.compile(
    r"\b(so (it|they) (is|are|do|does)\b|what is said|where that is|told as|of those that|is had\b|are had\b"
    r"|lies? so\b|made whole|is asked for|are asked for|has to say|nothing is made of it|more than is looked at"
    r"|\bbeside (it|them|that)\b|stands? for itself|comes? to nothing)",
    re.IGNORECASE,
)
RULES = [rule for rule in rules() if rule.code.startswith("SL") and not rule.code.startswith("SL0")]
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if path.parent.name not in ("rules", "decisions")
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_and_its_messages_are_plain(rule: type[Rule]) -> None:
    module = Path(__import__(rule.__module__, fromlist=["_"]).__file__ or "")
    for text in _strings(module):
        assert not (odd := FORBIDDEN.search(text)), f"{odd and odd[0]!r} in {text!r}"


def _strings(path: Path) -> Iterator[str]:
    """The string constants of a module that are prose, docstrings of helpers left out."""
    tree = ast.parse(path.read_text("utf-8"))
    helpers = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            if id(node) not in helpers:
                yield node.value


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_guide_is_plain(path: Path) -> None:
    odd = [f"{number}: {found[0]}" for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
           if (found := FORBIDDEN.search(line))]  # fmt: skip
    assert odd == []


def test_retired_codes_are_not_used_again() -> None:
    retired = set(
        re.findall(r"^\| (SL\d{3}) \|", (ROOT / "docs" / "retired-rules.md").read_text("utf-8"), re.MULTILINE)
    )
    assert len(retired) > 30 and retired.isdisjoint(entries())

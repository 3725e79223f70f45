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
MOST_GUIDES, MOST_BYTES = 14, 130_000
FORBIDDEN = re.compile(
    r"\b(so (it|they) (do|does)\b|so (it|they) (is|are)(?=[.,;:)])|what is said|where that is|told as|of those that"
    r"|(is|are) had\b|lies? so\b|made whole|(is|are) asked for|has to say|nothing is made of it"
    r"|more than is looked at"
    r"|\bbeside (it|them|that)\b|stands? for itself|comes? to nothing)",
    re.IGNORECASE,
)
# Also forbidden in guides: grammatical detours for which the field has a word.
OLD_STYLE = re.compile(
    FORBIDDEN.pattern
    + r"|\b(is told|are told|tells of|told (again|alone|by)|otherwise than|lies? whole|whole on every|placed whole|mended"
    r"|in sight|out of sight|is no (mistake|finding|more)|what (is|was) found|where (it|they) (is|are) had|made anew"
    r"|looked (at|into) (anew|again)|of which one (is|was|has|will)|that is what|beside|for (it|they) (is|are|has|have|may)"
    r"|stands? (there|here)|is known of|what is there)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?```|`[^`\n]*`|^    .*$", re.DOTALL | re.MULTILINE)
RULES = [rule for rule in rules() if rule.code.startswith("SL") and not rule.code.startswith("SL0")]
GENERATED = (
    "rules.md",
    "recall.md",
    "precision.md",
    "speed.md",
    "growth.md",
    "api-versions.md",
)  # texts from elsewhere
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "evaluation").glob("*.md")]
    if path.parent.name != "rules" and path.name not in GENERATED
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
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), path.read_text("utf-8"))
    lines = enumerate(prose.splitlines(), 1)
    assert [f"{number}: {odd[0]}" for number, line in lines if (odd := OLD_STYLE.search(line))] == []


def test_the_guides_are_few_and_short() -> None:
    guides = [
        path for path in (ROOT / "docs").glob("*.md") if path.name not in ("rules.md", "retired-rules.md")
    ]
    assert len(guides) <= MOST_GUIDES
    assert sum(path.stat().st_size for path in guides) <= MOST_BYTES


def test_retired_codes_are_not_used_again() -> None:
    retired = set(
        re.findall(r"^\| (SL\d{3}) \|", (ROOT / "docs" / "retired-rules.md").read_text("utf-8"), re.MULTILINE)
    )
    assert len(retired) > 30 and retired.isdisjoint(entries())

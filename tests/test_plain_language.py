"""The language of messages, rule pages, guides and docstrings."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from shardlint.rules_api.registry import import_rules, rule_entries

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import messages  # noqa: E402

reads_messages = pytest.mark.xdist_group("messages")
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
# And in messages: words that need a second reading.
IN_MESSAGES = re.compile(
    FORBIDDEN.pattern
    + r"|\b(anew|told|lies?|lain|otherwise|beside|alike|nobody|no one|stands?|in sight|made whole|lies whole|whole on"
    r"|come to (its|their) end|what is (there|said|given|made)|where that|of those that|hand(s|ed)? (it )?on|has not"
    r"|is had|so many|dearest|by what|with what)\b(?! been| called| yet)",
    re.IGNORECASE,
)
MOST_WORDS = 20
_END = re.compile(r"(?<=[.:;?!])\s|\n")
_PLACEHOLDER = re.compile(r"\{[^}]*\}")
_CODE = re.compile(r"```.*?```|`[^`\n]*`|^    .*$", re.DOTALL | re.MULTILINE)
# A docstring names what is documented, or says what is returned: it does not begin with its grammatical role.
ROLE_FIRST = re.compile(r'"""\s*(What|Whether|Who)\b')
DOCUMENTED = ("shardlint", "rules", "scripts", "benchmarks")
GENERATED = (
    "rules.md",
    "messages.md",
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


def all_messages() -> list[messages.Message]:
    """Every message. Reading them takes seconds, which the workers without these tests do not spend."""
    return [*messages.rule_messages(), *messages.run_messages(), *messages.other_messages()]


@reads_messages
def test_messages_are_plain() -> None:
    assert [
        f"{one.place}: {odd[0]!r} in {text!r}"
        for one in all_messages()
        for text in (one.text, *one.advice)
        if (odd := IN_MESSAGES.search(_CODE.sub("X", _PLACEHOLDER.sub("X", text))))
    ] == []


@reads_messages
def test_the_first_line_of_a_message_is_short() -> None:
    """It ends at the first full stop, colon or semicolon, or with its line. A placeholder is a word, and so is code."""
    first = [
        (one, _END.split(_CODE.sub("X", _PLACEHOLDER.sub("X", one.text)).strip())[0]) for one in all_messages()
    ]
    assert [
        f"{one.place}: {len(line.split())} words: {line}"
        for one, line in first
        if len(line.split()) > MOST_WORDS
    ] == []


@reads_messages
def test_every_rule_and_command_has_messages() -> None:
    codes = {rule.code for rule in import_rules() if rule.code.startswith("SL") and not rule.code.startswith("SL0")}
    assert codes == {one.source for one in messages.rule_messages()}
    assert {one.source for one in messages.other_messages()} == set(messages.COMMANDS.values())
    assert len({one.source for one in messages.run_messages()}) > 40


def test_messages_are_read_from_literals_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
def _why(one, effect):
    message = f"{size_text(effect)}: "
    return message + f"because of {one.name!r}", "write P()"

def check(found, total):
    table = {"a": ("a", "`x` is lost", "keep it"), "b": ("b", f"{len(found)} are lost", "keep them")}
    kind, message, advice = table[found]
    yield RunFinding(kind, "f", 1, message, (), advice)

def explain(found, total):
    message, advice = _why(found, total)
    yield Explanation(message, help=advice)
"""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lost.py").write_text(text)
    monkeypatch.setattr(messages, "PACKAGE", tmp_path)
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    assert [(one.source, one.text, one.advice) for one in messages.run_messages.__wrapped__()] == [
        ("a", "`x` is lost", ("keep it",)),
        ("b", "{found} are lost", ("keep them",)),
        ("exception", "{effect}: because of {name}", ("write P()",)),
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_guide_is_plain(path: Path) -> None:
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), path.read_text("utf-8"))
    lines = enumerate(prose.splitlines(), 1)
    assert [f"{number}: {odd[0]}" for number, line in lines if (odd := OLD_STYLE.search(line))] == []


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    """Only files with such a string anywhere are parsed. The docstring of a variable is not checked."""
    assert [
        f"{path.relative_to(ROOT)}:{node.body[0].lineno}: {text.strip().splitlines()[0]}"
        for folder in DOCUMENTED
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ROLE_FIRST.search(source := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node, clean=False))
        and ROLE_FIRST.match(f'"""{text}')
    ] == []


def test_the_guides_are_few_and_short() -> None:
    guides = [
        path for path in (ROOT / "docs").glob("*.md") if path.name not in ("rules.md", "messages.md", "retired-rules.md")
    ]
    assert len(guides) <= MOST_GUIDES
    assert sum(path.stat().st_size for path in guides) <= MOST_BYTES


def test_retired_codes_are_not_used_again() -> None:
    retired = set(
        re.findall(r"^\| (SL\d{3}) \|", (ROOT / "docs" / "retired-rules.md").read_text("utf-8"), re.MULTILINE)
    )
    assert len(retired) > 30 and retired.isdisjoint(rule_entries())

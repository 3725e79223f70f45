"""Every rule against its proof folder. fixtures/README.md describes the files and their markers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from shardlint.rules_api.pages import EXAMPLE_LINES, HEADINGS, render_page
from shardlint.rules_api.registry import import_rules, rule_entries
from shardlint.rules_api.rule import Finding, Rule, Safety
from shardlint.testing import MARKER, Case, Mark
from shardlint.verify.proofs import read_proof

FIXTURES = Path(__file__).parent.parent / "fixtures"
DOCS = FIXTURES.parent / "docs" / "rules"
CODES = [code for code in rule_entries() if code.startswith("SL") and not code.startswith("SL0")]
MOST_WORDS = 20
CODE = re.compile(r"`[^`]*`")
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not CODES, reason="no rule pack is installed")


def _cases(code: str, *roles: str) -> Iterator[Case]:
    for path in sorted((FIXTURES / code).glob("*")):
        case = Case(code, path, beside=True)
        if (path.suffix == ".py" or path.is_dir()) and case.program_role in roles:
            yield case


def _named(*roles: str) -> list[object]:
    """The cases of those roles, each rule's in one worker: a case is checked once for all tests that look at it."""
    return [pytest.param(case, id=str(case), marks=pytest.mark.xdist_group(case.code)) for code in CODES for case in _cases(code, *roles)]


@cache
def _findings(case: Case) -> list[tuple[Mark, Finding]]:
    return case.findings()


@pytest.fixture(params=[pytest.param(code, marks=pytest.mark.xdist_group(code)) for code in CODES])
def rule(request: pytest.FixtureRequest) -> type[Rule]:
    return rule_entries()[request.param].load_rule()


def test_a_rule_has_its_proof(rule: type[Rule]) -> None:
    folder = FIXTURES / rule.code
    missing = [name for name in ("bad.py", "good.py", "proof.toml") if not (folder / name).is_file()]
    assert not missing, f"{folder} lacks {', '.join(missing)}"
    pytest.importorskip("packaging")
    read_proof(rule.code, folder)


def test_a_proof_shows_its_own_rule(rule: type[Rule]) -> None:
    shown = {mark.code for case in _cases(rule.code, "bad") for mark in case.expected_findings()}
    assert rule.code in shown, f"no line of a bad file is marked {rule.code}"


def test_a_proof_holds_no_stray_files(rule: type[Rule]) -> None:
    folder = FIXTURES / rule.code
    names = {p.name for p in folder.iterdir() if p.name not in ("__pycache__", "proof.toml")}
    stray = {
        name for name in names if name.removesuffix(".py").partition("_")[0] not in ("bad", "good", "quiet")
    }
    assert not stray


@pytest.mark.parametrize("case", _named("bad", "quiet", "good"))
def test_a_file_gives_exactly_the_marked_findings(case: Case) -> None:
    """All of a bad file, those of other rules in a quiet one, none in a good one."""
    case.check_findings(_findings(case))
    for _, finding in _findings(case):
        if finding.rule.code == case.code:
            _check_message(finding)


def _check_message(finding: Finding) -> None:
    """Fail unless a finding says the effect first, and what to write."""
    assert "\n" not in finding.message and finding.message.endswith(".")
    assert len(CODE.sub("code", finding.message).split()) <= MOST_WORDS, finding.message
    assert not finding.message.startswith("in "), "the call chain comes after the effect"
    assert finding.fix is not None or finding.help, "the finding does not say what to write"


@pytest.mark.parametrize("case", _named("bad"))
def test_fixing_bad_gives_good(case: Case) -> None:
    """In which nothing is found: so a second fix finds nothing to change."""
    case.check_fix(_findings(case))


def test_fixes_are_as_the_rule_says(rule: type[Rule]) -> None:
    kinds: set[Safety] = set()
    proven = False
    for case in _cases(rule.code, "bad"):
        found = {f.fix.safety for _, f in _findings(case) if f.rule is rule and f.fix is not None}
        kinds |= found
        proven = proven or bool(found - ({Safety.UNSAFE} if case.safe_only else set()))
    said = {
        "none": set(),
        "safe": {Safety.SAFE},
        "unsafe": {Safety.UNSAFE},
        "both": {Safety.SAFE, Safety.UNSAFE},
    }
    assert kinds == said[rule.fixes], (
        f"fixes = {rule.fixes!r}, and the fixtures show {sorted(kinds) or 'none'}"
    )
    assert proven or rule.fixes == "none", "no pair of files proves the fix"


def test_the_docstring_is_a_page(rule: type[Rule]) -> None:
    doc = rule.__doc__ or ""
    headings = re.findall(r"^\s*## (.+?)\s*$", doc, re.MULTILINE)
    expected = [
        heading
        for heading in HEADINGS
        if heading in headings or heading == "Reports" or (heading == "Fix" and rule.fixes != "none")
    ]
    assert headings == expected and "Example" not in headings
    assert "TODO" not in doc
    first = doc.strip().splitlines()[0]
    assert first.endswith("."), "the first line is a sentence"


def test_the_examples_of_a_page_are_short_and_show_the_mistake(rule: type[Rule]) -> None:
    bad = FIXTURES / rule.code / "bad.py"
    blocks = FENCE.findall(render_page(rule).partition("## Example")[2])
    assert len(blocks) >= 2 and all(len(block.splitlines()) <= EXAMPLE_LINES for block in blocks)
    marked = [
        text
        for text in bad.read_text("utf-8").splitlines()
        if (mark := MARKER.search(text)) and rule.code in mark[0]
    ]
    assert any(MARKER.sub("", text).strip() in blocks[0] for text in marked)


@pytest.mark.parametrize("code", [code for code in rule_entries() if code.startswith("SL0")])
def test_a_page_of_the_engine_has_its_own_examples(code: str) -> None:
    text = (DOCS / f"{code}.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[:3] == ["Reports", "Example", "Write instead"] and set(headings) <= set(HEADINGS)
    assert "shardlint verify" not in text


def test_codes_and_names_are_unique() -> None:
    names = Counter(rule.name for rule in import_rules())
    assert [name for name, count in names.items() if count > 1] == []
    classes = Counter(rule.code for rule in import_rules())
    assert [code for code, count in classes.items() if count > 1] == []


def test_names_are_claims_in_kebab_case(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)


def test_every_proof_folder_has_a_rule() -> None:
    folders = {path.parent.name for path in FIXTURES.glob("*/proof.toml")}
    assert folders <= set(rule_entries()), f"folders without a rule: {sorted(folders - set(rule_entries()))}"

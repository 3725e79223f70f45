"""Tests of the ledger: each likely form has evidence, and the entries are valid."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.rules_api import ledger, pages
from shardlint.rules_api.registry import import_rules, ledger_folders, rule_entries
from shardlint.rules_api.rule import Rule
from tests.conftest import Write
from tests.loading import load

script = load("ledger")
recall = load("recall")
ROW = {
    "rule": "SL201", "form": "", "verdict": "right", "repository": "a/b", "commit": "c" * 40,
    "path": "x.py", "line": 3, "reason": "it is",
}  # fmt: skip
RULES = [rule for rule in import_rules() if rule.code.startswith("SL")]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.likely], ids=lambda rule: rule.code)
def test_a_likely_form_has_evidence_or_a_contract(rule: type[Rule]) -> None:
    judged = ledger.figures_by_form(ledger.judged_findings(rule.code))
    projects = recall.projects_with_mistakes()
    for form in rule.likely:
        figures, recorded = judged.get(form, ledger.Figures()), projects.get((rule.code, form), ())
        assert rule.assumptions.get(form) or ledger.is_evidence_sufficient(figures, len(recorded)), (
            f"{rule.code} {form}: {figures}; recorded mistakes in {len(recorded)} projects; no contract"
        )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_an_assumption_belongs_to_a_likely_form(rule: type[Rule]) -> None:
    assert set(rule.assumptions) <= set(rule.likely)


def test_there_are_likely_forms() -> None:
    assert sum(len(rule.likely) for rule in RULES) >= 5


@pytest.mark.parametrize(
    ("figures", "projects", "earns"),
    [
        (ledger.Figures(right=9, wrong=1, repositories=2), 0, True),
        (ledger.Figures(right=8, wrong=2, repositories=5), 0, False),
        (ledger.Figures(right=8, wrong=2, repositories=5), 7, False),
        (ledger.Figures(right=18, repositories=1), 0, False),
        (ledger.Figures(right=18, repositories=1), 1, False),
        (ledger.Figures(right=1, repositories=1), 2, True),
        (ledger.Figures(harmless=10), 0, False),
        (ledger.Figures(), 0, False),
        (ledger.Figures(), 1, False),
        (ledger.Figures(), 2, True),
    ],
)
def test_what_earns_likely(figures: ledger.Figures, projects: int, earns: bool) -> None:
    assert ledger.is_evidence_sufficient(figures, projects) is earns


def test_the_ledger_is_in_order() -> None:
    for folder in ledger_folders():
        for path in folder.iterdir():
            judged = list(ledger.read_judgements(path))
            assert judged and {one.rule for one in judged} == {path.stem}
            assert path.stem in rule_entries()
            assert len({one.place_key for one in judged}) == len(judged), f"{path.name} judges a place twice"


def test_no_builtin_rule_calls_a_finding_likely_by_itself() -> None:
    root = Path(__file__).parent.parent / "rules"
    assert not [path.name for path in root.rglob("*.py") if "Certainty.LIKELY" in path.read_text("utf-8")]
    assert {rule.certainty for rule in RULES} == {Certainty.PROVEN, Certainty.POSSIBLE}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "fine"}, "write one of right, harmless, wrong"),
        ({"reason": " "}, "no reason"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "SL201.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | change)}\n", "utf-8")
    with pytest.raises(ledger.BadLedger, match=f"SL201.jsonl:2: .*{said}"):
        list(ledger.read_judgements(path))


def test_verdicts_are_added_once_and_the_later_one_counts(tmp_path: Path) -> None:
    assert script.add_verdicts([ROW, ROW | {"line": 1, "message": "m", "text": "t"}], tmp_path) == 2
    assert script.add_verdicts([ROW | {"verdict": "wrong"}], tmp_path) == 0
    judged = list(ledger.read_judgements(tmp_path / "SL201.jsonl"))
    assert [(one.line, one.verdict) for one in judged] == [(1, "right"), (3, "wrong")]
    assert asdict(judged[0]) == ROW | {"line": 1}


def test_nothing_is_added_when_a_verdict_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ledger.BadLedger, match="verdict 2"):
        script.add_verdicts([ROW, ROW | {"verdict": "", "line": 9}], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("pack")
def test_what_is_not_judged_is_listed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"x.py": "import jax.numpy as jnp\njnp.prod(1)\njnp.prod(1, 2)\n", "setup.cfg": ""})
    options = Options(certainty=Certainty.POSSIBLE, select=("XT301",))
    found = list(script.find_unjudged("a/b", "c0", root, options))
    assert [(row["rule"], row["form"], row["path"], row["line"]) for row in found] == [
        ("XT301", "one", "x.py", 2),
        ("XT301", "two", "x.py", 3),
    ]
    known = ledger.parse_judgement({**{key: found[0][key] for key in ROW}, "verdict": "right", "reason": "it is"})
    monkeypatch.setattr(ledger, "judged_findings", lambda code: [known])
    assert [row["line"] for row in script.find_unjudged("a/b", "c0", root, options)] == [3]
    assert [row["line"] for row in script.find_unjudged("a/b", "c1", root, options)] == [2, 3]


@pytest.mark.usefixtures("pack")
def test_a_page_shows_how_its_rule_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rule_entries()["XT301"].load_rule()
    assert "Judged" not in pages.render_page(rule)
    rows = [ledger.parse_judgement(ROW | {"form": "two", "line": n, "verdict": v}) for n, v in enumerate(
        ["right", "right", "harmless", "wrong"])]  # fmt: skip
    monkeypatch.setattr(pages, "judged_findings", lambda code: rows)
    page = pages.render_page(rule)
    assert "certainty: proven or likely" in page
    assert "| two | 2 | 1 | 1 | 75% |" in page


# recall


def mistake(**change: Any) -> Any:
    facts = {
        "id": "C1", "repository": "a/b", "commit": "c", "parent": "HEAD", "path": "pkg/x.py", "lines": (4,),
        "category": "device-put-in-jit", "family": "placement-lost-or-noop", "tier": "T1-syntactic", "description": "d",
    }  # fmt: skip
    return recall.Mistake(**facts | change)


def told(code: str, line: int, end_line: int | None = None) -> dict[str, Any]:
    return {"code": code, "line": line, "end_line": end_line or line}


def test_a_finding_within_one_line_and_about_it_counts() -> None:
    assert mistake().hit_by(told("SL201", 3)) and mistake().hit_by(told("SL201", 5))
    assert mistake().hit_by(told("SL201", 1, 3))
    assert not mistake().hit_by(told("SL201", 6)) and not mistake().hit_by(told("SL201", 1, 2))
    assert not any(mistake().hit_by(told(code, 4)) for code in ("SL901", "SL315", "SL504", "SL513", "SL002"))
    assert mistake(family="pmap-legacy").hit_by(told("SL901", 4))
    assert mistake(category="removed-api").hit_by(told("SL315", 4))


@pytest.fixture
def mirrors(tmp_path: Path) -> Path:
    """A mirror with one commit that has the mistake."""
    made, work = tmp_path / "mirrors", tmp_path / "work"
    (work / "pkg").mkdir(parents=True)
    (work / "pkg" / "x.py").write_text("import jax\n\n\njax.device_put(1, s)\n", "utf-8")
    (work / "pyproject.toml").write_text("[project]\nname = 'x'\n", "utf-8")
    (work / "data.bin").write_bytes(b"\0" * 10)
    git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(made / "a+b" / "repo")], check=True)
    return made


def test_a_commit_is_laid_out_and_checked(mirrors: Path) -> None:
    found, missed = recall.check_mistakes([mistake(), mistake(id="C2", lines=(1,))], mirrors, "possible")
    assert [(hit.rule, hit.certainty) for hit in found.hits] == [("SL203", "proven")]
    assert found.seconds > 0 and found.is_found(recall.DEFAULT) and not missed.hits


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"repository": "no/such"}, "no mirror"),
        ({"parent": "0" * 40}, "Not a valid object|not a tree|bad object"),
        ({"path": "pkg/y.py"}, "lacks the file"),
    ],
)
def test_what_is_not_available_is_said(mirrors: Path, change: dict[str, Any], reason: str) -> None:
    import re

    (result,) = recall.check_mistakes([mistake(**change)], mirrors, "possible")
    assert re.search(reason, result.unavailable) and not result.hits


def test_the_page_of_recall_counts_default_and_possible() -> None:
    every = [mistake(), mistake(id="C2"), mistake(id="C3", tier="T5-not-static", reason="at run time"),
             mistake(id="C4", repository="no/such")]  # fmt: skip
    hit = {name: recall.Hit("SL201", "", name) for name in Certainty}
    known = {
        "C1": recall.Result("C1", (hit[Certainty.LIKELY],)),
        "C2": recall.Result("C2", (hit[Certainty.POSSIBLE],)),
        "C3": recall.Result("C3"),
        "C4": recall.Result("C4", unavailable="no mirror"),
    }
    page = recall.recall_page(every, known)
    assert "| T1 to T4 | 2 | 1 | 2 |" in page and "| all | 3 | 1 | 2 |" in page
    assert "| at run time |" in page and "| no mirror |" in page


def test_every_result_is_of_a_recorded_mistake() -> None:
    every = {one.id for one in recall.all_mistakes()}
    assert len(every) == len(recall.all_mistakes()) > 200
    assert set(recall.last_results()) == every

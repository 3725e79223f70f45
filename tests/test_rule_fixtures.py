"""Every rule against its proof folder. fixtures/README.md describes the files and their markers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.engine.run import check
from shardlint.rules_api.headers import header
from shardlint.rules_api.pages import HEADINGS
from shardlint.rules_api.registry import entries, rules
from shardlint.rules_api.rule import Rule, Safety
from shardlint.testing import MARKER, Case
from shardlint.verify.proofs import read_proof

FIXTURES = Path(__file__).parent.parent / "fixtures"
DOCS = FIXTURES.parent / "docs" / "rules"
CODES = [code for code in entries() if code.startswith("SL") and not code.startswith("SL0")]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not CODES, reason="no rule pack is installed")


def _cases(*roles: str) -> Iterator[Case]:
    for code in CODES:
        for path in sorted((FIXTURES / code).glob("*")):
            case = Case(code, path, beside=True)
            if (path.suffix == ".py" or path.is_dir()) and case.role in roles:
                yield case


def _named(*roles: str) -> list[object]:
    return [pytest.param(case, id=str(case)) for case in _cases(*roles)]


@pytest.fixture(params=CODES)
def rule(request: pytest.FixtureRequest) -> type[Rule]:
    return entries()[request.param].load()


def test_a_rule_has_its_proof(rule: type[Rule]) -> None:
    folder = FIXTURES / rule.code
    missing = [name for name in ("bad.py", "good.py", "proof.toml") if not (folder / name).is_file()]
    assert not missing, f"{folder} lacks {', '.join(missing)}"
    pytest.importorskip("packaging")
    read_proof(rule.code, folder)


def test_a_proof_shows_its_own_rule(rule: type[Rule]) -> None:
    shown = {mark.code for case in _cases("bad") if case.code == rule.code for mark in case.marked()}
    assert rule.code in shown, f"no line of a bad file is marked {rule.code}"


def test_a_proof_holds_no_stray_files(rule: type[Rule]) -> None:
    folder = FIXTURES / rule.code
    names = {p.name for p in folder.iterdir() if p.name not in ("__pycache__", "proof.toml")}
    stray = {
        name for name in names if name.removesuffix(".py").partition("_")[0] not in ("bad", "good", "quiet")
    }
    assert not stray


@pytest.mark.parametrize("case", _named("bad"))
def test_a_bad_file_gives_exactly_the_marked_findings(case: Case) -> None:
    case.check_findings()


@pytest.mark.parametrize("case", _named("quiet"))
def test_a_quiet_file_gives_only_what_other_rules_are_marked_for(case: Case) -> None:
    case.check_findings()


@pytest.mark.parametrize("case", _named("good"))
def test_a_good_file_gives_none(case: Case) -> None:
    case.check_findings()


@pytest.mark.parametrize("case", _named("bad"))
def test_fixing_bad_gives_good(case: Case) -> None:
    if not case.check_fix():
        pytest.skip("nothing in it has a fix")


def test_fixes_are_as_the_rule_says(rule: type[Rule], tmp_path: Path) -> None:
    kinds: set[Safety] = set()
    proven = False
    for number, case in enumerate(case for case in _cases("bad") if case.code == rule.code):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = {f.fix.safety for _, f in case.found(folder) if f.rule is rule and f.fix is not None}
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
    given = [h for h in HEADINGS if h != "Example" and (h != "Fix safety" or rule.fixes != "none")]
    expected = [h for h in given if h in headings or h not in ("Use instead", "Evidence")]
    assert headings == expected, f"headings are {headings}, not {expected}"
    assert "```" not in doc, "the examples are bad.py and good.py"
    first = doc.strip().splitlines()[0]
    assert first.endswith("."), "the first line is a sentence"


@pytest.mark.parametrize(("heading", "name"), [("Example", "bad.py"), ("Use instead", "good.py")])
def test_a_block_of_the_page_is_the_program_of_the_proof(
    rule: type[Rule], heading: str, name: str, tmp_path: Path
) -> None:
    """`shardlint verify --rules` runs those programs: see docs/matrix.md."""
    text = (DOCS / f"{rule.code}.md").read_text("utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    blocks = FENCE.findall(section[1])
    assert len(blocks) == 1, f"{heading} is one whole program"
    case = Case(rule.code, FIXTURES / rule.code / name, beside=True)
    lines = case.path.read_text("utf-8").splitlines()
    said = header(case.path.read_text("utf-8"))
    above = len(lines) - len(said.text.splitlines())
    assert blocks[0].splitlines() == [MARKER.sub("", line).rstrip() for line in lines[above:]]
    conditions = [*(part.replace("=", " ") for part in (*said.targets, *said.options)), *said.settings]
    for condition in conditions if name == "bad.py" else ():
        assert condition in section[1], f"{heading} does not say {condition}"

    file = tmp_path / "shown.py"
    file.write_text(blocks[0], "utf-8")
    if said.settings:
        (tmp_path / "shardlint.toml").write_text(said.toml, "utf-8")
    report = check([file], case.options())
    found = Counter(
        (one.source.position(finding.start)[0] + above, finding.rule.code)
        for one in report.reports
        for finding in one.findings
    )
    marked = Counter((line, code) for _, line, code in case.marked()) if name == "bad.py" else Counter()
    assert found == marked


@pytest.mark.parametrize("code", [code for code in entries() if code.startswith("SL0")])
def test_a_page_of_the_engine_has_its_own_examples(code: str) -> None:
    text = (DOCS / f"{code}.md").read_text("utf-8")
    assert "## Use instead" in text
    assert "shardlint verify" not in text


def test_codes_and_names_are_unique() -> None:
    names = Counter(rule.name for rule in rules())
    assert [name for name, count in names.items() if count > 1] == []
    classes = Counter(rule.code for rule in rules())
    assert [code for code, count in classes.items() if count > 1] == []


def test_names_are_claims_in_kebab_case(rule: type[Rule]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)


def test_every_proof_folder_has_a_rule() -> None:
    folders = {path.parent.name for path in FIXTURES.glob("*/proof.toml")}
    assert folders <= set(entries()), f"folders without a rule: {sorted(folders - set(entries()))}"

"""`shardlint.testing`: right rules pass, and whatever is wrong with a rule fails in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.rules_api import registry
from shardlint.testing import Case, cases, check_rule, check_text

Rules = Callable[[str], None]

RULE = """
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety

RULES = {{"ZZ101": "zz:Old"}}
PROOFS = ({proofs!r},)


class Old(Rule):
    \"\"\"`jax.old` is new.\"\"\"

    code = "ZZ101"
    name = "old-is-new"
    harm = Harm.REMOVED
    triggers = (Calls("jax.old", "jax.new"),)
    fixes = "safe"

    def check(self, site):
        start, end = site.file.character_span(site.call.func)
        text = site.file.source_text(site.call.func)
{body}
"""
RIGHT = """
        if text.endswith("old"):
            fix = Fix(Safety.SAFE, "write new", (Edit(end - 3, end, "new"),))
            yield site.finding(site.call, "It is old.", fix=fix)
"""
BAD = "import jax\n\nx = jax.old(1)  # ZZ101\n"
GOOD = "import jax\n\nx = jax.new(1)  # ZZ101\n"
QUIET = "import jax\n\nx = jax.other(1)\n"


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rules:
    """Installs a pack with one rule, of which the body of `check` is given, and programs for it."""
    pack = tmp_path / "pack"
    proofs = pack / "proofs" / "ZZ101"
    proofs.mkdir(parents=True)
    (pack / "zz-1.0.dist-info").mkdir()
    (pack / "zz-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: zz\nVersion: 1.0\n")
    (pack / "zz-1.0.dist-info" / "entry_points.txt").write_text("[shardlint.rules]\nzz = zz\n")
    (proofs / "proof.toml").touch()
    for name, text in (("bad", BAD), ("good", GOOD), ("quiet", QUIET)):
        (proofs / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(pack)

    def make(body: str) -> None:
        (pack / "zz.py").write_text(RULE.format(proofs=str(pack / "proofs"), body=body))
        monkeypatch.delitem(__import__("sys").modules, "zz", raising=False)
        registry.forget_packs()

    monkeypatch.setattr("sys.dont_write_bytecode", True)
    yield make  # type: ignore[misc]
    monkeypatch.undo()
    registry.forget_packs()


def test_a_right_rule_passes(rule: Rules) -> None:
    rule(RIGHT)
    check_rule("ZZ101")
    assert [str(case) for case in cases("ZZ101")] == ["ZZ101-bad.py", "ZZ101-good.py", "ZZ101-quiet.py"]
    check_text("ZZ101", BAD, GOOD)
    check_text("ZZ101", QUIET)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("        return\n        yield\n", "marked but not found: bad.py:3 ZZ101"),
        (RIGHT.replace('endswith("old")', "startswith('jax')"), "what fix makes"),
        (RIGHT.replace('"new")', '"knew")'), "+x = jax.knew(1)  # ZZ101"),
        (RIGHT.replace("fix=fix", ""), ""),
        ("        raise KeyError(text)\n        yield\n", "failed at line 3: KeyError"),
        (
            RIGHT + "            yield site.finding(site.file.tree.body[0], 'Here.')\n",
            "not marked: bad.py:1 ZZ101",
        ),
    ],
)
def test_a_wrong_rule_fails(rule: Rules, body: str, told: str) -> None:
    rule(body)
    with pytest.raises(AssertionError) as failed:
        check_rule("ZZ101")
        check_text("ZZ101", BAD, GOOD)
    assert told in str(failed.value)


def test_a_fix_that_is_never_done_fails(rule: Rules, tmp_path: Path) -> None:
    body = RIGHT.replace('endswith("old")', 'startswith("jax")').replace("end - 3, end", "end, end")
    rule(body.replace('"new"', '".new"'))
    with pytest.raises(AssertionError):
        Case("ZZ101", tmp_path / "pack" / "proofs" / "ZZ101" / "bad.py").check()


def test_a_quiet_program_must_be_quiet(rule: Rules, tmp_path: Path) -> None:
    rule(RIGHT)
    quiet = tmp_path / "pack" / "proofs" / "ZZ101" / "quiet.py"
    quiet.write_text(BAD)
    with pytest.raises(AssertionError, match=r"is not quiet: quiet.py:3 ZZ101"):
        Case("ZZ101", quiet).check()


def test_what_is_missing_is_said(rule: Rules, tmp_path: Path) -> None:
    rule(RIGHT)
    proofs = tmp_path / "pack" / "proofs" / "ZZ101"
    (proofs / "good.py").unlink()
    with pytest.raises(AssertionError, match=r"so good.py must say to what"):
        check_rule("ZZ101")
    (proofs / "bad.py").write_text(BAD.replace("  # ZZ101", ""))
    with pytest.raises(AssertionError, match=r"has no marked line"):
        check_rule("ZZ101")
    (proofs / "bad.py").unlink()
    with pytest.raises(AssertionError, match=r"no program with the mistake"):
        check_rule("ZZ101")
    with pytest.raises(AssertionError, match=r"ZZ999 has no folder of programs"):
        cases("ZZ999")


def test_headers_and_folders_hold(rule: Rules, tmp_path: Path) -> None:
    rule(RIGHT)
    folder = tmp_path / "programs"
    (folder / "bad_two").mkdir(parents=True)
    (folder / "good_two").mkdir()
    for name, text in (("bad_two", BAD), ("good_two", GOOD)):
        (folder / name / "a.py").write_text(text)
        (folder / name / "b.py").write_text("from a import x\n")
    check_rule("ZZ101", folder)
    (folder / "bad_odd.py").write_text(f"# options: pedant\n{BAD}")
    with pytest.raises(AssertionError, match=r"unknown options"):
        check_rule("ZZ101", folder)


def test_marks_for_other_rules_count_beside_them_only(rule: Rules, tmp_path: Path) -> None:
    rule(RIGHT)
    both = tmp_path / "bad.py"
    both.write_text(BAD.replace("# ZZ101", "# SL201, ZZ101"))
    Case("ZZ101", both).check_findings()
    with pytest.raises(AssertionError, match=r"marked but not found: bad.py:3 SL201"):
        Case("ZZ101", both, beside=True).check_findings()

"""The scaffold of a rule: in its place, and failing until it is filled in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loading import load

ROOT = Path(__file__).parent.parent
new_rule = load("new_rule")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the parts of this checkout that the scaffold changes, and of the tests that read them."""
    top = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "rules", top / "rules", ignore=ignore)
    shutil.copytree(ROOT / "fixtures" / "SL201", top / "fixtures" / "SL201", ignore=ignore)
    for name in ("tests/test_rule_fixtures.py", "pyproject.toml"):
        (top / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, top / name)
    return top


@pytest.mark.longer
def test_a_new_rule_fails_every_test_of_its_proof(checkout: Path) -> None:
    written = new_rule.create_rule_files(checkout, "SL299", "made-up-mistake", "jit")
    assert {str(path.relative_to(checkout)) for path in written} == {
        "rules/shardlint_rules/jit/made_up_mistake.py",
        "rules/shardlint_rules/__init__.py",
        "fixtures/SL299/bad.py",
        "fixtures/SL299/good.py",
        "fixtures/SL299/quiet.py",
        "fixtures/SL299/proof.toml",
    }
    code = f"""
import sys
sys.path.insert(0, {str(checkout / "rules")!r})
import pytest
options = ["-q", "-p", "no:cacheprovider", "-k", "SL299"]
sys.exit(pytest.main([*options, "tests/test_rule_fixtures.py"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, text=True, capture_output=True, timeout=120
    )
    failed = {
        line.split("::")[1].split("[")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")
    }
    assert {
        "test_a_rule_has_its_proof",
        "test_a_file_gives_exactly_the_marked_findings",
        "test_the_docstring_is_a_page",
    } <= failed, done.stdout


def test_entries_stay_in_order(checkout: Path) -> None:
    table = checkout / "rules" / "shardlint_rules" / "__init__.py"
    for code, name in (("SL299", "made-up-mistake"), ("SL999", "last-mistake")):
        new_rule.create_rule_files(checkout, code, name, "jit")
    codes = [
        line.split('"')[1] for line in table.read_text("utf-8").splitlines() if line.startswith('    "SL')
    ]
    assert codes == sorted(codes)
    assert {"SL201", "SL299", "SL999"} <= set(codes)


@pytest.mark.parametrize(
    ("code", "name", "folder", "said"),
    [
        ("SL2", "made-up-mistake", "jit", "not a code"),
        ("SL299", "MadeUp", "jit", "not a name"),
        ("SL299", "made-up-mistake", "nowhere", "not a folder of rules"),
        ("SL201", "made-up-mistake", "jit", "taken"),
        ("SL299", "device-put-in-jit", "jit", "taken"),
    ],
)
def test_what_cannot_be_a_rule_is_refused(
    checkout: Path, code: str, name: str, folder: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        new_rule.create_rule_files(checkout, code, name, folder)

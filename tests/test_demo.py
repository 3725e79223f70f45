"""The demo, and that it would not call a failure a success."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from tests.loading import load
from tests.programs import skip_without

pytestmark = pytest.mark.longer

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "fixtures" / "projects" / "charlm"
FIXTURES = ("charlm.model:make_model", "charlm.optim:init_optimizer")


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return load("demo")


def test_it_passes() -> None:
    skip_without("jax", "optax")
    done = subprocess.run(
        [sys.executable, "scripts/demo.py"], cwd=ROOT, text=True, capture_output=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "Demo passed" in done.stdout.splitlines()[-2]
    assert len(done.stdout.splitlines()) < 100
    assert "10 passed, 0 failed, 0 skipped" in done.stdout


def test_check_finds_the_mistakes_that_have_rules() -> None:
    targets = {"jax": "0.12.0", "equinox": "0.13.8"}
    report = check_paths([PROJECT], Options(targets=targets))
    found = {(file.path.name, finding.rule.code) for file in report.reports for finding in file.findings}
    assert found == {
        ("train.py", "SL101"),
        ("sharding.py", "SL201"),
        ("model.py", "SL203"),
        ("evaluate.py", "SL214"),
    }


def outcomes(demo: ModuleType, first: str, second: str) -> dict[str, str]:
    report = (
        f"{first} {FIXTURES[0]}  mesh data=4  level compile\n{second} {FIXTURES[1]}  mesh data=4  level x\n"
    )
    found: dict[str, str] = demo.outcome_by_fixture(report)
    return found


def test_it_knows_success(demo: ModuleType) -> None:
    before, one_left, after = (
        outcomes(demo, *statuses) for statuses in (("FAIL", "FAIL"), ("PASS", "FAIL"), ("PASS", "PASS"))
    )
    assert demo.find_problems(before, one_left, after) == []
    assert demo.find_problems(before, after, after) == []


@pytest.mark.parametrize(
    ("before", "fixed", "after", "said"),
    [
        (("PASS", "FAIL"), ("PASS", "FAIL"), ("PASS", "PASS"), "make_model did not fail before"),
        (("SKIP", "FAIL"), ("PASS", "FAIL"), ("PASS", "PASS"), "make_model did not fail before"),
        (("FAIL", "FAIL"), ("PASS", "FAIL"), ("PASS", "SKIP"), "init_optimizer still fails"),
        (("FAIL", "FAIL"), ("FAIL", "FAIL"), ("PASS", "PASS"), "make_model still fails after"),
        (("FAIL", "FAIL"), ("PASS", "FAIL"), ("PASS", "FAIL"), "init_optimizer still fails"),
    ],
)
def test_it_knows_failure(
    demo: ModuleType, before: tuple[str, str], fixed: tuple[str, str], after: tuple[str, str], said: str
) -> None:
    found = demo.find_problems(*(outcomes(demo, *statuses) for statuses in (before, fixed, after)))
    assert any(said in problem for problem in found), found


def test_fixtures_that_vanish_are_noticed(demo: ModuleType) -> None:
    before, fixed = outcomes(demo, "FAIL", "FAIL"), outcomes(demo, "PASS", "FAIL")
    assert demo.find_problems(before, fixed, {FIXTURES[1]: "PASS"}) == [
        "not the same fixtures were verified each time"
    ]
    assert demo.find_problems({}, {}, {}) != []


def test_one_failing_level_is_a_failure(demo: ModuleType) -> None:
    report = (
        f"PASS {FIXTURES[0]}  level compile\nFAIL {FIXTURES[0]}  level execute\nPASS {FIXTURES[0]}  level x\n"
    )
    assert demo.outcome_by_fixture(report) == {FIXTURES[0]: "FAIL"}
    assert demo.outcome_by_fixture(f"PASS {FIXTURES[0]}  level compile\nSKIP {FIXTURES[0]}  level x\n") == {
        FIXTURES[0]: "PASS"
    }


def test_a_report_is_cut_to_one_result_of_each_function(demo: ModuleType) -> None:
    report = f"""\
FAIL {FIXTURES[0]}  level compile
  out {"x" * 200}
  fn: y
PASS {FIXTURES[0]}  level execute
  moves
SKIP {FIXTURES[1]}  level compile
PASS {FIXTURES[1]}  level execute

1 passed, 1 failed, 1 skipped
note: z"""
    assert demo.shorten_report(report).splitlines() == [
        f"FAIL {FIXTURES[0]}  level compile",
        "  out ...",
        f"PASS {FIXTURES[1]}  level execute",
        "1 passed, 1 failed, 1 skipped",
    ]


def test_a_step_that_breaks_down_ends_it(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="broke down"):
        demo.run_command(tmp_path, "check", "--no-such-option")

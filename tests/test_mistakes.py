"""The recall test set: which of its mistakes the check finds, and that it says nothing of the right twins."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.mistakes import score

NAMES = score.names()


def _known_wrong(name: str) -> list[pytest.MarkDecorator]:
    """A false finding in a right twin, where case.toml says why it is still there."""
    reason = score.case(name).get("false_finding")
    return [pytest.mark.xfail(strict=True, reason=reason)] if reason else []


@pytest.mark.parametrize("name", NAMES)
def test_mistake(name: str) -> None:
    """`found` in case.toml holds both ways: what is lost fails, and so does what is found and still listed as missed."""
    near = score.near_marks(name)
    if score.case(name)["found"]:
        assert near, "no finding within one line of the mark"
    else:
        assert not near, "found now: set found = true in case.toml"


@pytest.mark.parametrize("name", [pytest.param(name, marks=_known_wrong(name)) for name in NAMES])
def test_right_twin_is_quiet(name: str) -> None:
    assert score.findings(score.HERE / name / "good") == []


@pytest.mark.parametrize("name", NAMES)
def test_case_is_whole(name: str) -> None:
    case, bad, good = score.case(name), score.HERE / name / "bad", score.HERE / name / "good"
    marks = [category for marked in score.marks(bad).values() for _, category in marked]
    assert 1 <= len(marks) <= 2 and set(marks) == {case["category"]}
    assert score.marks(good) == {}
    files = [{path.relative_to(twin) for path in twin.rglob("*.*") if path.is_file()} for twin in (bad, good)]
    assert files[0] == files[1]
    changed = sum(
        line[0] in "+-" and not line.startswith(("+++", "---"))
        for path in files[0]
        for line in unified_diff((bad / path).read_text().splitlines(), (good / path).read_text().splitlines(), n=0)
    )
    assert 1 <= changed <= 20, "the twins differ by more than the mistake"
    lines = sum(len(path.read_text().splitlines()) for path in bad.rglob("*.*") if path.is_file())
    assert 60 <= lines <= 250
    assert set(case) >= {"family", "about", "silent", "release", "run", "bad_shows", "good_shows"}


def test_marks_are_taken_out(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import jax\nx = 1  # mistake: none\n")
    assert score.marks(tmp_path) == {"a.py": [(2, "none")]}
    assert score.MARK.sub("", (tmp_path / "a.py").read_text()) == "import jax\nx = 1\n"

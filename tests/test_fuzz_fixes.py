"""A small share of the fuzz of fixes, and that it would see what it looks for."""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from shardlint.rewrite.fix import FixedFile
from shardlint.rules_api.rule import Finding, RuleIdentity
from shardlint.source.decoding import decode_file
from tests.loading import load

pytestmark = [pytest.mark.longer, pytest.mark.skipif(os.name != "posix", reason="kills are of POSIX")]


def test_a_share_of_it_finds_nothing(tmp_path: Path) -> None:
    fuzz = load("fuzz_fixes")
    counts = fuzz.fix_batch(1, range(20), tmp_path / "programs", tmp_path / "kept")
    assert (counts["programs"], counts["failures"]) == (20, 0)
    assert counts["changed"] > 10 and counts["fixed"] > 20, "the programs leave nothing to fix"
    assert fuzz.make_program(1, 3) == fuzz.make_program(1, 3)
    counts = fuzz.kill_many_fixes(1, 3, tmp_path / "kills")
    assert (counts["kills"], counts["failures"]) == (3, 0)


def test_a_next_run_that_does_nothing_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz = load("fuzz_fixes")
    monkeypatch.setattr(fuzz, "fix_files", lambda *given, **options: None)
    new = dict.fromkeys(fuzz._FILES, "")
    assert fuzz.kill_one_fix(Random(1), tmp_path, new).startswith("not fixed by the next run: ['shared.py'")


def test_programs_are_python_and_hold_their_marked_lines() -> None:
    fuzz = load("fuzz_fixes")
    texts = [fuzz.make_program(2, number) for number in range(200)]
    for data, marks in texts:
        ast.parse(data)
        assert all(mark in data for mark in marks)
    everything = b"".join(data for data, _ in texts)
    assert all(part in everything for part in (b"\r\n", b"\n\t", b"# fmt: off", b"@kept", "(  # ünï".encode()))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b"x = 1\n# kept\n", b"y = 2\n# kept\n", ""),
        (b"x = 1\n# kept\n", b"y = (\n# kept\n", "does not parse"),
        (b"x = 1\n# kept\n", b"y = 2\n# Kept\n", "lost b'# kept'"),
        (b"x = 1\r\n# kept\r\n", b"y = 2\r\n# kept\n", "line ends changed"),
        (b"x = 1\n# kept\n", b"y = 2\n# kept", "the end or the byte order mark changed"),
    ],
)
def test_what_is_wrong_is_seen(before: bytes, after: bytes, said: str) -> None:
    path = Path("x.py")
    outcome = FixedFile(path, decode_file(path, before), decode_file(path, after))
    assert load("fuzz_fixes").explain_wrong_fix(outcome, [b"# kept"], Counter(), Counter()).startswith(said or "")
    outcome.done = [Finding(RuleIdentity("SL1", "x"), 0, 1, "", "")]
    if not said:
        assert load("fuzz_fixes").explain_wrong_fix(outcome, [b"# kept"], Counter(SL1=1), Counter(SL1=1)) == "left: ['SL1']"

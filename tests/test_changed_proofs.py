"""Which proofs `make test` runs: those of what changed, and a few of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loading import load

proofs = load("changed_proofs")
State = proofs.State
CODES = [f"SL{number}" for number in range(101, 300)]
NOW = {code: State("rule", "engine") for code in CODES}


def test_a_clean_clone_runs_a_few_from_all_families() -> None:
    chosen = proofs.choose_codes(NOW, {})
    assert len(chosen) == proofs.FEW
    assert {code[2] for code in chosen} == {"1", "2"}


@pytest.mark.parametrize(
    ("proven", "chosen"),
    [
        (NOW, []),
        ({**NOW, "SL203": State("older", "engine")}, ["SL203"]),
        ({code: state for code, state in NOW.items() if code != "SL203"}, ["SL203"]),
    ],
)
def test_what_holds_is_not_run_again(proven: dict[str, object], chosen: list[str]) -> None:
    assert proofs.choose_codes(NOW, proven) == chosen


def test_where_all_changed_at_most_so_many_run() -> None:
    assert len(proofs.choose_codes(NOW, dict.fromkeys(CODES, State("older", "engine")))) == proofs.MOST
    changed = {**dict.fromkeys(CODES, State("rule", "older")), "SL203": State("older", "older")}
    chosen = proofs.choose_codes(NOW, changed)
    assert "SL203" in chosen and len(chosen) == proofs.FEW


def test_a_rule_rests_on_its_helpers() -> None:
    (module,) = (entry.where.partition(":")[0] for entry in proofs.rule_entries().values() if entry.code == "SL409")
    files = proofs.modules_below(module)
    assert proofs.file_of(module) in files and len(files) > 1
    assert proofs.file_of("jax.numpy") is None


def test_what_is_recorded_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "RECORD", tmp_path / "build" / "proofs.json")
    assert proofs.read_record() == {}
    proofs.write_record(NOW)
    assert proofs.read_record() == NOW
    proofs.RECORD.write_text("[1")
    assert proofs.read_record() == {}

"""`--shard i/n`: every machine of a CI matrix makes the same split, and together they do everything once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shardlint.cli import verify as command
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import Run, json_report, text_report
from shardlint.verify.runner import Runner
from shardlint.verify.shard import Shard
from tests.programs import skip_without

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies


@hypothesis.given(costs=st.lists(st.floats(0, 1000), max_size=60), count=st.integers(1, 9))
@hypothesis.settings(deadline=None)
def test_shards_are_disjoint_complete_and_balanced(costs: list[float], count: int) -> None:
    units = list(range(len(costs)))
    parts = [Shard(index, count).select_units(units, costs) for index in range(1, count + 1)]
    assert sorted(unit for part in parts for unit in part) == units
    assert all(part == sorted(part) for part in parts)
    assert parts == [Shard(index, count).select_units(units, costs) for index in range(1, count + 1)]
    loads = [sum(costs[unit] for unit in part) for part in parts]
    # No shard could hand its least unit to another one and both be better off.
    for load, part in zip(loads, parts, strict=True):
        if part:
            assert load - min(costs[unit] for unit in part) <= min(loads) + 1e-6 * (1 + max(loads))


def test_as_many_as_there_are_when_all_cost_the_same() -> None:
    parts = [Shard(index, 3).select_units(list(range(10)), [1.0] * 10) for index in (1, 2, 3)]
    assert sorted(map(len, parts)) == [3, 3, 4]
    assert Shard(7, 8).select_units([1, 2], [1.0, 1.0]) == []
    assert [Shard(index, 99_999_999_999).select_units([1, 2], [1.0, 2.0]) for index in (1, 2, 3)] == [[2], [1], []]


def test_one_large_mesh_a_fixture_is_shared_out() -> None:
    units, costs = ["a8", "a512", "b8", "b512", "c8", "c512"], [24.0, 528.0] * 3
    parts = [Shard(index, 3).select_units(units, costs) for index in (1, 2, 3)]
    assert [sum("512" in unit for unit in part) for part in parts] == [1, 1, 1]
    assert [len(part) for part in parts] == [2, 2, 2]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", "1.0/2", "", "1 of 2"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shard such as 2/4: the second of four"):
        Shard.parse_shard(text)
    result = CliRunner().invoke(command.verify, ["--shard", text])
    assert result.exit_code == 2
    assert "is not a shard such as 2/4" in result.output


FILE = """
f = jax.jit(lambda x: x * 2)

a = Fixture(fn=f, meshes=[{"data": 4}, {"data": 8}], args=[X], out={"": P("data")})
odd = Fixture(fn=f, meshes=[{"data": 3}, {"data": 5}], args=[X], out={"": P("data")})
half = Fixture(fn=f, meshes=[{"data": 3}, {"data": 2}], args=[X], out={"": P("data")})
lost = Fixture(fn=f, meshes=["all:8"], args=[arg(shape=(8,))], out={"": P()})
"""


def test_together_the_shards_say_what_one_run_says(runner: Runner, tmp_path: Path) -> None:
    from tests.verify.conftest import PRELUDE

    file = tmp_path / "fx.py"
    file.write_text(PRELUDE + FILE)

    def told(shard: Shard | None) -> list[tuple[Any, ...]]:
        results = verify_fixtures(runner, Request({file: []}, levels=["compile"], shard=shard))
        return [(one.fixture, str(one.mesh), one.level, one.status) for one in results]

    whole = told(None)
    shards = [told(Shard(index, 3)) for index in range(1, 4)]
    assert sorted(result for shard in shards for result in shard) == sorted(whole)
    assert (f"{file}::odd", "None", "", "fail") in whole, "skipped everywhere, which takes all shards to see"
    assert not any(name.endswith("::half") and status == "fail" for name, _, _, status in whole)
    assert [status for name, *_, status in whole if name.endswith("::lost")] == ["fail"]
    assert max(map(len, shards)) - min(map(len, shards)) <= 3


def test_a_shard_may_have_only_what_is_skipped(runner: Runner, tmp_path: Path) -> None:
    from tests.verify.conftest import PRELUDE

    file = tmp_path / "fx.py"
    file.write_text(PRELUDE + FILE)
    request = Request({file: ["half"]}, levels=["compile"], shard=Shard(1, 2))
    results = verify_fixtures(runner, request)
    assert [(one.mesh, one.status) for one in results] == [({"data": 3}, "skip")]
    run = Run(results, {}, [], [], shard="1/2")
    assert run.exit_code() == 0
    assert "nothing was verified in shard 1/2: everything was skipped" in text_report(run, False)
    assert Run(results, {}, [], []).exit_code() == 1


def test_a_shard_may_have_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("jax")
    (tmp_path / "fx.py").write_text(
        "from shardlint.verify import Fixture, arg\n"
        'a = Fixture(fn=lambda x: x, meshes=[{"data": 2}], args=[arg(shape=(8,))], replicated_bytes_max=1)\n'
    )
    monkeypatch.chdir(tmp_path)
    empty = CliRunner().invoke(command.verify, ["fx.py", "--shard", "3/3"])
    assert empty.exit_code == 0, empty.output
    assert "shard 3/3 has no work: the other shards do it" in empty.output


def test_proofs_are_split_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which proofs a shard is given; running them is no different."""
    taken: list[list[str]] = []

    def instead(request: Request, *rest: Any) -> Run:
        taken.append([proof.code for proof in request.proofs])
        return Run([], {}, [], [], shard=str(request.shard or ""))

    monkeypatch.setattr(command, "run_request", instead)
    for options in ([], ["--shard", "1/3"], ["--shard", "2/3"], ["--shard", "3/3"]):
        CliRunner().invoke(command.verify, ["--rules", "SL1,SL2", *options])
    whole, *parts = taken
    assert len(whole) > 10
    assert sorted(code for part in parts for code in part) == whole
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_reports_say_which_part_they_are_of() -> None:
    run = Run([], {}, [], [], shard="2/4")
    assert json.loads(json_report(run, "1"))["shard"] == "2/4"
    assert "shard 2/4" in text_report(run, False)
    assert run.exit_code() == 0

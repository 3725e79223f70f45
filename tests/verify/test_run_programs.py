"""`shardlint run` on programs with one mistake each, and on their twins without it.

Every `bad.py` below `run_programs` marks the line a report must name (`# here SL203`: with that rule's code). Beside the
twin, other programs that come near the mistake may be there (`good_other.py`). Some thirty
run by default, each of another mechanism, and the twins of half of them; `SHARDLINT_ALL_PROGRAMS=1` runs all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.programs import skip_without
from tests.verify.running import Ran, run

ROOT = Path(__file__).parent / "data" / "run_programs"
ALL = sorted(path.name for path in ROOT.iterdir() if (path / "bad.py").exists())
FEW = (
    "003", "015", "026", "041", "045", "047", "053", "073", "091", "098", "107", "110", "132", "142", "145", "147",
    "150", "153", "161", "162", "166", "173", "178", "186", "189", "191", "192", "199", "200",
    "204", "205", "206", "207", "208", "210", "211", "213", "214", "215", "216",
)  # fmt: skip
LEAVES = {
    "085_leaves_of_a_checkpoint": "model.blocks[0].up.weight ",
    "092_nnx_optimizer_before_sharding": "optimizer.opt_state[0].mu['first']['up']['kernel'].value ",
}


def rights(name: str) -> list[Path]:
    """The programs without the mistake."""
    return sorted((ROOT / name).glob("good*.py"))


EVERY = bool(os.environ.get("SHARDLINT_ALL_PROGRAMS"))
NAMES = [name for name in ALL if EVERY or name[:3] in FEW or name in LEAVES]
TWINS = [name for at, name in enumerate(NAMES) if EVERY or at % 4 < 2 or len(rights(name)) > 1]
pytestmark = [pytest.mark.longer, pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked from one import of jax")]

# Programs share one import of jax. Two halves, so that two workers of the tests run each of them once.
HALVES = (NAMES[::2], NAMES[1::2])


def cases(names: Iterable[str]) -> list[Any]:
    """A test for each name, with the half it is of."""
    of = {name: number for number, half in enumerate(HALVES) for name in half}
    marks = [pytest.mark.xdist_group(f"run-programs-{number}") for number in range(len(HALVES))]
    return [pytest.param(name, id=name, marks=marks[of[name]]) for name in names]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Ran]:
    """How a program ended, and what its report says: all of its half are run when the first is asked for."""
    skip_without("jax", "optax")

    @cache
    def half(number: int) -> dict[Path, Ran]:
        twins = [path for name in HALVES[number] if name in TWINS for path in rights(name)]
        programs = [*(ROOT / name / "bad.py" for name in HALVES[number]), *twins]
        return run(programs, tmp_path_factory.mktemp("runs"))

    return lambda name, file: half(int(name in HALVES[1]))[ROOT / name / file]


def test_there_are_at_least_sixty() -> None:
    assert len(ALL) >= 60


@pytest.mark.parametrize("name", cases(NAMES))
def test_the_mistake_is_named_at_its_line(ran: Callable[[str, str], Ran], name: str) -> None:
    path = ROOT / name / "bad.py"
    one = ran(name, "bad.py")
    assert one.code == 0, one.output
    assert one.facts.notes == []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if mark := re.search(r"# here ?(\S*)", line):
            assert number in one.at(path), one.facts.found
            assert not mark[1] or mark[1] in one.at(path)[number]


@pytest.mark.parametrize("name", cases(TWINS))
def test_the_twin_has_no_finding(ran: Callable[[str, str], Ran], name: str) -> None:
    for path in rights(name):
        one = ran(name, path.name)
        assert one.code == 0, one.output
        assert [(path.name, found.kind, found.message) for found in one.facts.found] == []


@pytest.mark.parametrize("name", cases(LEAVES))
def test_arrays_are_called_what_the_program_calls_them(ran: Callable[[str, str], Ran], name: str) -> None:
    facts = ran(name, "bad.py").facts
    assert any(one.startswith(LEAVES[name]) for found in facts.found for one in found.arrays), facts.found
    shown = [array.where for each in facts.functions for one in each for array in one.program.arrays]
    assert not [where for where in shown if where.startswith("dynamic_donate") or ".states[" in where]


def test_the_page_of_findings_names_every_kind() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "run.md").read_text()
    source = root / "shardlint" / "run"
    kinds = set()
    for file in (*source.glob("*.py"), *(source / "observed").glob("*.py")):
        kinds |= set(re.findall(r'RunFinding\(\s*"([a-z-]+)"', file.read_text()))
    assert "discarded" in kinds
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []

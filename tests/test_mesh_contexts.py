"""`with mesh:` carried to jax.set_mesh: every function gives the numbers and the shardings that it gave before."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files
from tests.programs import Warmed

HERE = Path(__file__).parent / "data" / "mesh_contexts"
OPTIONS = Options(
    select=("SL315", "SL901", "SL902"), targets={"jax": "0.12.0", "flax": "0.12.12", "equinox": "0.13.8"}
)

# Flax 0.12.2 and newer reads the new context only: these get the shardings that they ask for, or stop raising.
READ_BY_FLAX = ("linen_logical", "nnx_specs")


def recorded(warmed: Warmed, folder: Path) -> dict[str, list[object]]:
    done = warmed.run(HERE / "record.py", folder)
    assert not done.returncode, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("name", "least"), [("plain", 42), ("joint", 9)])
def test_numbers_and_shardings_stay(name: str, least: int, tmp_path: Path, warmed: Warmed) -> None:
    before, after = HERE / name, tmp_path / name
    shutil.copytree(before, after, ignore=shutil.ignore_patterns("__pycache__"))
    (after / "pyproject.toml").touch()
    report = fix_files([after], OPTIONS, unsafe=True, write=True)
    left = [finding for outcome in report.fixed for finding in outcome.left]
    assert not left, [(one.rule.code, one.help) for one in left]
    assert not check_paths([after], OPTIONS).finding_count
    text = (after / "steps.py").read_text()
    assert "set_mesh" in text and "with MESH" not in text
    was, now = recorded(warmed, before), recorded(warmed, after)
    assert len(was) >= least
    assert {name for name, found in was.items() if raised(found)} <= {"nnx_specs"}, was
    assert not {name: found for name, found in now.items() if raised(found)}
    for function, found in was.items():
        if function not in READ_BY_FLAX:
            assert alike(now[function], found), (function, now[function], found)
    first, second = ([leaf[0] for leaf in each.get("linen_logical", [])[:1]] for each in (was, now))  # type: ignore[index]
    assert alike(first, second)


def alike(one: object, other: object) -> bool:
    """Return whether two records are equal, with numbers up to rounding, because the order of sums depends on the
    machine.
    """
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-5)
    return one == other


def raised(found: list[object]) -> bool:
    return isinstance(found[0], str) and "Error: " in found[0]

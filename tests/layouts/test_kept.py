"""Layouts that are kept from run to run rest on all that they were made from, and on no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths

MAIN = """\
import jax
import jax.numpy as jnp
import helpers
from helpers import *
from jax.sharding import NamedSharding, PartitionSpec as P
from middle import specs

mesh = jax.make_mesh((8,), ("data",))
x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, specs()))
y = jax.device_put(jnp.ones((8,)), NamedSharding(mesh, helpers.late()))
z = jax.device_put(jnp.ones((8,)), NamedSharding(mesh, starred()))
"""
MIDDLE = "from helpers import made\n\n\ndef specs():\n    return made()\n"
HELPERS = """\
from jax.sharding import PartitionSpec as P

AXES = ("data",)


def made():
    return P(*chosen())


def chosen():
    return AXES
"""
LONG = 'P("data", None, None)'


@pytest.mark.parametrize(
    ("helpers", "line"),
    [
        (HELPERS.replace('AXES = ("data",)', 'AXES = ("data", None, None)'), 9),
        (HELPERS.replace("return AXES", "return (*AXES, None, None)"), 9),
        (HELPERS.replace("return P(*chosen())", f"return {LONG}"), 9),
        (HELPERS.replace("\n\ndef chosen", "\n\nif True:\n    made = late = lambda: P(None, None, None)\n\n\ndef chosen"), 9),
        (HELPERS + f"\n\ndef late():\n    return {LONG}\n", 10),
        (HELPERS + f"\n\ndef starred():\n    return {LONG}\n", 11),
        (HELPERS + "\n\ndef unused():\n    return 1\n", 0),
    ],
)
def test_an_edit_in_an_imported_module_is_seen(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, helpers: str, line: int
) -> None:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "cache"))
    root = write({"main.py": MAIN, "middle.py": MIDDLE, "helpers.py": HELPERS})
    assert _lines(root, cached=True) == []
    (root / "helpers.py").write_text(helpers)
    found = _lines(root, cached=True)
    assert found == _lines(root, cached=False)
    assert found[:1] == ([line] if line else [])


def _lines(root: Path, *, cached: bool) -> list[int]:
    report = check_paths([root], Options(select=("SL302", "SL301", "SL303")), cached=cached)
    return [MAIN.count("\n", 0, one.start) + 1 for file in report.reports for one in file.findings]

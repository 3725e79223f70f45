"""Real child processes: one zygote serves all tests of this folder that need programs to run.

SHARDLINT_TEST_PYTHON names another interpreter for the programs, to try another release of jax.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify.levels import LEVELS
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import Result
from shardlint.verify.runner import Runner
from tests.programs import skip_without

skip_without("jax")

PRELUDE = """\
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as JP

from shardlint.verify import Fixture, P, arg

X = arg(shape=(8, 4), spec=P("data"))
MESH = {"data": 4, "model": 2}
"""

Verify = Callable[..., list[Result]]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that tests run keep nothing in the user's own folder for caches, and find nothing there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    python = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
    with Runner(python, seconds=60, memory=4 * 2**30, at_once=2) as started:
        yield started


@pytest.fixture
def verify(runner: Runner, tmp_path: Path) -> Verify:
    """Write a fixture file, verify it up to a level or at one `only`, and return its results."""

    def run(
        source: str,
        level: str | None = "compile",
        mesh: dict[str, int] | None = None,
        names: Any = (),
        only: str | None = None,
    ) -> list[Result]:
        file = tmp_path / "fx.py"
        file.write_text(PRELUDE + textwrap.dedent(source))
        levels = [] if level is None else LEVELS[: LEVELS.index(level) + 1]
        if level != "trace":  # said to who asks for it, even of Auto axes
            levels = [one for one in levels if one != "trace" or 'axis_types="explicit"' in source]
        levels = [only] if only else levels
        return verify_fixtures(runner, Request({file: list(names)}, mesh=mesh, levels=levels))

    return run


def kinds(result: Result) -> list[str]:
    return [failure.kind for failure in result.failures]

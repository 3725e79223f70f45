"""Tests that facts about files are freed with them, without a garbage collector: a run has none (decision 1)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

from shardlint.config.certainty import Certainty
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options
from shardlint.syntax import FileFacts

TEXT = '''
import jax
from jax.sharding import Mesh, PartitionSpec as P


def scaled(x, by, name):
    return x * by + named(name)


def named(name):
    return jax.lax.axis_index(name)


def outer(mesh, axis):
    def local(x):
        def inner(y):
            return [scaled(y, 2, axis) for _ in range(3)]

        parts = {"a": inner(x)}
        return jax.lax.psum(sum(parts["a"]), axis)

    return jax.shard_map(local, mesh=mesh, in_specs=P(axis), out_specs=P())


def main():
    mesh = jax.make_mesh((8,), ("data",))
    specs = {name: P(name) for name in ("data", "model")}
    step = jax.jit(outer(mesh, "data"), in_shardings=jax.sharding.NamedSharding(mesh, specs["model"]))
    return step(jax.numpy.ones(8))
'''


def test_nothing_is_left_of_a_project(write: Callable[[dict[str, str]], Path]) -> None:
    root = write({"pyproject.toml": "", "train.py": TEXT, "more.py": "from train import *\n" + TEXT})
    checker = Checker(Options(certainty=Certainty.POSSIBLE))
    gc.collect()
    gc.disable()
    try:
        found = [checker.check_file(root / name) for name in ("train.py", "more.py")]
        assert all(one.report is not None for one in found)
        (project,) = checker.checked_projects()
        facts = [weakref.ref(one) for one in project.parsed_files().values()]
        assert len(facts) == 2 and all(isinstance(one(), FileFacts) for one in facts)
        checker.program_and_targets(root / "train.py")[0].forget_trees()
        assert [one() for one in facts] == [None, None]
    finally:
        gc.enable()

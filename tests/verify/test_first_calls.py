"""A fixture of a whole program: what it places in `main`, where no function could be asked, is seen all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import skip_without

skip_without("jax")
pytestmark = [pytest.mark.longer, pytest.mark.skipif(sys.version_info < (3, 11), reason="as `--init`")]

PROGRAM = """
import argparse
import random
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

try:
    from jax import shard_map
    unchecked = {"check_vma": False}
except ImportError:
    from jax.experimental.shard_map import shard_map
    unchecked = {"check_rep": False}


class Options:
    # Of no kind that could be written down: what takes it has no fixture of its own.
    def __init__(self, rate):
        self.rate, self.began = rate, time.time()

    def name(self):
        return f"run-{random.random()}"


def summed(params, batch, scale):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((batch @ p["w"]) ** 2) * scale)(params)
    return jax.lax.psum(loss, ("data", "model")), jax.lax.psum(grads, ("data", "model"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    steps = parser.parse_args().steps
    options = Options(0.1)
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    put = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec)))
    params = {"w": put(np.ones((32, 64), np.float32), "data", "model")}
    moments = {"w": put(np.zeros((32, 64), np.float32), "data", "model")}
    copy = {"w": put(np.ones((32, 64), np.float32))}
    batch = put(np.random.rand(16, 32).astype(np.float32), "data")

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, moments, *, batch):
        grads = jax.grad(lambda p: jnp.mean((batch @ p["w"]) ** 2))(params)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
        return jax.tree.map(lambda p, m: p - options.rate * m, params, moments), moments

    gradients = jax.jit(
        shard_map(
            partial(summed, scale=0.5), mesh=mesh, in_specs=(P(), P(("data", "model"))), out_specs=P(), **unchecked
        )
    )
    for _ in range(steps):
        params, moments = step(params, moments, batch=batch)
        gradients(copy, put(batch, ("data", "model")))
    print(options.name(), steps)


if __name__ == "__main__":
    main()
"""

FAULTS = {
    "a spec swapped": ('np.ones((32, 64), np.float32), "data", "model")', 'np.ones((32, 64), np.float32), "model", "data")'),
    "an optimizer whole": ('np.zeros((32, 64), np.float32), "data", "model")', "np.zeros((32, 64), np.float32))"),
    "donation lost": ("donate_argnums=(0, 1)", "donate_argnums=(0,)"),
    "a sum left out": ('return jax.lax.psum(loss, ("data", "model")), jax.lax.psum(grads, ("data", "model"))', "return loss, grads"),
}
SAYS = {
    "a spec swapped": "args/0/w P('model', 'data')",
    "an optimizer whole": "args/1/w P()",
    "donation lost": "step no longer donates all of args/1",
    "a sum left out": "have different values in the same shard",
}


def verify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardlint", "verify", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "train.py").write_text(PROGRAM)
    made = verify(folder, "--init", "--", sys.executable, "train.py", "--steps", "2")
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def test_it_is_written_and_passes(folder: Path) -> None:
    text = (folder / "sharding_fixtures.py").read_text()
    assert "first_calls(" in text
    assert '"step": "train.py:main.<locals>.step"' in text
    assert '"summed": "train.py:summed"' in text
    assert '"step/**/w": P("data", "model")' in text
    assert '"step/kwargs/batch": P("data")' in text
    ended = verify(folder, "sharding_fixtures.py::program")
    assert ended.returncode == 0, ended.stdout
    assert "kept from" in ended.stdout  # neither the time nor chance has it run again


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_broken_later_is_named(folder: Path, fault: str) -> None:
    program = folder / "train.py"
    old, new = FAULTS[fault]
    assert PROGRAM.count(old) == 1 or fault == "a spec swapped"
    program.write_text(PROGRAM.replace(old, new, 1))
    try:
        ended = verify(folder, "sharding_fixtures.py::program")
    finally:
        program.write_text(PROGRAM)
    assert ended.returncode == 1, ended.stdout
    assert SAYS[fault] in ended.stdout, ended.stdout

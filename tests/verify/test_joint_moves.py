"""`fix --verify` of changes that are right only as a whole: `with mesh:` to `set_mesh`, with `pjit`, in several files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import since_jax_0_12

pytestmark = [pytest.mark.longer, since_jax_0_12]
Write = Callable[..., Path]
PARTS = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def known():
    return not jax.sharding.get_abstract_mesh().empty


def finish(x):
    return {finish}


def spread(x, known):
    return {spread}
"""
# What a project does otherwise where jax knows the mesh: on the host, under `with mesh:`, it does not.
FINISH = {
    "numbers": "2 * x if known() else x",
    "sharding": "jax.device_put(x, P()) if known() else x",
}
# The same where it is compiled.
SPREAD = {
    "communication": "jax.lax.with_sharding_constraint(x, P()) if known else x",
    "donation": "x.astype(jnp.bfloat16) if known else x",
}
PROJECT = {
    "meshes.py": """\
        import jax
        import numpy as np
        from jax.sharding import Mesh


        def make_mesh():
            return Mesh(np.array(jax.devices()).reshape(2), ("data",))


        mesh = make_mesh()
        """,
    "steps.py": """\
        from functools import partial

        from jax.experimental.pjit import pjit
        from jax.sharding import PartitionSpec as P

        from meshes import mesh
        from parts import known, spread

        with mesh:
            KNOWN = known()


        @partial(pjit, in_shardings=(P("data"), P("data")), out_shardings=P("data"), donate_argnums=0)
        def step(state, x):
            return spread(state + x, KNOWN)
        """,
    "train.py": """\
        import numpy as np

        from meshes import mesh
        from parts import finish
        from steps import step


        def run(state, x):
            with mesh:
                return finish(step(state, x))


        if __name__ == "__main__":
            print(run(np.ones(8, np.float32), np.ones(8, np.float32)))
        """,
    "other.py": """\
        import jax


        def doubled(x):
            return jax.tree_map(lambda part: 2 * part, x)
        """,
    "fx.py": """\
        from shardlint.verify import Fixture, P, arg

        split = arg(shape=(8,), spec=P("data"))
        run = Fixture("train:run", [{"data": 2}], [split, split], context="none")
        step = Fixture("steps:step", [{"data": 2}], [split, split], context="with")
        """,
}


def project(write: Write, kind: str) -> Path:
    return write({**PROJECT, "parts.py": PARTS.format(finish=FINISH.get(kind, "x"), spread=SPREAD.get(kind, "x"))})


def fixed(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shardlint", "fix", "--unsafe-fixes", "--verify", "--target", "jax=0.12", str(root)]
    return subprocess.run(command, text=True, capture_output=True, timeout=500, check=False)


def texts(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(root.glob("*.py"))}


def test_a_move_that_keeps_all_is_made(write: Write) -> None:
    root = project(write, "")
    ran = fixed(root)
    after = texts(root)
    assert "with jax.set_mesh(mesh):" in after["train.py"], ran.stdout + ran.stderr
    assert "pjit" not in after["steps.py"] and "jax.tree.map" in after["other.py"]
    assert "cannot be run" not in ran.stderr, ran.stderr
    assert 'fx.py: fixtures with context="with" ran under jax.set_mesh' in ran.stderr


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("numbers", "other numbers: out on data=2"),
        ("sharding", "loses a sharding: out is P(), and was P('data')"),
        ("communication", "adds communication in "),
        ("donation", "drops a donation: "),
    ],
)
def test_a_move_that_loses_something_is_taken_back_whole(write: Write, kind: str, said: str) -> None:
    root = project(write, kind)
    before = texts(root)
    ran = fixed(root)
    after = texts(root)
    assert said in ran.stdout, ran.stdout + ran.stderr
    assert {name for name in before if before[name] != after[name]} == {"other.py"}, "the others stay"

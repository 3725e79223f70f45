"""Two fixes side by side leave no more empty lines than one."""

from __future__ import annotations

from pathlib import Path

from shardlint.engine.results import Options
from shardlint.rewrite.fix import fix_files

TEXT = """\
import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
row = NamedSharding(mesh, P("data"))


def loss(w, x):
    return (x @ w).sum()


grads = eqx.filter_jit(jax.grad(loss), in_shardings=(None, row))
value = eqx.filter_jit(fun=loss, in_shardings=(None, row))
loss(1, 2)
"""


def test_two_definitions_are_two_lines_apart(tmp_path: Path) -> None:
    """A statement that became a definition, and another that got one above it."""
    (tmp_path / "setup.cfg").touch()
    path = tmp_path / "prog.py"
    path.write_text(TEXT)
    options = Options(select=("SL101",), targets={"equinox": "0.13.8", "jax": "0.12.0"})
    fixed = fix_files([tmp_path], options, unsafe=True, write=True).fixed
    after = path.read_text()
    assert len(fixed[0].done) == 2
    assert after.count("\ndef ") == 3
    assert "\n\n\n\n" not in after

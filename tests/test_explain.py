"""Tests of the output of `shardlint explain` on arrays."""

from collections.abc import Callable
from pathlib import Path

from shardlint.engine.explain import explain_place
from shardlint.engine.explain_file import explain_file

PROGRAM = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def forward(params, x):
    hidden = jax.nn.relu(x @ params["up"])
    return hidden @ params["down"]


params = {
    "up": jax.device_put(jnp.zeros((32, 64)), NamedSharding(mesh, P(None, "model"))),
    "down": jax.device_put(jnp.zeros((64, 32)), NamedSharding(mesh, P("model"))),
}
x = jax.device_put(jnp.zeros((16, 32)), NamedSharding(mesh, P("data")))
jax.jit(forward)(params, x)
"""


def test_arrays_are_shown_with_their_layouts(write: Callable[..., Path]) -> None:
    file = write({"m.py": PROGRAM}) / "m.py"
    arrays = [line for line in explain_place(file, 18) if line.startswith("  array")]
    assert arrays[0].endswith("float32[16@data, 32] over data=4, model=2") and arrays[1].endswith("float32[16, 32]")
    assert "  array     hidden: float32[16, 64]" in list(explain_place(file, 11))


def test_a_line_without_arrays_tells_none(write: Callable[..., Path]) -> None:
    file = write({"m.py": "import jax\n\nx = 1\n"}) / "m.py"
    assert not [line for line in explain_place(file, 3) if line.startswith("  array")]


def test_a_file_is_shown_with_the_layouts_of_its_arrays(write: Callable[..., Path]) -> None:
    code = PROGRAM.replace(
        "jax.jit(forward)(params, x)",
        "y = jax.jit(forward, out_shardings=NamedSharding(mesh, P()))(params, x)",
    )
    file = write({"m.py": code}) / "m.py"
    lines = list(explain_file(file))
    assert len(lines) == code.count("\n") + 1 or len(lines) == code.count("\n")
    assert lines[9].endswith("hidden: float32[16, 64]")
    assert lines[17].endswith("x: float32[16@data, 32]")
    assert lines[18].endswith("y: float32[16, 32]")
    assert lines[5].strip().startswith("6  mesh = ") and lines[5].endswith('"model"))')


def test_arrays_of_haliax_are_shown_with_the_names_of_their_axes(write: Callable[..., Path]) -> None:
    code = """\
import haliax as hax
import jax

mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
Batch, Embed = hax.make_axes(batch=8, embed=16)
x = hax.shard(hax.ones((Batch, Embed)), {"batch": "data"}, mesh)
y, z = x.sum("embed"), hax.named_jit(lambda a: a * 2)(x)
"""
    lines = list(explain_file(write({"named.py": code}) / "named.py"))
    assert lines[5].endswith("x: float32[batch=8@data, embed=16]")
    assert lines[6].endswith("y: float32[batch=8]; z: float32[batch=8, embed=16]")

"""Shapes, placements and contractions of arrays."""

import ast
from pathlib import Path

import pytest

from shardlint.model import Program
from shardlint.model.arrays import Arrays
from shardlint.model.values import Place

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *axes):
    return jax.device_put(x, NamedSharding(mesh, P(*axes)))


rows = NamedSharding(mesh, P("data"))
x = jax.device_put(jnp.zeros((16, 32)), rows)
column = jax.device_put(jnp.zeros((32, 64)), NamedSharding(mesh, P(None, "model")))
row = jax.device_put(jnp.zeros((64, 8)), NamedSharding(mesh, P("model")))
fsdp = jax.device_put(jnp.zeros((32, 64)), NamedSharding(mesh, P("data", None)))
hidden = jax.nn.gelu(x @ column)
"""


def asked(tmp_path: Path, code: str) -> tuple[Arrays, Place]:
    path = tmp_path / "m.py"
    path.write_text(HEAD + code)
    program = Program(tmp_path)
    file = program.project.facts(path)
    assert file is not None
    statement = file.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return Arrays(program.evaluator), Place(file, statement.value)


@pytest.mark.parametrize(
    ("code", "shape", "axes"),
    [
        ("x", (16, 32), (("data",),)),
        ("x * 2.0", (16, 32), (("data",),)),
        ("-x", (16, 32), (("data",),)),
        ("jnp.tanh(x)", (16, 32), (("data",),)),
        ("x.astype(jnp.bfloat16)", (16, 32), (("data",),)),
        ("x.T", (32, 16), ((), ("data",))),
        ("jnp.sum(x, axis=1)", None, (("data",),)),
        ("x @ column", None, (("data",), ("model",))),
        ("hidden @ row", None, (("data",), ())),
        ("jnp.einsum('bd,df->bf', x, column)", None, (("data",), ("model",))),
        ("jax.jit(lambda y: y + 1, out_shardings=rows)(x)", None, (("data",),)),
        ("jax.lax.with_sharding_constraint(x, P(None, 'model'))", (16, 32), ((), ("model",))),
    ],
)
def test_where_an_array_is(tmp_path: Path, code: str, shape: object, axes: object) -> None:
    arrays, place = asked(tmp_path, code)
    found = arrays.evaluate_array(place)
    assert found.placement is not None
    assert found.placement.axes == axes
    if shape is not None:
        assert found.shape == shape


@pytest.mark.parametrize(
    "code", ["jnp.zeros((4, 4))", "x[0]", "x + fsdp", "unknown(x)", "put(x, *unknown())"]
)
def test_what_is_not_told_is_not_known(tmp_path: Path, code: str) -> None:
    arrays, place = asked(tmp_path, code)
    assert arrays.evaluate_array(place).placement is None


@pytest.mark.parametrize(
    ("code", "kinds", "moves"),
    [
        ("x @ column", {"data parallel", "column parallel"}, ()),
        ("hidden @ row", {"data parallel", "row parallel"}, ("all-reduce of the result over 'model'",)),
        ("x @ fsdp", {"data parallel", "FSDP"}, ("all-gather of the right operand over 'data'",)),
        ("jnp.einsum('bd,df->bf', x, column)", {"data parallel", "column parallel"}, ()),
    ],
)
def test_what_a_contraction_moves(tmp_path: Path, code: str, kinds: set[str], moves: tuple[str, ...]) -> None:
    arrays, place = asked(tmp_path, code)
    found = arrays.describe_contraction(place)
    assert found is not None
    assert {label.parallelism_kind for label in found.labels} - {""} == kinds
    assert found.moves == moves

"""Tests of array shapes: `shape_of` of the last expression of a program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardlint.model import Program
from shardlint.model.shapes import Shape, shape_of
from shardlint.model.values import Place

BEFORE = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.experimental import mesh_utils
"""


def shape(tmp_path: Path, text: str, files: dict[str, str] | None = None) -> Shape | None:
    for name, content in {"main.py": BEFORE + text, **(files or {})}.items():
        (tmp_path / name).write_text(content, "utf-8")
    (tmp_path / "setup.cfg").touch()
    program = Program(tmp_path)
    file = program.project.facts(tmp_path / "main.py")
    assert file is not None
    file.walk_scope(file.module)
    last = file.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return shape_of(program.evaluator, Place(file, last.value))


# what the text does not prove


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "unknown(8)",
        "jnp.zeros(unknown)",
        "jnp.zeros((8, *rest))",
        "jnp.zeros(*args)",
        "jnp.zeros(**options)",
        "x = jnp.zeros(8)\nx += 1\nx",
        "x = jnp.zeros(8) if a else jnp.zeros((8, 4))\nx",
        "if a:\n    x = jnp.zeros(8)\nelse:\n    x = other\nx",
        "for x in jnp.zeros((8, 4)):\n    pass\nx",
        "jnp.zeros((8, 4))[0]",
        "jnp.zeros((8, 4)) @ jnp.zeros((3, 4, 2))",
        "jnp.zeros((8, 1)) * jnp.zeros((1, 4))",
        "jnp.zeros((8, 4)) * other",
        "jnp.zeros((8, 4)).sum(0)",
        "jnp.array([1, 2], ndmin=2)",
        "jnp.array([[1], other])",
        "jnp.concatenate([jnp.zeros(8)])",
        "[1, 2]",
        "x = jnp.zeros(8)\nfor i in a:\n    x = x.astype(int) + i\nx",
        "jnp.transpose(jnp.zeros((8, 4)), (0, 1))",
        "jnp.zeros((8, 4)).transpose(1, 0)",
        "from elsewhere import x\nx",
        "global_ = jnp.zeros(8)\ndef f():\n    global global_\n    global_ = 1\n(lambda: global_)()",
    ],
)
def test_not_told(tmp_path: Path, text: str) -> None:
    assert shape(tmp_path, text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jnp.zeros((8, n))", (8, None)),
        ("jnp.zeros([8, 4])", (8, 4)),
        ("jnp.zeros(8)", (8,)),
        ("jnp.zeros(())", ()),
        ("np.ones(shape=(8, 4), dtype=int)", (8, 4)),
        ("jnp.full((8, 4), 3.0)", (8, 4)),
        ("n = 8\nsize = (n, n // 2)\njnp.empty(size)", (8, 4)),
        ("jnp.arange(8)", (8,)),
        ("jnp.arange(64.0)", (64,)),
        ("jnp.arange(2, 8)", (6,)),
        ("jnp.arange(0, 8, 3)", (3,)),
        ("jnp.arange(8, dtype=int)", (8,)),
        ("jnp.arange(n)", (None,)),
        ("jnp.linspace(0, 1, 7)", (7,)),
        ("jnp.linspace(0, 1)", (50,)),
        ("jnp.eye(8)", (8, 8)),
        ("jnp.eye(8, 4)", (8, 4)),
        ("jnp.arange(64.0).reshape(8, 8)", (8, 8)),
        ("jnp.arange(64.0).reshape((8, -1))", (8, 8)),
        ("jnp.arange(64).reshape(4, -1, 2)", (4, 8, 2)),
        ("x.reshape(8, 4)", (8, 4)),
        ("x = x.reshape(8)\nx.astype(int)", (8,)),
        ("x.reshape(8, -1)", (8, None)),
        ("jnp.reshape(x, (8, 4))", (8, 4)),
        ("jnp.array([[1, 2, 3], [4, 5, 6]])", (2, 3)),
        ("np.asarray(jnp.zeros((8, 4)))", (8, 4)),
        ("random.normal(key, (8, 4))", (8, 4)),
        ("random.normal(key)", ()),
        ("random.bernoulli(key, 0.5, (8,))", (8,)),
        ("np.random.rand(8, 4)", (8, 4)),
        ("np.random.normal(size=(8, 4))", (8, 4)),
        ("jnp.zeros_like(jnp.ones((8, 4)))", (8, 4)),
        ("jnp.zeros_like(x, shape=(8,))", (8,)),
        ("jnp.zeros_like(jnp.ones(4), shape=None)", (4,)),
        ("jax.device_put(jnp.ones((8, 4)), sharding)", (8, 4)),
        ("jnp.ones((8, 4)).T", (4, 8)),
        ("jnp.ones((8, 4)).transpose()", (4, 8)),
        ("jnp.ones((8, 4)).astype(int).copy()", (8, 4)),
        ("jnp.ones((8, 4)).ravel()", (32,)),
        ("-jnp.ones((8, 4)) * 2 + 1.0", (8, 4)),
        ("jnp.ones((8, 4)) + jnp.ones((8, 4))", (8, 4)),
        ("x = jnp.ones((8, 4))\njnp.zeros(x.shape)", (8, 4)),
        ("x = jnp.ones((8, 4))\njnp.zeros((x.shape[1], x.shape[0], 3))", (4, 8, 3)),
        ("x = jnp.zeros(8)\nx = x.reshape(2, 4)\nx", (2, 4)),
        ("x = jnp.zeros((8, 2)) if a else jnp.zeros((8, 4))\nx", (8, None)),
        ("if a:\n    x = jnp.zeros((8, 4))\nelse:\n    x = jnp.ones((8, 4))\nx", (8, 4)),
        ("jax.ShapeDtypeStruct((8, 4), float)", (8, 4)),
        ("np.array(jax.devices()).reshape(4, 2)", (4, 2)),
        ("np.array(jax.devices())", (None,)),
        ("mesh_utils.create_device_mesh((4, 2))", (4, 2)),
        ("def make(n):\n    return jnp.zeros((n, 4))\nmake(8)", (8, 4)),
        ("def make(n, m=4):\n    x = jnp.zeros((n, m))\n    return x\nmake(8).astype(int)", (8, 4)),
    ],
)
def test_told(tmp_path: Path, text: str, expected: Shape) -> None:
    assert shape(tmp_path, text) == expected


def test_through_a_file(tmp_path: Path) -> None:
    other = "import jax.numpy as jnp\nx = jnp.zeros((8, 4))\n"
    assert shape(tmp_path, "from other import x\nx * 2", {"other.py": other}) == (8, 4)


def test_what_is_made_of_itself_is_asked_once(tmp_path: Path) -> None:
    # Each reads any of the others: on all ways together there are more than could ever be tried.
    again = "    x = jax.device_put(x, sharding)\n" * 40
    assert shape(tmp_path, f"x = jnp.zeros((8, 4))\nfor step in steps:\n{again}x") is None
    apart = "if a:\n    x = jax.device_put(x, sharding)\n" * 40
    assert shape(tmp_path, f"x = jnp.zeros((8, 4))\n{apart}x") == (8, 4)


def test_what_a_branch_binds_again_is_gone(tmp_path: Path) -> None:
    text = "if a:\n    x = jnp.zeros((2, 2))\n    if b:\n        x = jnp.ones((3, 3))\n    x = jnp.zeros((8, 4))\n"
    assert shape(tmp_path, f"{text}else:\n    x = jnp.zeros((8, 4))\nx") == (8, 4)
    assert shape(tmp_path, f"{text}else:\n    x = jnp.zeros((5,))\nx") is None
    in_a_loop = "for step in steps:\n    x = jnp.zeros((5,))\n    if step:\n        break\n    x = jnp.zeros((8, 4))\n"
    assert shape(tmp_path, f"{in_a_loop}x") is None

"""Tests of the interpreter on Python around arrays: containers, branches, loops, classes, imports."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.libraries import FUNCTIONS
from shardlint.model.project import Project

Write = Callable[..., Path]
HEAD = """\
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto, AxisType.Auto))
"""
ORDERS = """\
import numpy as np
from jax.sharding import Mesh

listed = np.array(jax.devices()).reshape(2, 4)
meshes = Mesh(listed, ("a", "b")), Mesh({}, ("a", "b"))
one, two = (jax.device_put(jnp.ones(8), NamedSharding(each, P())) for each in meshes)
one + two
"""


def ran(root: Path, name: str = "main.py") -> Interpreter:
    """A file, run."""
    project = Project(root)
    facts = project.facts(root / name)
    assert facts is not None
    run = Interpreter(Modules(project, FUNCTIONS, {"jax": (0, 12, 0)}), facts)
    run.run_file()
    return run


def shown(run: Interpreter, name: str) -> str:
    """Return the value of the last assignment to a name in the module, in words."""
    value = [
        run.layouts[node.value]
        for node in ast.walk(run.file.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ][-1]
    return str(value)


@pytest.mark.parametrize(
    ("code", "layout"),
    [
        ("x = jnp.ones((8, 4))", "float32[8, 4]"),
        ("x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P('a')))", "float32[8@a, 4]"),
        ("made = {n: jnp.ones((s, 2)) for n, s in [('u', 3), ('v', 5)]}\nx = made['v']", "float32[5, 2]"),
        ("made = []\nfor size in (3, 5):\n    made.append(jnp.ones(size))\nx = made[-1]", "float32[5]"),
        ("def f(size):\n    def g():\n        nonlocal size\n        size += 1\n    g()\n    return jnp.ones(size)\nx = f(2)", "float32[3]"),
        ("def f(*sizes, dtype=None):\n    return jnp.ones(sizes)\nx = f(*(2, 3))", "float32[2, 3]"),
        ("def f():\n    yield jnp.ones(2)\n    yield jnp.ones(3)\n_, x_ = f()\nx = x_", "float32[3]"),
        ("x = jnp.einsum('ij,kj->ki', jnp.ones((2, 3)), jnp.ones((5, 3)))", "float32[5, 2]"),
        ("x = jnp.ones((4, 6)).reshape(2, -1)[1:].T", "float32[12, 1]"),
        ("x = jax.vmap(lambda r: r.sum())(jnp.ones((4, 6)))", "float32[4]"),
        ("n = jax.device_count()\nx = jnp.ones((n * 4, 3)).reshape(n, -1, 3)", "float32[jax.device_count(), 4, 3]"),
        ("many = ['a'] * (2 * len(jax.devices()))\nx = jnp.ones(len(many))", "float32[2*jax.device_count()]"),
        ("match (1, 2):\n    case (1, size):\n        y = jnp.ones(size)\nx = y", "float32[2]"),
        ("x = jax.jit(lambda v: v @ v.T, out_shardings=NamedSharding(mesh, P('b')))(jnp.ones((8, 2)))", "float32[8@b, 8]"),
    ],
)  # fmt: skip
def test_values_are_followed(write: Write, code: str, layout: str) -> None:
    assert shown(ran(write({"main.py": HEAD + code + "\n"})), "x") == layout


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (
            "if flag:\n    jax.device_put(jnp.ones(3), NamedSharding(mesh, P('a', 'b')))",
            {("spec.rank", False)},
        ),
        ("jax.device_put(jnp.ones(3), NamedSharding(mesh, P('a', 'b')))", {("spec.rank", True)}),
        ("x = jnp.ones(3)\nif x.ndim == 2:\n    jax.device_put(x, NamedSharding(mesh, P('a', 'b')))", set()),
        (
            "try:\n    jax.device_put(jnp.ones(3), NamedSharding(mesh, P('a', 'b')))\nexcept ValueError:\n    pass",
            set(),
        ),
        ("x = jnp.ones(3)\nassert x.ndim > 1\njax.device_put(x, NamedSharding(mesh, P('a', 'b')))", set()),
        (
            "def f(x):\n    return jax.device_put(x, NamedSharding(mesh, P('a', 'b')))\nf(jnp.ones((2, 4)))",
            set(),
        ),
        ("while flag:\n    x = unknown()\n    jax.device_put(x, NamedSharding(mesh, P('a', 'b')))", set()),
        ("jax.device_put(jnp.ones((3, 4)), NamedSharding(mesh, P('a')))", {("spec.indivisible", True)}),
        (ORDERS.format("listed.T"), {("devices.differ", True)}),
        (ORDERS.format("listed.T.T"), set()),
        (ORDERS.format("listed.transpose(0, 1)"), set()),
    ],
)
def test_contracts_are_broken_where_the_program_comes(
    write: Write, code: str, kinds: set[tuple[str, bool]]
) -> None:
    run = ran(write({"main.py": HEAD + code + "\n"}))
    assert {(one.kind, one.certain) for one in run.violations.values()} == kinds


def test_an_argument_that_is_not_known_leaves_the_others_their_layouts(write: Write) -> None:
    code = "f = jax.shard_map(lambda *xs: xs[2], mesh=mesh, in_specs=P('a'), out_specs=P('a'))\n"
    run = ran(write({"main.py": f"{HEAD}{code}x = f(unknown(), jnp.ones((4, 3)), jnp.ones(6))\n"}))
    assert shown(run, "x") == "float32[6@a]"


def test_what_one_file_changes_of_another_module_is_its_own(write: Write) -> None:
    use = f"{HEAD}from shared import SIZES\nSIZES['x'] = 7\nx = jnp.ones(SIZES['x'])\n"
    read = f"{HEAD}from shared import SIZES\nx = jnp.ones(SIZES['x'])\n"
    root = write({"shared.py": "SIZES = {'x': 2}\n", "one.py": use, "two.py": read})
    project = Project(root)
    modules = Modules(project, FUNCTIONS, {"jax": (0, 12, 0)})
    for name, layout in (("one.py", "float32[7]"), ("two.py", "float32[2]"), ("one.py", "float32[7]")):
        facts = project.facts(root / name)
        assert facts is not None
        run = Interpreter(modules, facts)
        run.run_file()
        assert shown(run, "x") == layout


def test_a_program_without_end_ends(write: Write) -> None:
    code = "def f(n):\n    return g(n + 1)\n\n\ndef g(n):\n    return f(n) + f(n)\n\n\nx = f(0)\nwhile True:\n    x = f(x)\n"
    run = ran(write({"main.py": HEAD + code}))
    assert not run.violations

"""Equinox Modules: which classes are, and what the leaves of an instance are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.facts.equinox_modules import Instance, Leaf, Modules
from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
import equinox as eqx
import functools
import jax
import jax.numpy as jnp
from collections.abc import Callable
from jaxtyping import Array, Float
class Plain:
    size: int = 3
class Base(eqx.Module):
    weight: jax.Array
    kernel: Float[Array, "a b"]
class Child(Base):
    size: int = 3
    label: str = eqx.field(static=True, default="x")
    rate: float = eqx.field(default=0.5)
class Calling(eqx.Module):
    call: Callable
    fixed: Callable = eqx.field(static=True)
class Built(eqx.Module):
    act: Callable
    child: eqx.nn.Linear
    hidden: object
    def __init__(self, act=jax.nn.relu, hidden=None):
        self.act = act
        self.child = eqx.nn.Linear(2, 2, key=jax.random.PRNGKey(0))
        self.hidden = hidden
class Twice(eqx.Module):
    act: object
    def __init__(self, flag):
        if flag:
            self.act = jax.nn.relu
        else:
            self.act = None
def unknown():
    return globals()["x"]
x, y, key = jnp.ones(2), jnp.ones((2, 2)), jax.random.PRNGKey(0)
"""


def instance(ask: Ask, expression: str) -> tuple[Instance | None, list[Leaf]]:
    asked = ask(f"{BEFORE}here = {expression}\nhere\n")
    found = asked.program.find_room(Modules).module_instance(asked.value("here", nth=1))
    return found, asked.program.find_room(Modules).list_leaves(found) if found is not None else []


def leaves(ask: Ask, expression: str) -> dict[str, str]:
    return {leaf.path: leaf.kind if leaf.sure else f"{leaf.kind}?" for leaf in instance(ask, expression)[1]}


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("Child(x, y)", "Child"),
        ("eqx.nn.MLP(2, 2, 2, 1, key=key)", "MLP"),
        ("eqx.tree_at(lambda m: m.weight, Base(x, y), x)", "Base"),
        ("eqx.filter_shard(eqx.nn.inference_mode(Base(x, y)), unknown())", "Base"),
        ("Plain()", None),
        ("unknown()", None),
        ("eqx.filter(Base(x, y), eqx.is_array)", None),
        ("Base(x, y) if x else Plain()", None),
        ("eqx.filter_jit(Base(x, y))", None),
        ("Base", None),
    ],
)
def test_instances(ask: Ask, expression: str, name: str | None) -> None:
    found, _ = instance(ask, expression)
    assert (found.class_name if found is not None else None) == name


def test_only_what_was_built_in_sight_is_sure(ask: Ask) -> None:
    built, _ = instance(ask, "Child(x, y)")
    assert built is not None
    assert built.surely


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Base(x, y)", {"weight": "array", "kernel": "array"}),
        ("Child(x, y)", {"weight": "array", "kernel": "array", "size": "number", "rate": "number"}),
        ("Child(x, y, size=None)", {"weight": "array", "kernel": "array", "rate": "number"}),
        ("Calling(jnp.tanh, jnp.tanh)", {"call": "function"}),
        ("Calling(functools.partial(jnp.sum, axis=0), None)", {"call": "function"}),
        ("Calling(eqx.nn.PReLU(), None)", {"call.negative_slope": "array"}),
        ("Calling(unknown(), None)", {"call": "function?"}),
        ("Built()", {"act": "function", "child.weight": "array"}),
        ("Built(hidden=[1, jnp.ones(2)])", {"act": "function", "child.weight": "array", "hidden[0]": "number", "hidden[1]": "array"}),
        ("Built(unknown())", {"act": "function?", "child.weight": "array"}),
        ("Twice(True)", {}),
        ("eqx.nn.Lambda(lambda x: x)", {"fn": "function"}),
        ("eqx.nn.Dropout()", {"p": "number", "inference": "number"}),
        ("eqx.nn.Sequential([eqx.nn.PReLU(), eqx.nn.Lambda(jax.nn.relu)])", {"layers[0].negative_slope": "array", "layers[1].fn": "function"}),
        ("eqx.nn.Sequential(unknown())", {}),
        ("eqx.nn.MLP(2, 2, 2, 1, eqx.nn.PReLU(), eqx.nn.PReLU(), key=key)", {"layers[0].weight": "array", "activation.negative_slope": "array", "final_activation.negative_slope": "array"}),
        ("eqx.nn.MLP(2, 2, 2, 1, key=key)", {"layers[0].weight": "array", "activation": "function", "final_activation": "function"}),
    ],
)  # fmt: skip
def test_leaves(ask: Ask, expression: str, expected: dict[str, str]) -> None:
    assert leaves(ask, expression) == expected


def test_a_class_is_followed_through_files(ask: Ask) -> None:
    asked = ask(
        "from layers import Layer as L\nclass Net(L):\n    name: str = 'net'\nhere = Net(1)\nhere\n",
        {"layers.py": "from base import Base\nclass Layer(Base):\n    size: int\n", "base.py": "import equinox\nclass Base(equinox.Module):\n    pass\n"},
    )  # fmt: skip
    found = asked.program.find_room(Modules).module_instance(asked.value("here", nth=1))
    assert found is not None
    assert [(leaf.path, leaf.kind) for leaf in asked.program.find_room(Modules).list_leaves(found)] == [
        ("size", "number"),
        ("name", "text"),
    ]

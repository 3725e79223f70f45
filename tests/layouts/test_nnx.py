"""Predictions about programs of flax NNX, compared with flax."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.layout import Layout
from shardlint.libraries import FUNCTIONS
from shardlint.model.project import Project
from tests.layouts.compare import Outcome, note, observe, predicted
from tests.layouts.nnx_programs import HEAD, PROGRAMS, UNTOLD
from tests.programs import release, skip_without

skip_without("jax")
skip_without("flax")
skip_without("optax")
Write = Callable[..., Path]


# `make test` runs every eighth program.
QUICK = range(0, len(PROGRAMS), 8)


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.longer)])
def test_what_is_predicted_of_nnx_is_what_flax_does(quick: bool) -> None:
    outcome, versions = Outcome(), (*release("jax"), 0)
    numbers = [number for number in range(len(PROGRAMS)) if (number in QUICK) == quick]
    for number, seen in zip(numbers, observe([PROGRAMS[number] for number in numbers]), strict=True):
        text = PROGRAMS[number]
        note(outcome, text, seen, versions)
        broken = predicted(text, versions).lines
        assert not seen["error"] or (seen["line"] in broken) != (number in UNTOLD), f"{seen}\n{text}"
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.known >= 0.75 * outcome.arrays, str(outcome)


def ran(root: Path, flax: tuple[int, ...] = (0, 12, 12)) -> Interpreter:
    """A file, run."""
    project = Project(root)
    facts = project.facts(root / "main.py")
    assert facts is not None
    run = Interpreter(Modules(project, FUNCTIONS, {"jax": (0, 12, 0), "flax": flax}), facts)
    run.run_file()
    return run


def bound(run: Interpreter, name: str) -> object:
    """Return the value of the last assignment to a name."""
    found = [
        run.layouts[node.value]
        for node in ast.walk(run.file.tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and node.value in run.layouts
    ]
    return found[-1]


UNKNOWN = [
    "load(model)",
    "load([nnx.state(model)])",
    "load({'model': model})",
    "setattr(model.up, 'kernel', other)",
    "for layer in names:\n    model.up.kernel.value = load(layer)",
    "if flag:\n    model.up.kernel.value = jnp.zeros((1, 1))",
    "nnx.update(model, load())",
    "nnx.update(model.up, {'kernel': load()})",
    "model.up.kernel.value = load()",
    "model.up.kernel[...] = load()",
    "model.up.kernel[...] += load()",
    "model.up = load()",
    "nnx.jit(lambda m: load(m))(model)",
    "jax.tree.map(lambda one: one, load)(model)",
    "graphdef, state = nnx.split(model)\nmodel = nnx.merge(graphdef, load(state))",
    "model.set_attributes(kernel=load())",
    "layer = model.up if flag else model.down\nlayer.kernel.value = load()",
    "layer = model.up if flag else model.down\nload(layer)",
    "if flag:\n    layer = model.up\nelse:\n    layer = model.down\nnnx.jit(lambda m: nnx.update(m, load()))(layer)",
]


@pytest.mark.parametrize("changing", UNKNOWN)
def test_what_an_unknown_function_may_change_is_not_known(write: Write, changing: str) -> None:
    head = HEAD.format(kind="Auto") + "model = Net(nnx.Rngs(0))\nnnx.update(model, jax.device_put(nnx.state(model), whole))\n"
    before = bound(ran(write({"main.py": f"{head}k = model.up.kernel.value\n"})), "k")
    assert isinstance(before, Layout) and before.committed and before.spec == ((), ())
    after = bound(ran(write({"main.py": f"{head}{changing}\nk = model.up.kernel.value\n"})), "k")
    assert not isinstance(after, Layout) or (after.spec is None and not after.device), after


def test_a_model_of_another_module_is_changed_for_this_file_alone(write: Write) -> None:
    shared = HEAD.format(kind="Auto") + "model = Net(nnx.Rngs(0))\n"
    code = "from shared import *\nk = model.up.kernel.value\nmodel.up.kernel.value = jnp.ones((1, 2))\n"
    code += "l = model.up.kernel.value\nx = model.up\nm = x.kernel[...]\ny = x(jnp.ones((3, 1)))\n"
    run = ran(write({"main.py": code, "shared.py": shared}))
    shapes = [getattr(bound(run, name), "shape", None) for name in "klmy"]
    assert shapes[:3] == [(8, 16), (1, 2), (1, 2)]


PLACED = "with jax.set_mesh(mesh):\n    p = nnx.Param(jnp.ones((8, 8)), sharding=('b', 'b'))\nk = p.value\n"


@pytest.mark.parametrize(("flax", "kinds"), [((0, 11, 2), []), ((0, 12, 0), ["axis.twice"]), ((0, 12, 12), ["axis.twice"])])
def test_names_place_a_variable_since_flax_0_12(write: Write, flax: tuple[int, ...], kinds: list[str]) -> None:
    run = ran(write({"main.py": HEAD.format(kind="Auto") + PLACED}), flax)
    assert [one.kind for one in run.violations.values()] == kinds
    assert kinds or bound(run, "k") == Layout((8, 8), "float32", varying=frozenset())


POLICY = """\
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


class Policy(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(3, 8, kernel_size=(3, 3), strides=2, rngs=rngs)
        self.head = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, image):
        x = nnx.relu(self.conv(image))
        return self.head(x.mean(axis=(1, 2)))


def load_params(model, sharding):
    graphdef, state = nnx.split(model)
    state = jax.device_put(state, sharding)
    return nnx.merge(graphdef, state)


@nnx.jit
def infer(model, image):
    return model(image)


class PolicyRunner:
    def __init__(self):
        self.mesh = Mesh(np.array(jax.devices()), ("data",))
        self.replicated = NamedSharding(self.mesh, P())
        self.model = load_params(Policy(nnx.Rngs(0)), self.replicated)
        self.device = jax.devices()[0]

    def act(self, image):
        image = jax.device_put(image, WHERE)
        return infer(self.model, image)


def main():
    runner = PolicyRunner()
    image = jnp.zeros((1, 32, 32, 3))
    for _ in range(3):
        runner.act(image)


main()
"""


@pytest.mark.parametrize(("where", "kinds"), [("self.device", ["devices.differ"]), ("self.replicated", [])])
def test_a_model_on_a_mesh_does_not_meet_an_array_on_one_device(
    write: Write, where: str, kinds: list[str]
) -> None:
    text = POLICY.replace("WHERE", where)
    assert [one.kind for one in ran(write({"main.py": text})).violations.values()] == kinds
    (seen,) = observe([text])
    assert ("incompatible devices" in seen["said"]) == bool(kinds), seen


NAMING = """\
from flax import nnx

RULES = {"embed": "fsdp", "mlp": "fsdp", "heads": "data"}


def kernel(*axes):
    return nnx.with_partitioning(nnx.initializers.lecun_normal(), tuple(RULES[axis] for axis in axes))
"""
NAMED = """\
import jax
from flax import nnx
from jax.sharding import AxisType
from naming import kernel

mesh = jax.make_mesh((2, 4), ("data", "fsdp"), axis_types=(AxisType.Auto, AxisType.Auto))


class Attention(nnx.Module):
    def __init__(self, d, rngs):
        self.qkv = nnx.Linear(d, 3 * d, kernel_init=kernel("embed", SECOND), rngs=rngs)


with jax.set_mesh(mesh):
    model = Attention(64, nnx.Rngs(0))
"""


@pytest.mark.parametrize(("second", "kinds"), [("'mlp'", ["axis.twice"]), ("'heads'", [])])
def test_names_come_through_a_helper_of_another_module(write: Write, second: str, kinds: list[str]) -> None:
    run = ran(write({"main.py": NAMED.replace("SECOND", second), "naming.py": NAMING}))
    assert [(one.kind, one.place.line) for one in run.violations.values()] == [(kind, 11) for kind in kinds]

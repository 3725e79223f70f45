"""What is predicted of programs of flax NNX is what flax does with them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

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


@cache
def observed() -> list[dict[str, Any]]:
    """What jax makes of all the programs: one process for them."""
    return observe(PROGRAMS)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_is_predicted_of_nnx_is_what_flax_does(number: int) -> None:
    text, seen, versions = PROGRAMS[number], observed()[number], (*release("jax"), 0)
    outcome = Outcome()
    note(outcome, text, seen, versions)
    assert not outcome.wrong, outcome.wrong[0]
    _, broken, _ = predicted(text, versions)
    assert not seen["error"] or (seen["line"] in broken) != (number in UNTOLD), seen


def test_most_arrays_of_these_programs_are_known() -> None:
    outcome = Outcome()
    for text, seen in zip(PROGRAMS, observed(), strict=True):
        note(outcome, text, seen, (*release("jax"), 0))
    assert outcome.known >= 0.75 * outcome.arrays, str(outcome)


def ran(root: Path, flax: tuple[int, ...] = (0, 12, 12)) -> Interpreter:
    """A file, run."""
    project = Project(root)
    facts = project.facts(root / "main.py")
    assert facts is not None
    run = Interpreter(Modules(project, FUNCTIONS, {"jax": (0, 12, 0), "flax": flax}), facts)
    run.run()
    return run


def bound(run: Interpreter, name: str) -> object:
    """What the last assignment to a name binds."""
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

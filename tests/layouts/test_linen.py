"""The variables that are predicted of programs of flax linen are those that flax makes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.values import tree_children
from shardlint.libraries import FUNCTIONS
from shardlint.model.project import Project
from tests.layouts import linen_programs
from tests.layouts.compare import compare, observe, predicted
from tests.programs import release, skip_without

skip_without("jax")
skip_without("flax")
Write = Callable[..., Path]
HEAD = linen_programs.HEAD.format(kind="Auto") + "x = jnp.ones((8, 16))\n"
BOXED = """
class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(8, kernel_init=nn.with_partitioning(nn.initializers.ones, (None, "b")))(x)


model = Model()
"""
STACK = """
class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return nn.Dense(16, kernel_init=nn.with_partitioning(nn.initializers.ones, (None, "b")))(x), None


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        stack = nn.scan(Layer, variable_axes={{"params": 0}}, split_rngs={{"params": True}}, length=3{})
        return stack()(x, None)[0]


v = Model().init(key, x)
"""


def ran(root: Path, flax: tuple[int, ...] = (0, 12, 12)) -> Interpreter:
    """A file, run."""
    project = Project(root)
    facts = project.facts(root / "main.py")
    assert facts is not None
    run = Interpreter(Modules(project, FUNCTIONS, {"jax": (0, 12, 0), "flax": flax}), facts)
    run.run_file()
    return run


def paths(tree: object, path: str = "") -> list[str]:
    """The paths to the leaves of a tree; `*` where there may be more."""
    parts = tree_children(tree)
    if parts is None:
        return [path]
    more = [f"{path}/*"] if getattr(tree, "open", False) else []
    return more + [one for key, part in parts for one in paths(part, f"{path}/{key}")]


# A program takes two seconds in jax.
@pytest.mark.parametrize(
    ("first", "seeds"), [(500, 5), pytest.param(1000, 60, marks=pytest.mark.longer)]
)
def test_what_is_predicted_of_linen_is_what_flax_does(first: int, seeds: int) -> None:
    versions = (*release("jax"), 0)
    outcome = compare(range(first, first + seeds), versions, make=linen_programs.program)
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.predicted == outcome.errors, outcome.missed
    assert outcome.known >= 0.75 * outcome.arrays, str(outcome)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if flag:\n    x = nn.Dense(4)(x)\nreturn nn.Dense(2)(x)", ["/params/*"]),
        ("if flag:\n    x = nn.Dense(4, name='one')(x)\nreturn nn.Dense(2, name='two')(x)", ["/params/*", "/params/two/kernel", "/params/two/bias"]),
        ("if flag:\n    return nn.Dense(4, name='one')(x)\nreturn nn.Dense(2)(x)", ["/params/*"]),
        ("x = unknown(x)\nreturn nn.Dense(2)(x)", ["/params/*"]),
        ("x = nn.Dense(2)(x)\nreturn unknown(x)", ["/params/*", "/params/Dense_0/kernel", "/params/Dense_0/bias"]),
        ("x = nn.ConvLocal(2, (1,))(x)\nreturn nn.Dense(2)(x)", ["/params/ConvLocal_0/*", "/params/Dense_0/kernel", "/params/Dense_0/bias"]),
    ],
)  # fmt: skip
def test_parts_on_a_way_that_may_not_be_taken_have_no_known_names(
    write: Write, body: str, expected: list[str]
) -> None:
    inner = body.replace("\n", "\n        ")
    code = f"class Model(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n        {inner}\n\n\n"
    run = ran(write({"main.py": f"{HEAD}\n\n{code}v = Model().init(key, x)\n"}))
    value = next(
        run.layouts[node.value]
        for node in ast.walk(run.file.tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "v"
    )
    assert sorted(paths(value)) == sorted(expected)


@pytest.mark.parametrize(
    ("metadata", "kinds"),
    [
        ("", ["scan.partition-name"]),
        (", metadata_params={}", ["scan.partition-name"]),
        (", metadata_params={nn.PARTITION_NAME: None}", []),
        (", metadata_params=settings()", []),
    ],
)
def test_a_scan_over_boxes_asks_for_a_name(write: Write, metadata: str, kinds: list[str]) -> None:
    run = ran(write({"main.py": HEAD + STACK.format(metadata)}))
    assert [one.kind for one in run.violations.values()] == kinds


USE = "step = jax.jit(lambda p, x: model.apply({'params': p}, x))\ny = step(params, x)\n"
WHOLE = "with mesh:\n    v = jax.jit(model.init)(key, x)\n"
UNBOXED = 'params = nn.meta.unbox(v)["params"]\n'


CASES = [
    (WHOLE + UNBOXED + USE, True),
    (f"{WHOLE}{UNBOXED}with mesh:\n    {USE.replace(chr(10), chr(10) + '    ')}\n", True),
    ("v = model.init(key, x)\n" + UNBOXED + "x = jax.device_put(x, NamedSharding(mesh, P('a')))\n" + USE, True),
    ("v = model.init(key, x)\n" + UNBOXED + USE, False),  # no mesh is used at all
    (WHOLE + UNBOXED, False),
    (WHOLE + "specs = nn.get_sharding(v, mesh)\n" + UNBOXED + "params = jax.device_put(params, specs['params'])\n" + USE, False),
    ("with jax.set_mesh(mesh):\n    v = nn.unbox(jax.jit(model.init)(key, x))\nparams = v['params']\n" + USE, False),
    ("s = nn.get_sharding(jax.eval_shape(model.init, key, x), mesh)\nwith mesh:\n    v = jax.jit(model.init, out_shardings=s)(key, x)\n"
         + UNBOXED + USE, False),
    (WHOLE + UNBOXED + "params = other(params)\n" + USE, False),
    (WHOLE + UNBOXED + "step = jax.jit(lambda p: jax.lax.with_sharding_constraint(p, NamedSharding(mesh, P('b'))))\ny = step(params)\n", False),
]


@cache
def observed() -> list[dict[str, Any]]:
    """Return the layouts that jax makes in all the cases, in one process."""
    return observe([HEAD + BOXED + code.replace("other(", "dict(") for code, _ in CASES])


@pytest.mark.parametrize("number", range(len(CASES)))
def test_parameters_that_stay_whole_though_their_boxes_name_axes(write: Write, number: int) -> None:
    code, whole = CASES[number]
    run = ran(write({"main.py": HEAD + BOXED + code}))
    assert [one.kind for one in run.violations.values()] == ["box.unplaced"] * whole
    seen = observed()[number]
    assert not seen["error"]
    kernels = [one for path, one in seen["arrays"].items() if path.endswith("['Dense_0']['kernel']")]
    assert not whole or kernels[-1]["device"] == 0


def test_before_flax_0_12_2_a_mesh_entered_by_with_may_constrain(write: Write) -> None:
    inside = f"with mesh:\n    v = jax.jit(model.init)(key, x)\n    {UNBOXED}"
    for flax, kinds in (((0, 12, 0), []), ((0, 12, 2), ["box.unplaced"])):
        run = ran(write({"main.py": HEAD + BOXED + inside + USE}), flax)
        assert [one.kind for one in run.violations.values()] == kinds


def test_statistics_of_a_batch_differ_where_the_batch_does() -> None:
    text = f"""{HEAD}

model = nn.BatchNorm(use_running_average=False{{}})
v = model.init(key, x)


def step(v, x):
    return model.apply(v, x, mutable=["batch_stats"])[1]["batch_stats"]["mean"]


r = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("a")), out_specs=P())(v, x)
"""
    texts = [text.format(""), text.format(', axis_name="a"')]
    for one, seen in zip(texts, observe(texts), strict=True):
        broken = predicted(one, (*release("jax"), 0)).lines
        assert (seen["line"] in broken) == bool(seen["error"]), (broken, seen)
    assert seen["error"] == ""

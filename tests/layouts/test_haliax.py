"""Predictions about arrays with named axes, compared with haliax."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.layouts.interpreter import Interpreter
from shardlint.layouts.layout import Layout
from shardlint.libraries.haliax_axes import NamedArray
from tests.layouts import haliax_programs
from tests.layouts.compare import compare, observe, predicted
from tests.layouts.test_linen import ran
from tests.programs import release, skip_without

skip_without("jax")
skip_without("haliax")
Write = Callable[..., Path]
HEAD = haliax_programs.HEAD


# A program takes a second in jax.
@pytest.mark.parametrize(("first", "seeds"), [(500, 8), pytest.param(1000, 120, marks=pytest.mark.longer)])
def test_what_is_predicted_of_haliax_is_what_it_does(first: int, seeds: int) -> None:
    outcome = compare(range(first, first + seeds), (*release("jax"), 0), make=haliax_programs.program)
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.predicted >= 0.85 * outcome.errors, outcome.missed
    assert outcome.known >= 0.85 * outcome.arrays, str(outcome)


BROKEN = [
    ('y = hax.sum(x, "nothing")', "named.missing"),
    ("y = hax.sum(x, Embed.resize(4))", "named.sizes"),
    ("y = x + hax.ones(Embed.resize(4))", "named.sizes"),
    ("y = x + hax.ones(Mlp)", "named.subset"),
    ("y = x + jnp.ones((8, 16))", "named.plain"),
    ("y = hax.named(jnp.ones((8, 4)), (Batch, Embed))", "named.shape"),
    ("y = hax.named(jnp.ones((8, 8)), (Batch, Batch))", "named.twice"),
    ('y = hax.dot(x, x, axis="nothing")', "named.missing"),
    ('y = hax.einsum("{nothing} -> ", x, x)', "named.missing"),
    ('y = x.rename({"embed": "batch"})', "named.twice"),
    ("y = x.rearrange((Mlp, ...))", "named.missing"),
    ("y = x[Mlp, 0]", "named.missing"),
    ("y = hnn.softmax(x, Mlp)", "named.missing"),
    ("y = hax.roll(x, 1, Embed.resize(4))", "named.sizes"),
    ("y = hax.take(x, Embed.resize(4), 0)", "named.sizes"),
    ("y = x.flatten_axes((Batch, Embed.resize(4)), 'flat')", "named.sizes"),
    ("y = hax.dot(x, x, axis=Embed.resize(4))", "named.sizes"),
    ("y = x.rename({'embed': hax.Axis('new', 4)})", "named.sizes"),
    ("y = hax.vmap(lambda a: a, Batch.resize(4))(x)", "named.sizes"),
    ("y = hnn.Linear.init(Mlp, Pos, key=key)(x)", "named.input"),
    ("y = x.unflatten_axis(Embed, (Pos, Pos.alias('other').resize(3)))", "named.sizes"),
    ("y = hax.broadcast_to(x, (Batch, Pos))", "named.subset"),
    ('y = hax.shard(x, {"embed": "tensor"}, mesh)', "mapping.missing"),
    ('y = hax.shard(x, {"embed": "data", "batch": "data"}, mesh)', "mapping.twice"),
    ('y = hax.shard(hax.ones(Odd), {"odd": "model"}, mesh)', "spec.indivisible"),
    ('with mesh, hax.axis_mapping({"odd": "model"}):\n    y = hax.random.normal(key, Odd)', "spec.indivisible"),
    ("y = hax.shard(x, mesh)", "mapping.mesh"),
    ('y = hax.named_jit(lambda a: a * 2, axis_resources={"embed": "data"})(x)', "mapping.meshless"),
    ('with mesh:\n    y = hax.named_jit(lambda a: a * 2, axis_resources={"embed": "none"})(x)', "mapping.missing"),
]
RIGHT = [
    'y = hax.shard(x, {"data": "batch"}, mesh)',
    'y = x.rename({"nothing": "new"})',
    "y = x * jnp.ones(())",
    "y = hnn.softmax(x, Embed.resize(4))",
    "y = x.rearrange((Embed.resize(4), ...))",
    'y = x.rename({Embed.resize(4): "new"})',
    "y = hax.ones(Embed) + x",
    'y = hax.shard(x, {"embed": ("data", "model"), "batch": None}, mesh)',
    'with mesh:\n    y = hax.named_jit(lambda a: a * 2, axis_resources={"embed": "data"})(x)',
]
# They raise nothing, or only where a mesh is in context.
SILENT = {"mapping.mesh", "mapping.axis", "named.input"}


def test_what_breaks_a_contract_raises() -> None:
    texts = [f"{HEAD}x = hax.ones((Batch, Embed))\n{code}\n" for code in (*(code for code, _ in BROKEN), *RIGHT)]
    kinds: list[str | None] = [kind for _, kind in BROKEN]
    for text, kind, seen in zip(texts, [*kinds, *[None] * len(RIGHT)], observe(texts), strict=True):
        broken = {one.kind for one in predicted(text, (*release("jax"), 0)).broken}
        if kind is None:
            assert not broken - SILENT and not seen["error"], text
        else:
            assert kind in broken, text
            assert kind in SILENT or seen["error"], text


CONTEXTS = [
    ("y = here()", "", ["mapping.none"]),
    ("with hax.axis_mapping(A):\n    y = here()", "data", []),
    ("with mesh, hax.axis_mapping(B):\n    y = here()", "model", []),
    ("with hax.axis_mapping(A):\n    with hax.axis_mapping(B):\n        y = here()", "model", []),
    ("with hax.axis_mapping(A):\n    with hax.axis_mapping(B, merge=True):\n        y = here()", "data", ["mapping.outer"]),
    ("with hax.axis_mapping(A):\n    pass\ny = here()", "", ["mapping.none"]),
    ("with hax.axis_mapping(config.mapping):\n    y = here()", None, []),
    ("with hax.axis_mapping({}, embed='model'):\n    y = here()", "model", []),
    ("with trainer():\n    y = here()", None, []),
    ("stack.enter_context(hax.axis_mapping(A))\ny = here()", None, []),
    ("@hax.named_jit\ndef f():\n    return here()\n\n\ny = f()", "", ["mapping.none"]),
    ("@hax.named_jit(axis_resources=B)\ndef f():\n    return here()\n\n\nwith mesh:\n    y = f()", "model", []),
    ("@hax.fsdp(A, B)\ndef f(a):\n    return a * 2\n\n\nwith mesh:\n    y = f(x)", "data", []),
]  # fmt: skip


@pytest.mark.parametrize(("code", "axis", "kinds"), CONTEXTS)
def test_the_mapping_in_context_places_arrays(write: Write, code: str, axis: str | None, kinds: list[str]) -> None:
    before = 'A, B = {"embed": "data"}, {"embed": "model"}\nx = hax.ones(Embed)\n\n\ndef here():\n    return hax.shard(x, mesh=mesh)\n\n\n'
    run = ran(write({"main.py": f"{HEAD}{before}{code}\n"}))
    assert [one.kind for one in run.violations.values()] == kinds
    found = bound(run)
    spec = found.plain_array.spec if isinstance(found, NamedArray) else None
    assert (spec[0] if spec else None) == (None if not axis else (axis,)), str(found)


def bound(run: Interpreter) -> object:
    """Return the last value of `y`."""
    values = [
        run.layouts[node.value]
        for node in ast.walk(run.file.tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "y"
    ]
    return values[-1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hax.shard(x, {'embed': 'data'}, mesh)", "float32[batch=8, embed=16@data]"),
        ("x.sum(Embed).astype(jnp.bfloat16)", "bfloat16[batch=8]"),
        ("hax.dot(x, hax.ones((Embed, Mlp)), axis=Embed)", "float32[batch=8, mlp=32]"),
        ("unknown(x) * x", "None"),
        ("hax.ones((Batch, unknown))", "an array of unknown shape"),
        ("hax.ones(hax.Axis('long', unknown))", "float32[long=?]"),
        ("x.rename({Embed: 'other'})", "float32[batch=8, other=16]"),
        ("jax.tree.map(lambda a: a * 2, {'x': x})['x']", "float32[batch=8, embed=16]"),
        ("x.array", "float32[8, 16]"),
        ("hax.tree_util.tree_map(lambda a: a.sum(Embed), (x,))[0]", "float32[batch=8]"),
    ],
)
def test_arrays_are_shown_with_their_axes(write: Write, text: str, shown: str) -> None:
    run = ran(write({"main.py": f"{HEAD}x = hax.ones((Batch, Embed))\ny = {text}\n"}))
    found = bound(run)
    assert str(found if isinstance(found, NamedArray | Layout) else None) == shown
    assert not run.violations

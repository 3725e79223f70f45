"""What varies over which axis in the body of a shard_map or pmap."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import (
    HIDDEN,
    NOTHING,
    Known,
    Leaf,
    Record,
    Tree,
    axes_of,
    combined,
    each,
    either,
    kept_spec,
    leaves,
)
from shardlint.model.values import Constant, Items, Unknown
from tests.conftest import Asked

Ask = Callable[..., Asked]

ONE = Leaf(frozenset(["data"]), traced=True)
OTHER = Leaf(frozenset(["model"]), traced=True)
SAME = Leaf(traced=True)

BEFORE = """\
from functools import partial
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
import elsewhere
"""


def test_what_is_computed_of_several_varies_where_one_of_them_does() -> None:
    found = combined([ONE, OTHER, SAME])
    assert found.over == {"data", "model"}
    assert found.traced and not found.open
    assert combined([]) == NOTHING


def test_one_of_two_surely_varies_only_where_both_do() -> None:
    found = either(ONE, SAME)
    assert isinstance(found, Leaf)
    assert (found.over, found.maybe) == (frozenset(), {"data"})
    assert not found.same_over("data") and found.same_over("model")
    assert either(ONE, ONE) is ONE


def test_trees_of_one_structure_are_met_part_by_part() -> None:
    found = either(Tree((ONE, SAME)), Tree((ONE, OTHER)))
    assert isinstance(found, Tree)
    first, second = leaves(found)
    assert first.over == {"data"} and second.maybe == {"model"}
    record = either(Record((("a", ONE),)), Record((("a", SAME),)))
    assert isinstance(record, Record)
    assert next(leaves(record)).maybe == {"data"}
    assert isinstance(either(Tree((ONE,)), Tree((ONE, ONE))), Leaf)


def test_what_is_not_seen_may_be_anything() -> None:
    assert not HIDDEN.same_over("data")
    assert combined([SAME, HIDDEN]).open


def test_a_change_reaches_every_leaf() -> None:
    known = Known(Items("tuple", (Constant(1), Constant(2))))
    found = each(Tree((ONE, known)), lambda leaf: Leaf(leaf.over | {"x"}))
    assert [leaf.over for leaf in leaves(found)] == [{"data", "x"}, {"x"}, {"x"}]


def test_the_split_of_dimensions_is_kept_where_all_are_split_alike() -> None:
    axes = (frozenset(["data"]), frozenset[str]())
    split = Leaf(frozenset(["data"]), spec=axes)
    assert kept_spec([split, Known(Constant(2.0))]) == axes
    assert kept_spec([split, SAME]) is None
    assert kept_spec([]) is None


def test_axes() -> None:
    assert axes_of(Constant("data")) == ("data",)
    assert axes_of(Constant(None)) == ()
    assert axes_of(Items("tuple", (Constant("a"), Constant("b")))) == ("a", "b")
    assert axes_of(Unknown()) is None


def _ran(asked: Asked, summed: bool = True) -> Ran:
    file = asked.file("a.py")
    for scope in list(file.inner_scopes(file.module)):
        file.walked(scope)
    call = next(
        node
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and file.text(node.func) in ("jax.shard_map", "jax.pmap")
    )
    (found,) = asked.program.ran(file, call, "call", summed)
    return found


def _over(asked: Asked) -> list[set[str]]:
    return [{str(axis) for axis in leaf.over} for leaf in leaves(_ran(asked).result)]


@pytest.mark.parametrize(
    ("body", "over"),
    [
        ("x + w", [{"data"}]),
        ("w * 2", [set()]),
        ("(lax.psum(x, 'data'), x.mean())", [set(), {"data"}]),
        ("lax.pmean(jnp.mean(x), axis_name='data')", [set()]),
        ("lax.all_gather(x, 'data', tiled=True)", [set()]),
        ("w + lax.axis_index('data')", [{"data"}]),
        ("{'a': x, 'b': w}", [{"data"}, set()]),
        ("jax.tree.map(lambda leaf: lax.psum(leaf, 'data'), (x, x))", [set(), set()]),
        ("lax.fori_loop(0, 3, lambda i, c: c + x, w)", [{"data"}]),
        ("lax.cond(True, lambda a: a, lambda a: a * 2, x)", [{"data"}]),
        ("jax.vmap(lambda row: row * 2)(x)", [{"data"}]),
        ("jax.vmap(lambda row: lax.pmean(row, 'rows'), axis_name='rows')(x)", [{"data"}]),
        ("jax.vmap(lambda row: lax.psum(row, ('rows', 'data')), axis_name='rows')(x)", [set()]),
        ("jax.vmap(lambda row: lax.psum(row, 'data'), axis_name='data')(x)", [{"data"}]),
        ("jax.vmap(lambda row: lax.axis_index('rows') * w, axis_name='rows')(x)", [set()]),
        ("-x", [{"data"}]),
    ],
)
def test_what_a_body_returns(ask: Ask, body: str, over: list[set[str]]) -> None:
    asked = ask(
        f"{BEFORE}def f(x, w):\n    return {body}\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=(P('data'), P()), out_specs=P('data'))\n"
    )
    assert _over(asked) == over


def test_through_functions_branches_and_loops(ask: Ask) -> None:
    asked = ask(
        BEFORE + "def total(x, axis):\n"
        "    return lax.psum(x, axis)\n"
        "def f(x, w, flag):\n"
        "    y = w\n"
        "    for _ in range(2):\n"
        "        y = y + x\n"
        "    z = w\n"
        "    if flag is not None:\n"
        "        z = x\n"
        "    return y, total(y, 'data'), z\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=(P('data'), P(), P()), out_specs=P())\n"
    )
    assert _over(asked) == [{"data"}, set(), {"data"}]


def test_the_gradient_of_what_does_not_vary_is_summed_since_0_6_1(ask: Ask) -> None:
    asked = ask(
        BEFORE + "def f(w, x):\n"
        "    return jax.grad(lambda w: jnp.mean(x @ w))(w)\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=(P(), P('data')), out_specs=P())\n"
    )
    assert next(leaves(_ran(asked, True).result)).over == frozenset()
    assert next(leaves(_ran(asked, False).result)).over == {"data"}


def test_a_pmap_splits_what_in_axes_does_not_leave_whole(ask: Ask) -> None:
    asked = ask(BEFORE + "g = jax.pmap(lambda x, w: (x, w), axis_name='i', in_axes=(0, None))\n")
    assert _over(asked) == [{"i"}, set()]


def test_code_that_is_not_seen_leaves_it_open(ask: Ask) -> None:
    asked = ask(
        BEFORE + "g = jax.shard_map(lambda x: elsewhere.f(x), mesh=mesh, in_specs=P('data'), out_specs=P())\n"
    )
    leaf = next(leaves(_ran(asked).result))
    assert leaf.open
    assert not leaf.sure


@pytest.mark.parametrize(
    ("result", "sure"),
    [
        ("jnp.mean(elsewhere.f(x) - x)", {"data"}),
        ("elsewhere.f(x) * w", set()),
        ("elsewhere.f(x - w)", set()),
        ("lax.pmean(elsewhere.f(x) - x, 'data')", set()),
    ],
)
def test_what_varies_beside_code_that_is_not_seen(ask: Ask, result: str, sure: set[str]) -> None:
    asked = ask(
        f"{BEFORE}g = jax.shard_map(lambda x, w: {result}, mesh=mesh, in_specs=(P('data'), P()), out_specs=P())\n"
    )
    assert {axis for leaf in leaves(_ran(asked).result) for axis in leaf.sure} == sure


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("jnp.sort(x, axis=0)", {"along a split dimension"}),
        ("jnp.sort(jnp.exp(x * 2), axis=0)", {"along a split dimension"}),
        ("jnp.sort(x, axis=1)", set()),
        ("jnp.sort(x.reshape(-1), axis=0)", set()),
        ("x / jnp.mean(jnp.square(x), axis=0, keepdims=True)", {"along a split dimension"}),
        ("jnp.mean(x, axis=0)", set()),
        ("jnp.sort(jnp.einsum('bd,bc->cb', x, x), axis=1)", {"along a split dimension"}),
        ("jnp.sort(jnp.einsum('bd,bc->dc', x, x), axis=0)", set()),
        ("lax.pmean((x * x).sum() / jnp.maximum(x.sum(), 1), 'data')", {"mean of masked", "collective"}),
        ("lax.psum((x * x).sum(), 'data') / lax.psum(x.sum(), 'data')", {"collective"}),
        ("lax.psum(jnp.mean(x), 'data')", {"sum of means", "collective"}),
    ],
)
def test_events(ask: Ask, body: str, kinds: set[str]) -> None:
    asked = ask(
        f"{BEFORE}import optax\nopt = optax.sgd(0.1)\ndef f(x, w):\n    return {body}\n"
        "g = jax.shard_map(f, mesh=mesh, in_specs=(P('data'), P()), out_specs=P(), check_vma=False)\n"
    )
    assert {event.kind for event in _ran(asked).events} == kinds


def test_functions_in_functions_are_looked_into(ask: Ask) -> None:
    filler = "    x = x + 1; y = jnp.sin(x) * 2 + jnp.cos(x); x = x + y * 0.5\n" * 4
    steps = "".join(f"def f{n}(x):\n{filler}    return f{n + 1}(x)\n" for n in range(6))
    asked = ask(
        f"{BEFORE}{steps}def f6(x):\n    return lax.psum(x, 'data')\n"
        "g = jax.shard_map(f0, mesh=mesh, in_specs=P('data'), out_specs=P())\n"
    )
    assert [event.kind for event in _ran(asked).events] == ["collective"]

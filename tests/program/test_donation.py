"""Tests of donations, of the donated parts that functions return, and of later reads."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from shardlint.facts.lifetime.lifetimes import Lifetimes
from shardlint.facts.lifetime.reads import Reading
from shardlint.facts.lifetime.updates import Update
from shardlint.model.values import options
from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
import functools
from functools import partial
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from elsewhere import unknown, things, tx
"""


def donated(ask: Ask, text: str, call: str) -> list[str] | None:
    """The donated arguments of a call, as written."""
    asked = ask(BEFORE + text)
    file, node = asked.node(call)
    assert isinstance(node, ast.Call)
    found = asked.program.find_room(Lifetimes).donations.find_donations(file, node)
    return None if found is None else [file.source_text(argument.node) for argument in found.donated_arguments]


# quiet: nothing is donated, or the text does not tell


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("f = jax.jit(g)\nf(x)", id="no-donation"),
        pytest.param("f = jax.jit(g, donate_argnums=())\nf(x)", id="empty"),
        pytest.param("f = jax.jit(g, donate_argnums=1)\nf(x)", id="another-argument"),
        pytest.param("f = jax.jit(g, donate_argnums=unknown)\nf(x)", id="not-told"),
        pytest.param("f = jax.jit(g, **unknown)\nf(x)", id="hidden"),
        pytest.param("f = unknown(g, donate_argnums=0)\nf(x)", id="another-function"),
        pytest.param("f = jax.jit(g, donate_argnums=0) if unknown else g\nf(x)", id="on-one-way"),
        pytest.param("f = jax.jit(g, donate_argnums=0 if unknown else ())\nf(x)", id="perhaps-empty"),
        pytest.param("f = nnx.jit(g, donate_argnums=0)\nf(x)", id="nnx"),
        pytest.param("f = eqx.filter_jit(g, donate='none')\nf(x)", id="filter-jit-none"),
        pytest.param("f = eqx.filter_jit(g)\nf(x)", id="filter-jit"),
        pytest.param(
            "f = eqx.filter_jit(lambda a: a, donate='all-except-first')\nf(x)", id="all-except-first"
        ),
        pytest.param("f = unknown(jax.jit(g, donate_argnums=0))\nf(x)", id="behind-a-decorator"),
        pytest.param("f = jax.jit(lambda a: a, donate_argnums=0, static_argnums=0)\nf(x)", id="static"),
        pytest.param("f = partial(jax.jit(g, donate_argnums=0), 1)\nf(x)", id="partial-fills-it"),
        pytest.param("f = partial(jax.jit(g, donate_argnums=0), *unknown)\nf(x)", id="partial-star"),
    ],
)
def test_nothing_donated(ask: Ask, text: str) -> None:
    assert donated(ask, text, "f(x)") is None


@pytest.mark.parametrize(
    ("text", "call", "arguments"),
    [
        ("f = jax.jit(g, donate_argnums=0)", "f(x, y)", ["x"]),
        ("j = partial(jax.jit, static_argnums=1)\nf = j(g, donate_argnums=0)", "f(x, y)", ["x"]),
        ("j = partial(jax.pmap, axis_name='i')\nf = partial(j, donate_argnums=0)(g)", "f(x, y)", ["x"]),
        ("N = (0, 1)\nf = jax.jit(g, donate_argnums=N)", "f(x, y, z)", ["x", "y"]),
        ("f = jax.jit(lambda a, b: a, donate_argnums=-1)", "f(x, y)", ["y"]),
        ("f = jax.jit(lambda a, b: a, donate_argnames='b')", "f(x, y)", ["y"]),
        ("f = jax.jit(lambda a, b: a, donate_argnums=1)", "f(a=x, b=y)", ["y"]),
        ("f = jax.pmap(lambda a, b: a, donate_argnums=(0, 1))", "f(x, b=y)", ["x"]),
        ("f = partial(jax.jit(g, donate_argnums=1), 1)", "f(x, y)", ["x"]),
        ("f = eqx.filter_jit(g, donate='all')", "f(x, y)", ["x", "y"]),
        ("f = eqx.filter_jit(g, donate='warn')", "f(x)", ["x"]),
        ("f = eqx.filter_jit(lambda a, b: a, donate='all-except-first')", "f(x, y)", ["y"]),
        ("f = eqx.filter_jit(lambda a, b: a, donate='all-except-first')", "f(b=y, a=x)", ["y"]),
        ("@partial(jax.jit, donate_argnums=0)\ndef f(a): return a", "f(x)", ["x"]),
        ("@jax.jit(donate_argnums=0)\ndef f(a): return a", "f(x)", ["x"]),
        ("j = partial(jax.jit, donate_argnums=0)\nf = j(g)", "f(x)", ["x"]),
        ("def make():\n    return jax.jit(g, donate_argnums=0)\nf = make()", "f(x)", ["x"]),
        ("f = jax.jit(g, donate_argnums=0) if c else jax.jit(g, donate_argnums=(0, 1))", "f(x, y)", ["x"]),
        (
            "class C:\n    @eqx.filter_jit(donate='all')\n    def f(self, a): return a\nc = C()",
            "c.f(x)",
            ["c", "x"],
        ),
        (
            "class C:\n    @partial(jax.jit, donate_argnums=1)\n    def f(self, a): return a\nc = C()",
            "c.f(x)",
            ["x"],
        ),
        ("", "jax.jit(g, donate_argnums=0)(x)", ["x"]),
    ],
)
def test_what_is_donated(ask: Ask, text: str, call: str, arguments: list[str]) -> None:
    assert donated(ask, f"{text}\n{call}", call) == arguments


def test_the_wrapper_is_where_donation_is_asked_for(ask: Ask) -> None:
    asked = ask(BEFORE + "j = partial(jax.jit, donate_argnums=0)\nf = j(g)\nf(x)\n")
    file, node = asked.node("f(x)")
    assert isinstance(node, ast.Call)
    found = asked.program.find_room(Lifetimes).donations.find_donations(file, node)
    assert found is not None
    assert found.by.source_text() == "partial(jax.jit, donate_argnums=0)"


# updates


def update(ask: Ask, function: str, parameter: str = "s") -> Update | None:
    asked = ask(f"{BEFORE}{function}\nhere = f\n")
    value = asked.value("f", nth=-1)
    assert len(options(value)) == 1
    return asked.program.find_room(Lifetimes).donations.updates.find_update(value, parameter)


@pytest.mark.parametrize(
    "body",
    [
        "return s.sum()",
        "return jnp.mean(s)",
        "return x",
        "return {'loss': unknown(s)}",
        "return s @ x",
        "return s > x",
        "return s[1:]",
        "return unknown(s)",
        "if x: return s\n    return x",
        "s = x\n    return s",
        "y = s + 1\n    return x",
        "return jax.eval_shape(unknown, s)",
        "for s in x: pass\n    return s.sum()",
    ],
)
def test_no_update(ask: Ask, body: str) -> None:
    found = update(ask, f"def f(s, x):\n    {body}")
    assert found is not None
    assert not found.whole


@pytest.mark.parametrize(
    "body",
    [
        "return s",
        "return s * 0.9",
        "return 2 * s + x.mean()",
        "s = s - x\n    return s, x",
        "return {'s': s, 'x': x}",
        "return s.at[0].set(x)",
        "return s.replace(a=x)",
        "return optax.apply_updates(s, x)",
        "return jax.tree.map(lambda a, b: a - b, s, x)",
        "return jax.lax.with_sharding_constraint(s, x)",
        "return jax.grad(unknown)(s)",
        "loss, g = jax.value_and_grad(unknown)(s)\n    return g",
        "u, s = tx.update(x, s)\n    return s",
        "return jax.lax.fori_loop(0, 3, unknown, s)",
        "out, _ = jax.lax.scan(unknown, s, x)\n    return out",
        "def inner(t): return t * 2\n    return inner(s)",
        "if x: return s * 2\n    return s",
        "if x:\n        y = s\n    else:\n        y = s + 1\n    return y",
        "with x:\n        s = s + 1\n    return s",
        "return s if x else s * 2",
        "return (y := s * 2)",
    ],
)
def test_update(ask: Ask, body: str) -> None:
    found = update(ask, f"def f(s, x):\n    {body}")
    assert found is not None
    assert found.whole


def test_update_of_a_part(ask: Ask) -> None:
    found = update(ask, "def f(s, x):\n    p, o = s\n    params = s.params - x\n    return params, o")
    assert found is not None
    assert not found.whole
    assert found.parts == ("[1]", "params")


def test_an_argument_that_is_not_used(ask: Ask) -> None:
    unused, used = update(ask, "def f(s, x): return x"), update(ask, "def f(s, x): return lambda: s")
    assert unused is not None
    assert used is not None
    assert (unused.used, used.used) == (False, True)


def test_an_array_is_what_arithmetic_is_done_on(ask: Ask) -> None:
    array, tree = update(ask, "f = lambda s: s * 2"), update(ask, "f = lambda s: s.replace(a=1)")
    assert array is not None
    assert tree is not None
    assert (array.array, tree.array) == (True, False)


# reads


def uses(ask: Ask, text: str) -> list[tuple[str, Reading]]:
    """The reads after donation in `main`, as written."""
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    asked = ask(f"{BEFORE}step = jax.jit(lambda s: s * 2, donate_argnums=0)\ndef main(x, y, n):\n{lines}\n")
    file = asked.file("a.py")
    return [
        (file.source_text(use.node), use.reading)
        for _, story in asked.program.find_room(Lifetimes).donating_functions(file)
        for use in story.uses
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = step(x)\nx + 1", id="rebound"),
        pytest.param("x, y = step(x), x", id="swapped-read-before"),
        pytest.param("y = step(x)\nx = y\nx + 1", id="rebound-later"),
        pytest.param("y = step(x)\ndel x", id="deleted"),
        pytest.param("y = step(x)\nx.shape, x.dtype, len(x), x is y", id="metadata"),
        pytest.param("y = step(x)\njnp.zeros_like(x)", id="zeros-like"),
        pytest.param("if n:\n    y = step(x)\nelse:\n    y = x + 1", id="other-branch"),
        pytest.param("if n:\n    return step(x)\nx + 1", id="returned"),
        pytest.param("if n:\n    y = step(x)\n    raise ValueError\nx + 1", id="raised"),
        pytest.param(
            "for n in y:\n    if n:\n        y = step(x)\n        break\n    x + 1", id="left-the-loop"
        ),
        pytest.param("for n in y:\n    x = step(x)\nx + 1", id="rebound-in-a-loop"),
        pytest.param("while n:\n    y = step(x)\n    x = y", id="rebound-at-the-end"),
        pytest.param("for x in y:\n    step(x)", id="the-target"),
        pytest.param("for _ in range(1):\n    step(x)", id="one-turn"),
        pytest.param("y = step(x.a)\nx.b + 1", id="another-part"),
        pytest.param("x.a = step(x.a)\nx.a + 1", id="part-rebound"),
        pytest.param("y = step(x['a'])\nx['a'] = y\nx['a'] + 1", id="key-rebound"),
        pytest.param("y = step(x[n])\nx[n] + 1", id="key-not-told"),
        pytest.param("y = step(x.a)\nx.reset()\nx.a + 1", id="a-method-may-rebind"),
        pytest.param("y = step(x.a)\nunknown(x)\nx.a + 1", id="a-function-may-rebind"),
        pytest.param("def later():\n    nonlocal x\n    x = y\ny = step(x)\nlater()\nx + 1", id="nonlocal"),
        pytest.param("y = step(x)\nreturn lambda: x + 1", id="lambda"),
        pytest.param("[step(x) for x in y]", id="comprehension-target"),
        pytest.param("(step(x) for _ in y)", id="generator"),
        pytest.param("step(x + 1)\nx + 1", id="of-a-new-array"),
        pytest.param(
            "match n:\n    case 1:\n        y = step(x)\n    case _:\n        y = x + 1", id="match"
        ),
        pytest.param("y = jnp.copy(x)\nx = step(x)\ny + 1", id="copied"),
        pytest.param("step.lower(x)\nx + 1", id="lowered"),
        pytest.param("try:\n    y = step(x)\n    return y\nfinally:\n    pass\nx + 1", id="finally"),
    ],
)
def test_no_read_after(ask: Ask, text: str) -> None:
    assert uses(ask, text) == []


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("y = step(x)\nx + 1", "x", id="plain"),
        pytest.param("z = x\nx = step(x)\nz + 1", "z", id="alias"),
        pytest.param("z = jnp.asarray(x)\nx = step(x)\nz + 1", "z", id="asarray"),
        pytest.param("z, w = x, y\nx = step(x)\nz + w", "z", id="alias-in-a-tuple"),
        pytest.param("for _ in y:\n    z = step(x)", "x", id="loop"),
        pytest.param("while True:\n    z = step(x)", "x", id="endless-loop"),
        pytest.param("for _ in y:\n    z = step(x)\nx + z", "x", id="after-the-loop"),
        pytest.param("if n:\n    y = step(x)\n    x + y", "x", id="in-the-branch"),
        pytest.param("if n:\n    a = step(x)\nelse:\n    a = step(x)\nx + a", "x", id="in-both-branches"),
        pytest.param("if n:\n    return y\na = step(x)\nx + a", "x", id="after-another-returned"),
        pytest.param("y = step(x.a)\nx.a + 1", "x.a", id="part"),
        pytest.param("y = step(x)\nx.a + 1", "x.a", id="part-of-a-whole"),
        pytest.param("y = step(x.a)\nstep(x)", "x", id="whole-of-a-part"),
        pytest.param("y = step(x['a'])\nx['a'] + 1", "x['a']", id="key"),
        pytest.param("y = step(x)\nx += 1", "x", id="augmented"),
        pytest.param("y = step(x)\nx.sum()", "x.sum", id="method"),
        pytest.param("y = step(x)\nnp.asarray(x)", "x", id="numpy"),
        pytest.param("y = step(x)\nstep({'a': x})", "x", id="in-a-display"),
        pytest.param("a = {'w': x}\nstep(a)\nx + 1", "x", id="donated-in-a-dict"),
        pytest.param("step((x, y))\nx + 1", "x", id="donated-in-a-tuple"),
        pytest.param("with n:\n    y = step(x)\nx + 1", "x", id="with"),
        pytest.param("if (z := step(x)) is not None:\n    x + 1", "x", id="walrus"),
        pytest.param("try:\n    y = step(x)\nfinally:\n    x + 1", "x", id="finally"),
        pytest.param("[step(x) for _ in y]", "x", id="comprehension"),
    ],
)
def test_read_after(ask: Ask, text: str, read: str) -> None:
    assert (read, Reading.DATA) in uses(ask, text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("if n:\n    y = step(x)\nx + 1", Reading.PERHAPS, id="on-some-ways"),
        pytest.param("try:\n    y = step(x)\nexcept ValueError:\n    x + 1", Reading.PERHAPS, id="handler"),
        pytest.param(
            "y = step(x)\ntry:\n    x + 1\nexcept RuntimeError:\n    pass", Reading.PERHAPS, id="probe"
        ),
        pytest.param("y = step(x)\nunknown(x)", Reading.PERHAPS, id="a-function-not-seen"),
        pytest.param("y = step(x)\nreturn x", Reading.PERHAPS, id="returned"),
        pytest.param("y = step(x)\nprint(x)", Reading.IF_ARRAY, id="printed"),
        pytest.param("y = step(x)\nx[n]", Reading.IF_ARRAY, id="element"),
        pytest.param("y = n and step(x)\nx + 1", Reading.PERHAPS, id="and"),
        pytest.param("y = step(x) if n else x\nx + 1", Reading.PERHAPS, id="conditional"),
    ],
)
def test_read_that_may_be_one(ask: Ask, text: str, kind: Reading) -> None:
    assert [found for _, found in uses(ask, text)] == [kind]


def twice(ask: Ask, text: str) -> list[str]:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    step = "step = jax.jit(lambda a, b: (a, b), donate_argnums=(0, 1))\none = jax.jit(lambda a, b: a, donate_argnums=0)"
    asked = ask(f"{BEFORE}{step}\ndef main(x, y):\n{lines}\n")
    file = asked.file("a.py")
    return [file.source_text(t.nodes[1]) for _, story in asked.program.find_room(Lifetimes).donating_functions(file) for t in story.twice]


@pytest.mark.parametrize(
    "text",
    [
        "step(x, y)",
        "step(x, x + 1)",
        "step(x, jnp.copy(x))",
        "step(x.a, x.b)",
        "step(x['a'], x['b'])",
        "z = x\nx = x + 1\nstep(x, z)",
        "one(y, (x, x))",
        "step(x, jnp.asarray(x))",
    ],
)
def test_not_twice(ask: Ask, text: str) -> None:
    assert twice(ask, text) == []


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("step(x, x)", "x"),
        ("one(x, x)", "x"),
        ("z = x\nstep(x, z)", "z"),
        ("step(x, x.a)", "x.a"),
        ("step({'a': x, 'b': x}, y)", "x"),
        ("z = {'a': x, 'b': x}\nstep(z, y)", "z"),
        ("x = jnp.ones(8)\nstep(x, jnp.asarray(x))", "x"),
    ],
)
def test_twice(ask: Ask, text: str, second: str) -> None:
    assert twice(ask, text) == [second]


def test_the_body_of_a_module_is_walked_too(ask: Ask) -> None:
    asked = ask(
        f"{BEFORE}step = jax.jit(lambda s: s * 2, donate_argnums=0)\nx = jnp.ones(8)\ny = step(x)\nx + y\n"
    )
    file = asked.file("a.py")
    ((scope, story),) = asked.program.find_room(Lifetimes).donating_functions(file)
    assert scope is file.module
    (use,) = story.uses
    assert (use.is_repeated_call, file.source_text(use.node)) == (False, "x")


HELPERS = BEFORE + """
step = jax.jit(lambda s, b: s * b, donate_argnums=0)
def once(state, batch):
    return step(state, batch)
def looped(batches, state):
    for b in batches:
        state = step(state, b)
    return state
def copied(state, b):
    state = jnp.copy(state)
    return step(state, b)
def branched(state, b):
    if b:
        return step(state, b)
    return state
def around(state, b):
    return once(state, b)
class Run:
    def go(self, b, state):
        return step(state, b)
"""


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("once(x, y)", ["x"]),
        ("once(batch=y, state=x)", ["x"]),
        ("looped(y, x)", ["x"]),
        ("around(x, y)", ["x"]),
        ("Run().go(y, x)", ["x"]),
        ("copied(x, y)", None),
        ("branched(x, y)", None),
        ("once(*things)", None),
    ],
)
def test_a_function_of_the_project_donates_what_it_hands_on(
    ask: Ask, call: str, given: list[str] | None
) -> None:
    asked = ask(f"{HELPERS}{call}\n")
    file, node = asked.node(call)
    assert isinstance(node, ast.Call)
    found = asked.program.find_room(Lifetimes).donations.find_donations(file, node)
    assert (None if found is None else [file.source_text(one.node) for one in found.donated_arguments]) == given


INSIDE = "h = lambda a: unknown(a.shape)\nk = lambda a, n: a * 2 if n else n\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def l(a, b):\n        return (a - b).sum()\n    y = step(x)\n    l(y, x)", Reading.DATA),
        ("y = step(x)\n    jax.tree.map(lambda a, b: abs(a - b).max(), y, x)", Reading.DATA),
        ("y = step(x)\n    jax.tree.map(lambda a, b: a.sum(), y, x)", Reading.PERHAPS),
        ("y = step(x)\n    h(x)", Reading.PERHAPS),
        ("y = step(x)\n    k(x, n)", Reading.PERHAPS),
        ("def l(a):\n        if n:\n            return n\n        return a + 1\n    y = step(x)\n    l(x)", Reading.PERHAPS),
        ("def l(a):\n        a = n\n        return a + 1\n    y = step(x)\n    l(x)", Reading.PERHAPS),
        ("def l(a):\n        yield a + 1\n    y = step(x)\n    l(x)", Reading.PERHAPS),
    ],
)  # fmt: skip
def test_read_in_a_function_that_is_called(ask: Ask, text: str, kind: Reading) -> None:
    program = f"step = jax.jit(g, donate_argnums=0)\ndef run(x, n):\n    {text}\n"
    assert ("x", kind) in uses(ask, INSIDE + program)


def test_names_that_swap_in_many_branches_are_read_in_linear_time(ask: Ask) -> None:
    swaps = "    if n():\n        x = y\n    if n():\n        y = x\n" * 60
    program = f"step = jax.jit(g, donate_argnums=0)\ndef run(x, y, n):\n{swaps}    return step(x), x + 1\n"
    assert ("x", Reading.DATA) in uses(ask, program)

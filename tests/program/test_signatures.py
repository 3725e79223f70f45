"""Tests of the parameters of functions, and of the settings of jit."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from shardlint.facts.jit_settings import argnum_positions, jit_wrappings, setting_names, setting_positions
from shardlint.model.signatures import jitted_value, parameters_of
from shardlint.model.values import Place
from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
import functools
from functools import partial
import jax
from elsewhere import unknown, decorator
def f(a, b, c=1, *, key=None): pass
class C:
    def m(self, a, b=1): pass
    @staticmethod
    def s(a): pass
    @classmethod
    def k(cls, a): pass
    @partial(jax.jit, static_argnums=0)
    def j(self, a): pass
    def __call__(self, x): pass
    step = jax.jit(m, donate_argnums=1)
"""


@pytest.mark.parametrize(
    ("expression", "positional", "required", "keyword_only", "star"),
    [
        ("f", "a b c", 2, "key", False),
        ("lambda x, *rest: x", "x", 1, "", True),
        ("partial(f, 1)", "b c", 1, "key", False),
        ("partial(f, 1, 2, 3)", "", 0, "key", False),
        ("partial(f, b=1)", "a", 1, "b c key", False),
        ("partial(f, key=1)", "a b c", 2, "key", False),
        ("partial(partial(f, 1), 2)", "c", 0, "key", False),
        ("partial(lambda *xs: xs, 1)", "", 0, "", True),
        ("C().m", "a b", 1, "", False),
        ("C.m", "self a b", 2, "", False),
        ("C().s", "a", 1, "", False),
        ("C().k", "a", 1, "", False),
        ("C()", "x", 1, "", False),
        ("jax.vmap(f)", "a b c", 2, "key", False),
        ("jax.value_and_grad(partial(f, 1))", "b c", 1, "key", False),
        ("jax.jit(jax.checkpoint(f))", "a b c", 2, "key", False),
    ],
)
def test_what_a_function_takes(
    ask: Ask, expression: str, positional: str, required: int, keyword_only: str, star: bool
) -> None:
    asked = ask(f"{BEFORE}here = {expression}\n")
    found = parameters_of(asked.value(expression), asked.program.evaluator)
    assert found is not None
    assert found.positional == tuple(positional.split())
    assert found.required == required
    assert found.keyword_only == tuple(keyword_only.split())
    assert found.star is star


@pytest.mark.parametrize(
    "expression",
    [
        "unknown",
        "decorator(f)",
        "partial(f, *unknown)",
        "partial(f, **unknown)",
        "partial(f, 1, 2, 3, 4)",
        "partial(unknown, 1)",
        "f if unknown else C",
        "C",
        "f(1, 2)",
        "3",
    ],
)
def test_what_is_not_told(ask: Ask, expression: str) -> None:
    asked = ask(f"{BEFORE}here = {expression}\n")
    assert parameters_of(asked.value(expression), asked.program.evaluator) is None


def test_two_functions_that_take_the_same(ask: Ask) -> None:
    asked = ask("def f(a): pass\ndef g(a): pass\ndef h(b): pass\nx = f if c else g\ny = f if c else h\n")
    same = parameters_of(asked.value("f if c else g"), asked.program.evaluator)
    assert same is not None
    assert same.positional == ("a",)
    assert parameters_of(asked.value("f if c else h"), asked.program.evaluator) is None


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("f(1, 2)", {"a": "1", "b": "2"}),
        ("f(1, key=3, b=2)", {"a": "1", "b": "2", "key": "3"}),
        ("f(1, *rest)", None),
        ("f(1, **rest)", None),
    ],
)
def test_arguments_by_parameter(ask: Ask, call: str, given: dict[str, str] | None) -> None:
    asked = ask(f"{BEFORE}{call}\n")
    parameters = parameters_of(asked.value("f"), asked.program.evaluator)
    assert parameters is not None
    bound = parameters.bind_arguments(asked.program.evaluator.read_arguments(Place(*asked.node(call))))
    assert (bound and {name: place.source_text() for name, place in bound.items()}) == given


def test_negative_positions_count_from_behind(ask: Ask) -> None:
    asked = ask(BEFORE)
    parameters = parameters_of(asked.value("jax.jit(m, donate_argnums=1)"), asked.program.evaluator)
    assert parameters is not None
    assert [parameters.nonnegative_position(number) for number in (0, -1, 3, -4)] == [0, 2, None, None]


@pytest.mark.parametrize(
    ("settings", "static"),
    [
        ("", []),
        ("static_argnums=1", [1]),
        ("static_argnums=(0, -1)", [0, 2]),
        ("static_argnums=N", [0, 1]),
        ("static_argnames='b'", [1]),
        ("static_argnames=['a', 'key']", [0]),
        ("static_argnums=9", []),
        ("static_argnums=0, static_argnames='b'", [0]),
        ("static_argnums=None", []),
        ("static_argnums=unknown", None),
        ("static_argnums=(0, unknown)", None),
        ("static_argnums=True", None),
        ("static_argnames=0", None),
        ("**unknown", None),
    ],
)
def test_static_positions(ask: Ask, settings: str, static: list[int] | None) -> None:
    asked = ask(f"{BEFORE}N = (0, 1)\nx = jax.jit(f, {settings})\n")
    function = jitted_value(asked.value(f"jax.jit(f, {settings})"), asked.program.evaluator)
    assert function is not None
    found = setting_positions(function, "static", asked.program.evaluator)
    assert (None if found is None else sorted(found)) == static


def test_self_of_a_decorated_method_is_an_argument(ask: Ask) -> None:
    asked = ask(f"{BEFORE}C().j(1)\nC().step(1)\njax.jit(C().m)(1)\n")
    evaluator = asked.program.evaluator
    decorated = jitted_value(asked.value("C().j"), evaluator)
    assigned = jitted_value(asked.value("C().step"), evaluator)
    bound_before = jitted_value(asked.value("jax.jit(C().m)"), evaluator)
    assert decorated is not None
    assert assigned is not None
    assert bound_before is not None
    assert (decorated.late, assigned.late, bound_before.late) == (True, True, False)
    assert decorated.parameters is not None
    assert bound_before.parameters is not None
    assert decorated.parameters.positional == ("self", "a")
    assert bound_before.parameters.positional == ("a", "b")


@pytest.mark.parametrize(
    ("text", "form", "wrapped"),
    [
        ("jax.jit(f, static_argnums=0)", "call", ["f"]),
        ("jax.jit(f, static_argnums=0)(1)", "call", ["f"]),
        ("jax.jit(static_argnums=0)(f)", "call", ["f"]),
        ("@jax.jit(static_argnums=0)\ndef g(): pass", "call", ["g"]),
        ("@partial(jax.jit, static_argnums=0)\ndef g(): pass", "partial", ["g"]),
        ("@partial(jax.jit, static_argnums=0)\n@jax.vmap\ndef g(): pass", "partial", ["g"]),
        ("partial(jax.jit, static_argnums=0)(f)", "partial", ["f"]),
        ("h = partial(jax.jit, static_argnums=0)", "partial", []),
        ("jax.jit(unknown, static_argnums=0)", "call", [None]),
        ("jax.vmap(f)", "call", []),
    ],
)
def test_what_a_wrapper_is_applied_to(ask: Ask, text: str, form: str, wrapped: list[str | None]) -> None:
    asked = ask(f"{BEFORE}{text}\n")
    file = asked.file("a.py")
    calls = [n for n in ast.walk(file.tree) if isinstance(n, ast.Call) and n.lineno > BEFORE.count("\n")]
    call = next((n for n in calls if any(k.arg == "static_argnums" for k in n.keywords)), calls[0])
    for scope in list(file.inner_scopes(file.module)):
        file.walk_scope(scope)
    found = list(jit_wrappings(asked.program, file, call, form))
    nodes = [one.parameters.node if one.parameters is not None else None for one in found]
    assert [getattr(node, "name", None) for node in nodes] == wrapped


def test_numbers_and_names(ask: Ask) -> None:
    asked = ask("import jax\nx = jax.jit(f, donate_argnums=[0, 1], donate_argnames=('a',))\n")
    evaluator = asked.program.evaluator
    function = jitted_value(
        asked.value("jax.jit(f, donate_argnums=[0, 1], donate_argnames=('a',))"), evaluator
    )
    assert function is not None
    assert argnum_positions(function.setting_expression("donate_argnums"), function.settings, evaluator) == (0, 1)
    assert setting_names(function.setting_expression("donate_argnames"), function.settings, evaluator) == ("a",)
    assert argnum_positions(function.setting_expression("donate_argnames"), function.settings, evaluator) is None
    assert setting_names(None, function.settings, evaluator) == ()

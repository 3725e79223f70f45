"""Tests of functions that only run a model on their argument: the answers, and their cost."""

from __future__ import annotations

from collections.abc import Callable

from shardlint.facts.model_inputs import is_only_called
from shardlint.model.values import Function
from tests.conftest import Asked, calls_of

Ask = Callable[..., Asked]


def told(asked: Asked, name: str, parameter: str) -> bool:
    function = asked.value(name)
    assert isinstance(function, Function)
    return is_only_called(asked.program.evaluator, function, parameter)


def test_it_is_told_through_helpers_that_are_asked_twice(ask: Ask) -> None:
    asked = ask("""
        def logits(model, params, x):
            return model.apply(params, x)

        def loss(model, params, x):
            first = logits(model, params, x)
            return logits(model, params, first)

        def kept(model, params, x):
            first = logits(model, params, x)
            return first, params

        use(loss, kept)
        """)
    assert told(asked, "loss", "params")
    assert not told(asked, "kept", "params")


def chain(calls: int) -> str:
    """Functions that each call the next one many times with what they are given."""
    text = "def last(model, params, x):\n    return model.apply(params, x)\n"
    before = "last"
    for name in ("third", "second", "first"):
        body = "".join(f"    x = {before}(model, params, x)\n" for _ in range(calls))
        text += f"def {name}(model, params, x):\n{body}    return x\n"
        before = name
    return text + "use(first)\n"


def test_many_calls_of_one_function_are_followed_once(ask: Ask) -> None:
    def work(calls: int) -> int:
        asked = ask(chain(calls))
        return calls_of(lambda: told(asked, "first", "params"))

    few, many = work(4), work(16)
    assert many < 8 * few

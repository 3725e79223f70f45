"""Tests of the values of parameters, derived from the calls of their functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shardlint.model.evaluator.callers import Callers
from shardlint.model.values import CallResult, ClassValue, options
from tests.conftest import Asked

Ask = Callable[..., Asked]


def test_what_many_callers_hand_on_is_asked_once_a_function(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{level}{at}" for level in "abc" for at in range(12)]
    lines = ["class Thing:", "    pass", "def use(x):", "    return x"]
    for name in names:
        below = [f"{chr(ord(name[0]) - 1)}{at}" for at in range(12)] if name[0] != "a" else ["use"]
        lines += [f"def {name}(x):", *(f"    {one}(x)" for one in below)]
    lines += ["def main():", *(f"    c{at}(Thing())" for at in range(12))]
    whole = ask("\n".join(lines) + "\n")
    asked, count = Callers._argument_value, [0]

    def counted(self: Callers, *arguments: Any) -> Any:
        count[0] += 1
        return asked(self, *arguments)

    monkeypatch.setattr(Callers, "_argument_value", counted)
    file, node = whole.node("x", nth=0)
    found = options(whole.program.followed(whole.program.value(file, node)))
    assert len(found) == 12 and all(isinstance(one, CallResult) and isinstance(one.by, ClassValue) for one in found)
    # Twelve callers on each of four levels; one after the other they would be twelve to the fourth.
    assert count[0] <= 12 + 3 * 12 * 12

"""Dataclasses that are made late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from shardlint.source import lazy

Decorator = Callable[..., Any]


@lazy.dataclass(frozen=True)
class Sent:
    """Goes to another process."""

    name: str
    sizes: tuple[int, ...] = ()


@lazy.dataclass
class Filled:
    """Has a value of its own each time."""

    found: list[str] = dataclasses.field(default_factory=list)


@lazy.dataclass(frozen=True)
class _Below(Sent):
    more: int = 3


class _Plain(_Below):
    """Inherits all."""


@lazy.dataclass
class _Own:
    shown: str = ""

    def __init__(self, *words: str) -> None:
        self.shown = " ".join(words)


def test_instances_are_those_of_the_standard_library() -> None:
    one = Sent("x", (1,))
    assert (one, hash(one)) == (Sent("x", (1,)), hash(Sent("x", (1,))))
    assert one != Sent("x") and repr(one) == "Sent(name='x', sizes=(1,))"
    assert dataclasses.replace(one, name="y") == Sent("y", (1,))
    assert [field.name for field in dataclasses.fields(one)] == ["name", "sizes"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Sent()  # type: ignore[call-arg]
    match one:
        case Sent(name, sizes):
            assert (name, sizes) == ("x", (1,))


def test_a_class_is_made_with_those_it_inherits_from() -> None:
    plain = _Plain("x", (), 4)
    assert (plain.name, plain.sizes, plain.more) == ("x", (), 4)
    assert plain == _Plain("x", more=4) != _Below("x", more=4)


def test_defaults_are_not_shared() -> None:
    Filled().found.append("a")
    assert Filled().found == []
    with pytest.raises(TypeError, match="unhashable"):
        hash(Filled())


def test_a_class_keeps_its_own_init() -> None:
    assert _Own("a", "b") == _Own("a b")


def test_an_instance_of_another_process_is_whole() -> None:
    code = """
import pickle, sys
from tests.test_lazy import Sent
from shardlint.source import lazy
assert Sent in lazy._LATER
one = pickle.load(sys.stdin.buffer)
assert Sent not in lazy._LATER
assert len({one, Sent("x", (1,))}) == 1 and repr(one).startswith("Sent(")
"""
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(Sent("x", (1,))), check=True)
    assert copy.copy(Sent("x")) == Sent("x")


def test_all_are_made_before_a_second_thread_starts() -> None:
    @lazy.dataclass
    class Late:
        number: int

    assert not dataclasses.is_dataclass(Late)
    lazy.complete_classes()
    assert dataclasses.is_dataclass(Late) and Late(1) == Late(1)

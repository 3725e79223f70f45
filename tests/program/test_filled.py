"""Lists and dicts that are filled in place, and what makes one of another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.model.values import CallResult, Choice, Constant, Items, Leaves, Table, Value


def plain(value: Value) -> object:
    """A value as plain data; `...` for what is not known."""
    match value:
        case Constant(value=known):
            return known
        case Items(items=items, open=False):
            return [plain(one) for one in items]
        case Table(entries=entries, open=False):
            return {key: plain(one) for key, one in entries}
        case Leaves(of=leaf):
            return ("each", plain(leaf))
        case Choice(options=options):
            return {plain(one) for one in options}
        case CallResult():
            return value.api.rpartition(".")[2]
    return ...


HEAD = "import copy, flax\nfrom collections import OrderedDict\nfrom jax.sharding import PartitionSpec as P\n"
CASES = {
    "in order": ("t = {}\nt['a'] = 1\nt['b'] = 2\n", {"a": 1, "b": 2}),
    "read between": ("t = {}\nt['a'] = 1\nuse(t)\nuse(here)\nt['b'] = 2\n", {"a": 1, "b": 2}),
    "again": ("t = {'a': 1}\nt['a'] = 2\n", {"a": 2}),
    "a loop": ("t = {}\nfor k in ('a', 'b'):\n    t[k] = 1\n", {"a": 1, "b": 1}),
    "pairs": ("t = {}\nfor k, v in {'a': 1, 'b': 2}.items():\n    t[k] = v\n", {"a": 1, "b": 2}),
    "numbers": ("t = {}\nfor i in range(2):\n    t[f'l{i}'] = i\n", {"l0": 0, "l1": 1}),
    "inside": ("t = {'l': {}}\nt['l']['a'] = 1\nt['m'] = {}\nt['m']['b'] = 2\n", {"l": {"a": 1}, "m": {"b": 2}}),
    "an unknown loop": ("t = {}\nfor k in names:\n    t[k] = 1\n", ("each", 1)),
    "perhaps": ("t = {}\nif names:\n    t['a'] = 1\nelse:\n    t['a'] = 2\n", ("each", ...)),
    "a turn that is left": ("t = {}\nfor k in ('a', 'b'):\n    if names:\n        continue\n    t[k] = 1\n", ("each", 1)),
    "more than is written": ("t = {'a': 1}\nfor k in names:\n    t[k] = 1\n", ...),
    "taken out": ("t = {'a': 1}\nt.pop('a')\n", ...),
    "update": ("t = {'a': 1}\nt.update({'b': 2})\n", {"a": 1, "b": 2}),
    "merge": ("t = {'a': 1}\nt |= {'b': 2}\n", {"a": 1, "b": 2}),
    "default": ("t = {'a': 1}\nt.setdefault('a', 2)\nt.setdefault('b', 3)\n", {"a": 1, "b": 3}),
    "a function fills it": ("t = {}\nput(t, 'a')\n", {"a": 1}),
    "a function may fill it": ("t = {}\nmay(t, 'a')\n", ...),
    "a list": ("t = []\nfor k in (1, 2):\n    t.append(k)\n    t.append(0)\n", [1, 0, 2, 0]),
    "a longer list": ("t = [1]\nt += [2]\nt.extend([3])\n", [1, 2, 3]),
    "a longer tuple": ("t = ('data',)\nt += ('model',)\n", ["data", "model"]),
    "ordered": ("t = OrderedDict()\nt['a'] = 1\n", {"a": 1}),
    "of pairs": ("t = dict(zip(('a', 'b'), (1, 2)))\n", {"a": 1, "b": 2}),
    "of another": ("s = {'a': 1}\nt = dict(s, b=2)\n", {"a": 1, "b": 2}),
    "copied": ("s = {'a': 1}\nt = copy.deepcopy(s)\nt['b'] = 2\nu = s.copy()\n", {"a": 1, "b": 2}),
    "frozen": ("t = flax.core.freeze({'a': 1})\n", {"a": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_held(ask: Callable[..., object], case: str) -> None:
    text, expected = CASES[case]
    helpers = "def put(t, k):\n    t[k] = 1\ndef may(t, k):\n    if k:\n        t[k] = 1\n"
    body = "".join(f"    {line}\n" for line in text.splitlines())
    asked = ask(f"{HEAD}{helpers}def f(names):\n{body}    return t  # \nx = f(0)\n")
    found = plain(asked.value("t", nth=-1))  # type: ignore[attr-defined]
    if case == "perhaps":
        found = ("each", ...) if isinstance(found, tuple) and found[0] == "each" else found
    assert found == expected


def test_what_a_use_above_sees(ask: Callable[..., object]) -> None:
    asked = ask("def f():\n    t = {}\n    t['a'] = 1\n    g(*t)\n    t['b'] = 2\n    return [t]\n")
    assert plain(asked.value("t", nth=2)) == {"a": 1}  # type: ignore[attr-defined]
    assert plain(asked.value("t", nth=-1)) == {"a": 1, "b": 2}  # type: ignore[attr-defined]


def test_what_methods_put_into_an_attribute(ask: Callable[..., object]) -> None:
    asked = ask(
        "class A:\n    def __init__(self):\n        self.t = {}\n        self.u = {'a': 1}\n"
        "    def add(self, k):\n        self.t[k] = 1\n        self.u[k] = 2\n"
        "def f():\n    return A().t, A().u\n"
    )
    assert plain(asked.value("A().t")) == ("each", 1)  # type: ignore[attr-defined]
    assert plain(asked.value("A().u")) is ...  # type: ignore[attr-defined]


def test_keywords_from_a_dict(ask: Callable[..., object]) -> None:
    asked = ask(
        "def f(a, b=2):\n    return (a, b)\n"
        "def g():\n    kw = {'a': 1}\n    kw['b'] = 5\n    return f(**kw), f(**{'a': 3}), f(**other)\n"
    )
    assert plain(asked.value("f(**kw)")) == [1, 5]  # type: ignore[attr-defined]
    assert plain(asked.value("f(**{'a': 3})")) == [3, 2]  # type: ignore[attr-defined]
    assert plain(asked.value("f(**other)")) == [..., ...]  # type: ignore[attr-defined]

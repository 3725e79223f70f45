"""The table of the functions of libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from shardlint.layouts.builtin_functions import BUILTINS
from shardlint.layouts.function_table import FunctionTable, Implementation
from shardlint.layouts.values import Call, Value

FUNCTIONS = FunctionTable(BUILTINS, {})
"""Whoever imports a module of this folder fills it."""


def _full_names(names: tuple[str, ...]) -> Iterator[str]:
    """The names of functions, of which one after another may follow the name of their module."""
    for name in names:
        module, *members = name.split()
        yield from [f"{module}.{one}" for one in members] or [module]


def register_function(*names: str) -> Callable[[Implementation], Implementation]:
    """Enter a function into the table under names of a library: "jax.numpy.sum", or "jax.numpy sum mean max"."""

    def enter_function(implementation: Implementation) -> Implementation:
        for full in _full_names(names):
            FUNCTIONS[full] = implementation
        return implementation

    return enter_function


Marking = Callable[[Call, Value], Value]
"""What a result has more in a mapped body, by the call and the result."""


def mark_results(*names: str) -> Callable[[Marking], Marking]:
    """Enter what marks the results of functions of the table, or of one that is not modelled, in mapped bodies."""

    def enter_mark(mark: Marking) -> Marking:
        for full in _full_names(names):
            known = FUNCTIONS.get(full) or FUNCTIONS[f"{full.rpartition('.')[0]}.*"]
            FUNCTIONS[full] = partial(_mark_result, known, mark)
        return mark

    return enter_mark


def _mark_result(implementation: Implementation, mark: Marking, call: Call) -> Value:
    found = implementation(call)
    run = call.interpreter
    return mark(call, found) if run.axes or run.manual is not None else found


def unmarked_function(known: Implementation) -> Implementation:
    """A function of the table without what marks its results."""
    while isinstance(known, partial) and known.func is _mark_result:
        known = known.args[0]
    return known

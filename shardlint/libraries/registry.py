"""The table of the functions of libraries."""

from __future__ import annotations

from collections.abc import Callable

from shardlint.layouts.values import Call, Value

Implementation = Callable[[Call], Value]
FUNCTIONS: dict[str, Implementation] = {}
"""By canonical name. Whoever imports a module of this folder fills it."""


def function(*names: str) -> Callable[[Implementation], Implementation]:
    """Enter a function into the table under names of a library: "jax.numpy.sum", or "jax.numpy sum mean max"."""

    def enter(implementation: Implementation) -> Implementation:
        for name in names:
            module, *members = name.split()
            for full in [f"{module}.{one}" for one in members] or [module]:
                FUNCTIONS[full] = implementation
        return implementation

    return enter

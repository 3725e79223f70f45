"""Donated positions that count what is bound already: by `functools.partial`, or self of a method. Part of SL222."""

from __future__ import annotations

import ast

from shardlint.facts.jit_settings import DONATE_SETTINGS
from shardlint.model.signatures import Jitted
from shardlint.model.values import CallArguments, Function, Transformed, Value
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.jit.in_shardings_entries import SeenCall, calls_of_wrapped


@dataclass(frozen=True)
class Shifted:
    """`donated` is what a call gives at the donated position, `meant` what it binds again, at `position`."""

    donated: str
    meant: str
    position: int
    number: int
    bound: str
    seen: SeenCall


def find_shifted_position(site: Site, donated: tuple[int, ...]) -> Shifted | None:
    """The first position that means another argument in every call in sight; None where one of them fits."""
    seen = list(calls_of_wrapped(site, settings=DONATE_SETTINGS))
    for number in donated:
        found = [_find_shifted_donation(one, number, donated) for one in seen]
        if found and all(found):
            return found[0]
    return None


def _find_shifted_donation(seen_call: SeenCall, number: int, donated: tuple[int, ...]) -> Shifted | None:
    call, file = seen_call.call, seen_call.file
    if seen_call.count_positional is None or number >= len(call.args) or call.keywords:
        return None
    again = _rebound_names(seen_call)
    given = [file.source_text(one) for one in call.args]
    for count, what in _count_bound_positions(seen_call.function):
        meant = number - count
        if meant < 0 or meant >= len(given) or given[meant] not in again:
            continue
        if meant in donated or given[number] in again:
            continue
        return Shifted(given[number], given[meant], meant, number, what, seen_call)
    return None


def _rebound_names(seen_call: SeenCall) -> set[str]:
    """The names and attributes that the result of a call, or parts of it, are bound to."""
    statement = seen_call.file.parent(seen_call.call)
    if not isinstance(statement, ast.Assign) or statement.value is not seen_call.call:
        return set()
    targets = [part for one in statement.targets for part in (getattr(one, "elts", None) or [one])]
    return {seen_call.file.source_text(one) for one in targets if isinstance(one, ast.Name | ast.Attribute)}


def _count_bound_positions(function: Jitted) -> list[tuple[int, str]]:
    """How many positions are bound before jit sees the function, and by what."""
    inner: Value = function.inner
    partial = 0
    while isinstance(inner, Transformed) and inner.api.name == "functools.partial":
        if not isinstance(inner.call, CallArguments) or inner.call.open_positional:
            return []
        partial += len(inner.call.positional) - 1
        inner = inner.inner
    bound = isinstance(inner, Function) and inner.bound and not function.late
    found = [(partial, "functools.partial")] if partial else []
    if bound:
        found.append((partial + 1, "the method and functools.partial" if partial else "the method"))
    return found

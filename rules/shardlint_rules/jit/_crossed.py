"""Entries of `in_shardings` that are called like each other's arguments: state for batch, and batch for state."""

from __future__ import annotations

import ast

from shardlint.model.signatures import positions, wrappings
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex

_SETTING = "in_shardings"
_WORD = regex(r"[a-z]+")
# What people call what a step keeps, and what it is given anew each time.
_STATE = frozenset(("state", "states", "params", "param", "parameters", "variables", "model", "weights", "opt"))
_DATA = frozenset(("batch", "batches", "data", "dp", "input", "inputs", "examples"))
_WHOLE = frozenset(("replicated", "replicate", "repl"))


@dataclass(frozen=True)
class Crossed:
    """Two entries, and the parameters in their places."""

    state: ast.expr
    data: ast.expr
    state_parameter: str
    data_parameter: str


def crossed(site: Site) -> Crossed | None:
    """What the state and the batch get of each other, by their names; None where these do not say so of both."""
    keyword = site.keyword(_SETTING)
    if keyword is None or not isinstance(keyword.value, ast.Tuple | ast.List):
        return None
    functions = list(wrappings(site.program, site.file, site.call, site.form))
    taken = {one.parameters.positional for one in functions if one.parameters is not None}
    if len(functions) != 1 or len(taken) != 1:
        return None
    static = positions(functions[0], "static", site.program.evaluator)
    if static is None:
        return None
    names = [name for index, name in enumerate(taken.pop()) if index not in static]
    pairs = list(zip(keyword.value.elts, names, strict=False))
    state = [(entry, name) for entry, name in pairs if _kind(name) == "state"]
    data = [(entry, name) for entry, name in pairs if _kind(name) == "data"]
    if len(state) != 1 or len(data) != 1:
        return None
    (of_state, one), (of_data, other) = state[0], data[0]
    kept = _kind(site.text(of_data))
    if _kind(site.text(of_state)) == "data" and kept in ("state", "whole"):
        return Crossed(of_state, of_data, one, other)
    return None


def _kind(name: str) -> str:
    """Whether a name is that of what is kept, of data, or of what is whole everywhere; empty where it is unclear."""
    words = set(_WORD.findall(name.lower()))
    kinds = [
        kind for kind, some in (("state", _STATE), ("data", _DATA), ("whole", _WHOLE)) if words & some
    ]
    return kinds[0] if len(kinds) == 1 else ""

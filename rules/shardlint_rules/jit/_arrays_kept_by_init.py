"""Optimizers whose first state holds the parameters themselves, or a random key of the function that made them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings

INITS = Lines(
    r"def _?init(?:_fn|_state)?\(",
    file_says=r"def _?update\w*\(",
    saying=("def init", "def _init"),
    on="definition",
)
"""Functions that make the first state of an optimizer."""
_KEY = compile_lazily(r"(?:^|_)(?:key|rng|prng_?key)$")
_PARAMS = compile_lazily(r"^(?:\w+_)?params$")
_OWN = ("params", "model_params", "parameters")  # others are mostly differences of parameters
_STATE = compile_lazily(r"State$")


class ArrayKeptByInit(NamedTuple):
    """Where a state takes an array as it is, the name of that, and whose it is."""

    node: ast.expr
    name: str
    of: str


def find_arrays_shared_by_init(site: Site) -> Iterator[ArrayKeptByInit]:
    """The arrays that a state made by a nested `init` shares with the caller, or with the enclosing function."""
    init = site.syntax
    if not isinstance(init, ast.FunctionDef):
        return
    maker = site.file.parent(init)
    if not isinstance(maker, ast.FunctionDef):
        return
    beside = [one for one in maker.body if isinstance(one, ast.FunctionDef)]
    if not any(map(_takes_both, beside)) or site.program.project.is_test(site.file.path):
        return
    own = {one.arg for one in (*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs)}
    around = {one.arg for one in (*maker.args.posonlyargs, *maker.args.args, *maker.args.kwonlyargs)}
    for statement in init.body:
        if isinstance(statement, ast.Return) and statement.value is not None:
            yield from _kept_results(site, statement.value, own, around)


def _takes_both(update: ast.FunctionDef) -> bool:
    """Return whether an update gets the parameters besides the state. If the state is all, nothing is stored twice."""
    taken = (*update.args.posonlyargs, *update.args.args, *update.args.kwonlyargs)
    return "update" in update.name and any(one.arg in _OWN for one in taken)


def _kept_results(site: Site, result: ast.expr, own: set[str], around: set[str]) -> Iterator[ArrayKeptByInit]:
    whole = isinstance(result, ast.Call) and _STATE.search(last_name(result.func)) is not None
    if isinstance(result, ast.Call) and whole:
        parts = [*result.args, *(one.value for one in result.keywords)]
    elif isinstance(result, ast.Tuple):
        parts = list(result.elts)
    else:
        return
    for part in parts:
        for name, node in _names_in_element(site, part):
            bindings, _ = lookup_bindings(site.file, name, name.id)
            if len(bindings) != 1 or bindings[0].kind != "param":
                continue
            if name.id in own and whole and _PARAMS.search(name.id):
                yield ArrayKeptByInit(node, name.id, "the caller")
            elif name.id in around - own and _KEY.search(name.id) and _is_random_key(site, name.id):
                yield ArrayKeptByInit(node, name.id, "the enclosing function")


def _names_in_element(site: Site, part: ast.expr) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The names that an element of a state is on some way, and where that is written."""
    if not isinstance(part, ast.Name):
        return
    bindings, _ = lookup_bindings(site.file, part, part.id)
    for binding in bindings:
        if binding.kind == "param":
            yield part, part
        elif binding.kind == "assign" and isinstance(binding.value, ast.Name):
            yield binding.value, binding.value


def _is_random_key(site: Site, name: str) -> bool:
    """Return whether a name is a random key, by its own name or by the file's use of random numbers."""
    return name not in ("key", "rng") or site.file.contains_text("random")

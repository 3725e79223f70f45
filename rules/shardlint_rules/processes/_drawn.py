"""Callbacks that draw from a generator which every process has in the same state."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.evaluator.annotations import annotated
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, Function, Place, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._same_data import TOLD

_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")


@dataclass(frozen=True)
class Generator:
    """A call that draws, the name of what it draws from, and what tells that this is a generator."""

    call: ast.expr
    name: str
    why: str


def drawn_from(program: Program, callback: Function) -> Generator | None:
    """What a callback draws from, if that is made around it, alike in each process as far as the text tells."""
    file, body = callback.place.file, callback.node
    inside = {one.id for one in walk(body) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for call in (one for one in walk(body) if isinstance(one, ast.Call)):
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for given in (*receiver, *call.args):
            if isinstance(given, ast.Name) and given.id not in inside:
                why = _generator(program, file, given)
                if why:
                    return Generator(call, given.id, why)
    return None


def _generator(program: Program, file: FileFacts, name: ast.Name) -> str:
    bindings, _ = lookup(file, name, name.id)
    if len(bindings) != 1:
        return ""
    bound = bindings[0]
    if bound.kind == "param" and bound.annotation is not None:
        kinds = annotated(program.evaluator, Place(file, bound.annotation))
        named = any(isinstance(one, Api) and one.name in _GENERATORS for one in kinds)
        return f"`{name.id}` is annotated as a generator of numpy" if named else ""
    for one in options(program.value(file, name)):
        if not isinstance(one, CallResult) or one.api not in _GENERATORS or one.call is None:
            return ""
        seeds = [*one.call.positional, *one.call.keywords.values()]
        if not seeds or any(TOLD.search(seed.text()) for seed in seeds) or seeds[0].text() == "None":
            return ""
    return f"`{name.id}` is a generator that all processes seed alike"

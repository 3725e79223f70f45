"""Arrays that each process makes for itself: drawn without a seed, of its own index, or of its part of the data."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, Place, options
from shardlint.syntax import FileFacts
from shardlint_rules.processes.differing import Differing, differing

_DEPTH = 8
_INDEX = ("jax.process_index", "jax.host_id")
_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random")
# Of these what comes out is made of what goes in. `broadcast_one_to_all` is none of them.
_PASSING = ("jax.random.", "jax.numpy.", "numpy.", "jax.device_put", "jax.nn.", "builtins.")
_SEEDING = ("random.seed(", "seed_everything", "set_seed")


def own_data(program: Program, place: Place, depth: int = 0) -> Differing | None:
    """What makes an array another in each process; None where nothing in sight does."""
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    found = differing(program, place)
    if found is not None:
        return found if not _seeded(program, file, found) else None
    match node:
        case ast.Name(id=name):
            bindings, _ = lookup(file, node, name)
            value = bindings[0].value if len(bindings) == 1 and bindings[0].kind in ("assign", "walrus") else None
            return own_data(program, Place(file, value), depth + 1) if value is not None else None
        case ast.Call():
            return _call(program, file, node, depth)
        case ast.Subscript(value=whole, slice=index):
            return _any(program, file, [whole, index], depth)
        case ast.Slice(lower=lower, upper=upper):
            return _any(program, file, [one for one in (lower, upper) if one is not None], depth)
        case ast.BinOp(left=left, right=right):
            return _any(program, file, [left, right], depth)
        case ast.ListComp(elt=element):
            return own_data(program, Place(file, element), depth + 1)
        case ast.Lambda(body=body):
            return own_data(program, Place(file, body), depth + 1)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return _any(program, file, parts, depth)
        case ast.Attribute(value=inner, attr="T"):
            return own_data(program, Place(file, inner), depth + 1)
    return None


def _any(program: Program, file: FileFacts, nodes: list[ast.expr], depth: int) -> Differing | None:
    found = (own_data(program, Place(file, node), depth + 1) for node in nodes)
    return next((one for one in found if one is not None), None)


def _call(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Differing | None:
    given = [*call.args, *(one.value for one in call.keywords)]
    for option in options(program.value(file, call.func)):
        if isinstance(option, Function):
            return _returned(program, option, depth)
        if isinstance(option, Api):
            if option.name in _INDEX:
                return Differing(Place(file, call), "the index of the process")
            if option.name in _GENERATORS:
                return _generator(program, file, call, depth)
            passing = option.name.startswith(_PASSING)
            return _any(program, file, given, depth) if passing else None
    if isinstance(call.func, ast.Attribute):
        # `rng.normal(...)`, `x.astype(...)`
        return own_data(program, Place(file, call.func.value), depth + 1)
    return None


def _generator(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Differing | None:
    seeds = [*call.args, *(one.value for one in call.keywords)]
    if not seeds or (isinstance(seeds[0], ast.Constant) and seeds[0].value is None):
        return Differing(Place(file, call), "drawn without a seed")
    return _any(program, file, seeds, depth)


def _returned(program: Program, function: Function, depth: int) -> Differing | None:
    file, node = function.place.file, function.node
    if isinstance(node, ast.Lambda):
        return own_data(program, Place(file, node.body), depth + 1)
    returns = file.walked(file.scope(node)).returns
    value = returns[0].value if len(returns) == 1 else None
    return own_data(program, Place(file, value), depth + 1) if value is not None else None


def _seeded(program: Program, file: FileFacts, found: Differing) -> bool:
    """Whether a file of the program seeds what is drawn from no generator."""
    return "random" in found.what and any(
        one.says(text) for one in (file, *program.together(file)) for text in _SEEDING
    )



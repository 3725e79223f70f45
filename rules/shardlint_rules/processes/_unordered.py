"""Lists whose order need not be the same in each process: sets, listings of folders, what was drawn without a seed."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, Place, options
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes.given import given, kept

_DEPTH = 4
_LISTINGS = ("os.listdir", "os.scandir", "glob.glob", "glob.iglob", "tensorflow.io.gfile.listdir")
_LISTING = ("glob", "rglob", "iterdir", "listdir")
_SETS = ("set", "frozenset")
_SET_METHODS = ("union", "intersection", "difference", "symmetric_difference")
# What passes on the order of what it is given.
_PASSING = ("list", "tuple", "enumerate", "reversed", "filter", "map", "iter", "array", "asarray", "zip")
_DRAWN = ("sample", "permutation", "choices")


def unordered(program: Program, place: Place, depth: int = 0) -> str | None:
    """What makes the order of an expression differ, in words; None where nothing in sight does."""
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    match node:
        case ast.Set(elts=elements):
            return "a set" if not all(_settled(one) for one in elements) else None
        case ast.SetComp():
            return "a set"
        case ast.ListComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            return unordered(program, Place(file, first.iter), depth + 1)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub(), right=right):
            one = unordered(program, Place(file, left), depth + 1)
            return (
                one if one == "a set" and unordered(program, Place(file, right), depth + 1) == one else None
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return unordered(program, Place(file, left), depth + 1) or unordered(
                program, Place(file, right), depth + 1
            )
        case ast.Call():
            return _call(program, file, node, depth)
        case ast.Name(id=name):
            return _bound(program, file, node, name, depth)
        case ast.Attribute():
            held = kept(file, node)
            return unordered(program, held, depth + 1) if held is not None else None
    return None


def _settled(element: ast.expr) -> bool:
    """Numbers lie in a set in the same order everywhere; texts do not, unless PYTHONHASHSEED is set."""
    return isinstance(element, ast.Constant) and isinstance(element.value, int)


def _bound(program: Program, file: FileFacts, node: ast.Name, name: str, depth: int) -> str | None:
    bindings, scope = lookup(file, node, name)
    if scope is not None and [one.kind for one in bindings] == ["param"]:
        if f"{name}.sort(" in file.text(scope.node):
            return None
        told = (unordered(program, place, depth + 1) for place in given(program, file, scope, name))
        return next((one for one in told if one is not None), None)
    if not bindings or scope is None or any(one.value is None or one.kind != "assign" for one in bindings):
        return None
    around = file.text(scope.node) if scope.kind != "module" else file.source.text
    if f"{name}.sort(" in around or f"sorted({name}" in around:
        return None
    found = [
        unordered(program, Place(file, one.value), depth + 1) for one in bindings if one.value is not None
    ]
    return found[0] if all(one is not None for one in found) else None


def _call(program: Program, file: FileFacts, call: ast.Call, depth: int) -> str | None:
    name = last_name(call.func)
    for option in options(program.value(file, call.func)):
        if isinstance(option, Api) and option.name in _LISTINGS:
            return "the listing of a folder"
        if isinstance(option, Function) and not isinstance(option.node, ast.Lambda):
            inside = option.place.file
            returns = inside.walked(inside.scope(option.node)).returns
            if len(returns) == 1 and returns[0].value is not None:
                return unordered(program, Place(inside, returns[0].value), depth + 1)
            return None
    if isinstance(call.func, ast.Name) and name in _SETS and call.args:
        given = call.args[0]
        return None if isinstance(given, ast.Call) and last_name(given.func) == "range" else "a set"
    if isinstance(call.func, ast.Attribute):
        if name in _LISTING and "gfile" not in file.text(call.func):
            return "the listing of a folder"
        if name in _SET_METHODS and unordered(program, Place(file, call.func.value), depth + 1) == "a set":
            return "a set"
        if name in _DRAWN and file.text(call.func.value) in ("random", "np.random", "numpy.random"):
            return None if seeded(file) else "what was drawn without a seed"
    if name in _PASSING and call.args:
        return unordered(program, Place(file, call.args[-1 if name in ("filter", "map") else 0]), depth + 1)
    return None


def seeded(file: FileFacts) -> bool:
    """Whether a file seeds the random numbers of Python's or numpy's module."""
    return any(file.says(text) for text in ("random.seed(", "seed_everything", "set_seed", "set_random_seed"))

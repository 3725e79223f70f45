"""Data that every process makes or reads alike: seeded, counted, or from a file whose name is no process's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.held import classes, stored
from shardlint.model.reach import lookup
from shardlint.model.values import Function, Place, api_name, options
from shardlint.source.patterns import regex
from shardlint.syntax import Binding, FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.given import given, given_field

# What tells processes, or the parts that they take, apart.
TOLD = regex(
    r"(?i)process|rank|host|shard_(?:id|index|idx|count)|num_shards|worker|addressable|local_|environ|time\.|proc_"
    r"|\bmpi|part_"
)
_SEEDED = ("numpy.random.default_rng", "numpy.random.RandomState")
_READS = ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")
_ARRAYS = ("numpy.", "jax.numpy.", "builtins.", "jax.random.")
_DEPTH, _SHALLOW = 24, 6


def told_apart(node: ast.AST) -> bool:
    """Whether code speaks of processes, or of the part that each of them takes."""
    return TOLD.search(ast.unparse(node).replace("make_array_from_process_local_data", "")) is not None


def same_data(program: Program, place: Place, depth: int = 0) -> Place | None:
    """Where data come from that are surely the same in each process, as far as the text tells; None otherwise."""
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name():
            return _name(program, file, node, depth)
        case ast.Attribute(value=ast.Name(id="self")):
            return _attribute(program, file, node, depth)
        case ast.Attribute(value=inner, attr="T"):
            return same_data(program, Place(file, inner), depth + 1)
        case ast.Subscript(value=inner, slice=index):
            return same_data(program, Place(file, inner), depth + 1) if _plain(program, file, index) else None
        case ast.BinOp(left=left, right=right):
            return _first(program, file, [left, right], depth)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return _first(program, file, parts, depth)
        case ast.DictComp(value=element) | ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return same_data(program, Place(file, element), depth + 1)
        case ast.Call():
            return _call(program, file, node, depth)
    return None


def _first(program: Program, file: FileFacts, nodes: list[ast.expr], depth: int) -> Place | None:
    """Where the first of several comes from, where the others are the same in each process too."""
    found = [same_data(program, Place(file, one), depth + 1) for one in nodes]
    made = [one for one in found if one is not None]
    rest = [node for node, one in zip(nodes, found, strict=True) if one is None]
    return made[0] if made and all(_plain(program, file, one) for one in rest) else None


def _call(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Place | None:
    arguments = [*call.args, *(one.value for one in call.keywords)]
    value = program.value(file, call.func)
    found = options(value)
    if len(found) == 1 and isinstance(found[0], Function) and isinstance(found[0].node, ast.FunctionDef):
        inside = found[0].place.file
        plain = not told_apart(found[0].node) and all(
            _plain(program, file, one) for one in arguments
        )
        returns = [one.value for one in inside.walked(inside.scope(found[0].node)).returns]
        made = [same_data(program, Place(inside, one), depth + 1) for one in returns if one is not None]
        return made[0] if plain and made and None not in made else None
    name = api_name(value)
    if name in _SEEDED:
        seeded = bool(arguments) and not (isinstance(arguments[0], ast.Constant) and arguments[0].value is None)
        return Place(file, call) if seeded and _plain(program, file, arguments[0]) else None
    if name.startswith("numpy.") and last_name(call.func) in _READS:
        return Place(file, call) if arguments and _plain(program, file, arguments[0]) else None
    if name.startswith(_ARRAYS) and not name.startswith("numpy.random."):
        return _first(program, file, arguments, depth)
    if not name and isinstance(call.func, ast.Attribute):
        made_of = same_data(program, Place(file, call.func.value), depth + 1)
        return made_of if all(_plain(program, file, one) for one in arguments) else None
    return None


def _name(program: Program, file: FileFacts, node: ast.Name, depth: int) -> Place | None:
    bindings, _ = lookup(file, node, node.id)
    found = [_bound(program, file, one, depth) for one in bindings]
    return found[0] if found and None not in found else None


def _bound(program: Program, file: FileFacts, binding: Binding, depth: int) -> Place | None:
    if binding.kind == "param":
        places = list(_given(program, file, binding))
        made = [same_data(program, one, depth + 1) for one in places]
        return made[0] if made and None not in made else None
    if binding.value is None:
        return None
    return same_data(program, Place(file, binding.value), depth + 1)


def _given(program: Program, file: FileFacts, binding: Binding) -> Iterator[Place]:
    scope = binding.scope
    if not isinstance(scope.node, ast.Lambda):
        yield from given(program, file, scope, binding.name)
        return
    # `jax.tree.map(lambda x: ..., batch)`
    call = file.parent(scope.node)
    names = [one.arg for one in scope.node.args.args]
    if isinstance(call, ast.Call) and last_name(call.func) in ("map", "tree_map") and call.args[:1] == [scope.node]:
        at = names.index(binding.name) + 1 if binding.name in names else len(call.args)
        if at < len(call.args):
            yield Place(file, call.args[at])


def _attribute(program: Program, file: FileFacts, node: ast.Attribute, depth: int) -> Place | None:
    made: list[Place | None] = []
    for cls in classes(program, Place(file, node.value)):
        if isinstance(cls.place.node, ast.ClassDef):
            inside = cls.place.file
            made += [
                same_data(program, Place(inside, one), depth + 1)
                for one in stored(inside, cls.place.node, node.attr)
            ]
    if not made:
        made = [same_data(program, one, depth + 1) for one in given_field(program, file, node)]
    return made[0] if made and None not in made else None


def _plain(program: Program, file: FileFacts, node: ast.expr, depth: int = 0) -> bool:
    """Whether nothing tells that a number, a path or an index is another in each process."""
    if depth > _SHALLOW or TOLD.search(file.text(node)):
        return False
    for name in (one for one in walk(node) if isinstance(one, ast.Name)):
        bindings, _ = lookup(file, name, name.id)
        for binding in bindings:
            if binding.kind == "param":
                told = _expressions(program, file, binding)
                if not all(_plain(program, one, expression, depth + 1) for one, expression in told):
                    return False
            elif binding.value is not None and not _plain(program, file, binding.value, depth + 1):
                return False
    return True


def _expressions(program: Program, file: FileFacts, binding: Binding) -> Iterator[tuple[FileFacts, ast.expr]]:
    for place in _given(program, file, binding):
        if isinstance(place.node, ast.expr):
            yield place.file, place.node

"""Arrays with one entry for each device: what pmapped functions return and `replicate` makes. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from shardlint.model import Program
from shardlint.model.ends import Ends
from shardlint.model.reach import lookup
from shardlint.model.signatures import Jitted, jitted
from shardlint.model.values import Api, Constant, Function, Items, Place, Value, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import Binding, FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.given import given_by_all

PMAP = "jax.pmap"
CALLED = Lines(
    r"[\w.,()\[\] ]+=\s*[\w.]*(?:step|train|update|eval)\w*\(",
    file_says=r"pmap|jax_utils|common_utils|replicat",
    saying=("step", "train", "update", "eval"),
)
"""Assignments of what may be a pmapped function of another file returns."""
REPLICATE = ("flax.jax_utils.replicate", "jax.device_put_replicated")
_RESTORE = ("flax.training.checkpoints.restore_checkpoint",)
# Attributes of an array, and methods whose result is none with an entry for each device.
_OF_ARRAY = frozenset(
    "shape dtype ndim size sharding mean sum max min any all item addressable_shards".split()
)
_READING = ("asarray", "array", "device_get", "float")
_DEPTH = 6


@dataclass(frozen=True)
class PerDevice:
    """Where it was made. `index` is which result of the pmapped function; `path` is what was taken out of that."""

    by: Literal["pmap", "replicate"]
    file: FileFacts
    call: ast.Call
    function: Jitted | None = None
    index: int | None = None
    path: tuple[str, ...] = ()


def per_device(program: Program, file: FileFacts, node: ast.AST, depth: int = 0) -> PerDevice | None:
    """What an expression has from a pmapped function or `replicate`, on all ways to it; None where it is not sure."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name():
            bindings, _ = lookup(file, node, node.id)
            found = [_bound(program, file, one, depth + 1) for one in bindings]
            return found[0] if found and None not in found else None
        case ast.Attribute(value=ast.Name(id="self")):
            return _field(program, file, node, depth)
        case ast.Attribute() if node.attr not in _OF_ARRAY:
            inner = per_device(program, file, node.value, depth + 1)
            return replace(inner, path=(*inner.path, node.attr)) if inner is not None else None
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            inner = per_device(program, file, node.value, depth + 1)
            return replace(inner, path=(*inner.path, key)) if inner is not None else None
        case ast.Call():
            return _called(program, file, node, depth)
    return None


def _field(program: Program, file: FileFacts, node: ast.Attribute, depth: int) -> PerDevice | None:
    """What a class binds `self.x` to, where that has an entry for each device wherever it does so."""
    around = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    written = file.text(node)
    found: list[PerDevice | None] = []
    for statement in walk(around) if around is not None else ():
        if isinstance(statement, ast.AugAssign | ast.AnnAssign) and file.text(statement.target) == written:
            return None
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for at, part in enumerate(parts):
                if file.text(part) == written and isinstance(statement, ast.Assign):
                    index = at if isinstance(target, ast.Tuple) else None
                    found.append(_assigned(program, file, statement.value, index, depth + 1))
    return found[0] if found and None not in found else None


def _assigned(
    program: Program, file: FileFacts, value: ast.expr, index: int | None, depth: int
) -> PerDevice | None:
    found = per_device(program, file, value, depth)
    if index is not None and found is None:
        return _returned_at(program, file, value, index, depth)
    if index is not None and found is not None:
        whole = found.by == "pmap" and not found.path and found.index is None
        found = replace(found, index=index) if whole else None
    return found if found is not None and _split(program, found) else None


def _called(program: Program, file: FileFacts, call: ast.Call, depth: int) -> PerDevice | None:
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "replace":
            return per_device(program, file, call.func.value, depth + 1)
        if call.func.attr == "replicate" and not call.args and not call.keywords:
            return PerDevice("replicate", file, call) if file.says("jax_utils") else None
    found = options(program.value(file, call.func))
    if len(found) != 1:
        return None
    match found[0]:
        case Api(name=name) if name in REPLICATE:
            return PerDevice("replicate", file, call)
        case Api(name=name) if name in _RESTORE and len(call.args) > 1:
            return per_device(program, file, call.args[1], depth + 1)
        case Function(place=place, node=ast.FunctionDef() as inner):
            return _returned(program, place.file, inner, depth)
    function = jitted(found[0], program.evaluator, (PMAP,))
    if function is None or any(_of_one(file, one) for one in call.args):
        return None
    return PerDevice("pmap", file, call, function)


def _of_one(file: FileFacts, node: ast.expr, depth: int = 0) -> bool:
    """Whether an argument was given a leading dimension of 1: the function then runs on one device."""
    if depth > _DEPTH:
        return False
    if any(word in file.text(node) for word in ("[None", "newaxis", "expand_dims")):
        return True
    if isinstance(node, ast.Call):
        return any(_of_one(file, one, depth + 1) for one in node.args)
    bindings = lookup(file, node, node.id)[0] if isinstance(node, ast.Name) else []
    return any(one.value is not None and _of_one(file, one.value, depth + 1) for one in bindings)


def _returned(program: Program, file: FileFacts, node: ast.FunctionDef, depth: int) -> PerDevice | None:
    """What a function of the project returns, where that is the same at each return."""
    returns = [one.value for one in file.walked(file.scope(node)).returns if isinstance(one, ast.Return)]
    found = [per_device(program, file, one, depth + 1) if one is not None else None for one in returns]
    return found[0] if found and None not in found else None


def _returned_at(
    program: Program, file: FileFacts, value: ast.expr, index: int, depth: int
) -> PerDevice | None:
    """One of several values that a function of the project returns, where that is the same at each return."""
    callee = options(program.value(file, value.func)) if isinstance(value, ast.Call) else ()
    if len(callee) != 1 or not isinstance(callee[0], Function) or depth > _DEPTH:
        return None
    inside, node = callee[0].place.file, callee[0].node
    if not isinstance(node, ast.FunctionDef):
        return None
    found = [
        per_device(program, inside, one.value.elts[index], depth + 1)
        if isinstance(one.value, ast.Tuple) and index < len(one.value.elts)
        else None
        for one in inside.walked(inside.scope(node)).returns
    ]
    return found[0] if found and None not in found else None


def _bound(program: Program, file: FileFacts, binding: Binding, depth: int) -> PerDevice | None:
    if binding.kind == "param":
        places = given_by_all(program, file, binding.scope, binding.name)
        told = [per_device(program, one.file, one.node, depth + 1) for one in places or ()]
        return told[0] if told and None not in told else None
    if binding.value is None:
        return None
    if binding.kind == "assign" or (binding.kind == "walrus"):
        return _assigned(program, file, binding.value, None, depth)
    if binding.kind == "unpack" and binding.index is not None:
        return _assigned(program, file, binding.value, binding.index, depth)
    return None


def _split(program: Program, found: PerDevice) -> bool:
    """Whether the result has an entry for each device: `out_axes` of pmap may say that it has none."""
    if found.function is None:
        return True
    place = found.function.setting("out_axes")
    if found.function.settings.open_keywords:
        return False
    if place is None:
        return True
    value: Value = program.evaluator.value(place, found.function.settings.environment)
    if isinstance(value, Items) and not value.open:
        if found.index is None or found.index >= len(value.items):
            return False
        value = value.items[found.index]
    return value == Constant(0)


def pmapped_calls(site: Site) -> Iterator[ast.Call]:
    """The calls, in this file, of what a site's `pmap` made."""
    parent = site.file.parent(site.syntax)
    if site.form == "name" and site.decorated is None:
        return
    if isinstance(parent, ast.FunctionDef):
        ends = site.program.flow.ends(site.file, parent)
    elif site.form == "partial":
        yield from _of_decorated(site)
        return
    else:
        ends = site.program.flow.calls(Place(site.file, site.call))
    yield from _called_here(site.file, ends)


def called_from_elsewhere(site: Site) -> ast.Call | None:
    """The call, on a line of `CALLED`, of a function that another file of the project pmaps."""
    statement = site.syntax
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or not site.anywhere("jax.pmap"):
        return None
    found = options(site.program.value(site.file, call.func))
    function = jitted(found[0], site.program.evaluator, (PMAP,)) if len(found) == 1 else None
    elsewhere = function is not None and function.settings.place.file is not site.file
    return call if elsewhere else None


def _of_decorated(site: Site) -> Iterator[ast.Call]:
    """The calls of functions that `pmap = partial(jax.pmap, axis_name=...)` decorates in its file."""
    file, parent = site.file, site.file.parent(site.call)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            for mention in file.mentions(name):
                function = file.parent(mention)
                if isinstance(function, ast.FunctionDef) and mention in function.decorator_list:
                    yield from _called_here(file, site.program.flow.ends(file, function))


def _called_here(file: FileFacts, ends: Ends) -> Iterator[ast.Call]:
    for end in ends.found:
        if end.kind == "called" and end.place.file is file and isinstance(end.place.node, ast.Call):
            yield end.place.node


def taken_first(site: Site, read: bool = False) -> ast.expr | None:
    """The tree of which `jax.tree.map(lambda x: x[0], tree)` takes the first entries, or `read`s them to the host."""
    call = site.call
    if len(call.args) != 2 or call.keywords:
        return None
    match call.args[0]:
        case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
            # `np.asarray(x[0])`, `jax.device_get(x[0])`, `float(x[0])`
            while read and isinstance(body, ast.Call) and len(body.args) == 1 and last_name(body.func) in _READING:
                body = body.args[0]
            match body:
                case ast.Subscript(value=ast.Name(id=taken), slice=ast.Constant(value=0)) if name == taken:
                    return call.args[1]
    return None


def names_around(site: Site) -> Iterator[str]:
    """What the code around a call is called: the function it is in, what its result is, the function's docstring."""
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.Assign):
            yield from (site.text(target) for target in outer.targets)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            yield outer.name
            yield ast.get_docstring(outer) or ""
            return

"""`with_sharding_constraint(x, x.sharding)`: an array, and the sharding that it has at that very moment."""

from __future__ import annotations

import ast

from shardlint.model.ends import End
from shardlint.model.reach import lookup
from shardlint.model.signatures import Definition, of_definition, takes_self
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, Scope
from shardlint_rules.mesh.axis_types import CONSTRAINTS

_COMPUTED = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare)
_DEPTH = 4


def own_sharding(site: Site) -> ast.Name | None:
    """The name whose own sharding it is constrained to; None where the constraint may say something."""
    if site.api not in CONSTRAINTS:
        return None
    array, target = site.argument("x"), site.argument(CONSTRAINTS[site.api])
    if not isinstance(array, ast.Name) or target is None:
        return None
    asked = _asked_of(site.file, target)
    if asked is None or asked.id != array.id or not _same_moment(site.file, array, asked):
        return None
    return array if _comes_in(site, site.file, array, 0) else None


def _asked_of(file: FileFacts, target: ast.expr) -> ast.Name | None:
    """`x` in `x.sharding`, in `getattr(x, "sharding", None)`, or where a name stands for one of these."""
    if isinstance(target, ast.Name):
        bindings, owner = lookup(file, target, target.id)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return None
        if owner is None or owner.function() is not file.home(target).function():
            return None
        target = bindings[0].value
        if isinstance(target, ast.Name):
            return None
    match target:
        case ast.Attribute(value=ast.Name() as name, attr="sharding"):
            return name
        case ast.Call(
            func=ast.Name(id="getattr"), args=[ast.Name() as name, ast.Constant(value="sharding"), *_]
        ):
            return name
    return None


def _same_moment(file: FileFacts, one: ast.Name, two: ast.Name) -> bool:
    """Whether a name surely has the same value at two places of a function."""
    (first, owner), (second, other) = lookup(file, one, one.id), lookup(file, two, two.id)
    if owner is None or owner is not other:
        return False
    return [binding.node for binding in first] == [binding.node for binding in second]


def _comes_in(site: Site, file: FileFacts, node: ast.expr, depth: int) -> bool:
    """Whether an expression is not an array of a closure or `self`: such a one keeps its sharding in traced code."""
    if depth > _DEPTH or isinstance(node, _COMPUTED):
        return depth <= _DEPTH
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    bindings, owner = lookup(file, node, node.id)
    function = file.home(node).function()
    if function is None or owner is None or owner.function() is not function or not bindings:
        return False
    for binding in bindings:
        if binding.kind == "param":
            if node.id in ("self", "cls") or not _given(site, file, function, node.id, depth):
                return False
        elif binding.value is None or not _from(site, file, binding.value, binding.kind, depth):
            return False
    return True


def _from(site: Site, file: FileFacts, value: ast.expr, kind: str, depth: int) -> bool:
    if kind in ("assign", "walrus", "unpack", "augment"):
        return _comes_in(site, file, value, depth + 1)
    if kind not in ("for", "comprehension"):
        return False
    # What is iterated over: `jax.tree.leaves(tree)`, `enumerate(arrays)`.
    parts = [*value.args, *(one.value for one in value.keywords)] if isinstance(value, ast.Call) else [value]
    return bool(parts) and all(_comes_in(site, file, part, depth + 1) for part in parts)


def _given(site: Site, file: FileFacts, function: Scope, name: str, depth: int) -> bool:
    """Whether no call that is seen hands in what a closure or `self` brings in."""
    for end in site.program.flow.ends(file, function.node).found:
        inside = end.place.file.home(end.place.node).function()
        if end.kind != "called" or inside is None or inside is function:
            continue  # at module level nothing is traced
        if any(_brought_in(site, one, depth) for one in _arguments(site, function, end, name)):
            return False
    return True


def _arguments(site: Site, function: Scope, end: End, name: str) -> list[Place]:
    """What a call gives for a parameter; of `jax.tree.map(f, tree, ...)` the trees."""
    arguments = site.program.evaluator.arguments(end.place)
    if any(wrapper.api.startswith("jax.tree") for wrapper in end.wrappers):
        return list(arguments.positional[1:])
    if end.wrappers or not isinstance(function.node, Definition):
        return []
    parameters = of_definition(function.node)
    if takes_self(function):
        parameters = parameters.without_first()
    given = (parameters.bind(arguments) or {}).get(name)
    return [given] if given is not None else []


def _brought_in(site: Site, given: Place, depth: int) -> bool:
    """Whether an argument is an array that a closure or `self` brings in."""
    node = given.node
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not _comes_in(
        site, given.file, node, depth + 1
    )

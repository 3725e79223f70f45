"""Arguments of a pmapped function without a device dimension: a single key, an unreplicated state."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.model.values import Constant, api_name
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding
from shardlint.syntax.nodes import walk

_KEYS = ("jax.random.PRNGKey", "jax.random.key", "jax.random.fold_in", "jax.random.clone")
_SPLIT = "jax.random.split"
_ONE = ("flax.jax_utils.unreplicate",)


def one_of(site: Site, node: ast.expr) -> tuple[str, int] | None:
    """The form (`key` or `unreplicated`) and the line that makes the value; None for other values."""
    if isinstance(node, ast.Call):
        return _made(site, node, None)
    if not isinstance(node, ast.Name):
        return None
    bindings, _ = lookup(site.file, node, node.id)
    found = [_bound(site, one) for one in bindings]
    keys = [one for one in found if one is not None and one[0] == "key"]
    if keys and len(keys) == len(found):
        return keys[0]
    # One way to the call is enough: on it the copies are gone.
    for binding, one in zip(bindings, found, strict=True):
        if one is not None and one[0] == "unreplicated" and _comes(site, node, binding):
            return one
    return None


def _comes(site: Site, use: ast.Name, binding: Binding) -> bool:
    """Whether nothing else is bound to the name on the way from a binding to a use, round a loop too."""
    file, made, call = site.file, site.file.statement(binding.node), site.file.statement(use)
    others = [
        file.statement(one)
        for one in file.mentions_in(file.home(use), use.id)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del)
    ]
    lines = [one.lineno for one in others if one is not made and one is not call]
    if made.lineno < call.lineno:
        return not any(made.lineno < line < call.lineno for line in lines)
    loop = next((one for one in file.ancestors(made) if isinstance(one, ast.For | ast.While)), None)
    if loop is None or call not in walk(loop) or _left_after(file.parent(made), made):
        return False
    end = max(one.end_lineno or one.lineno for one in loop.body)
    return not any(made.lineno < line <= end or loop.lineno <= line < call.lineno for line in lines)


def _bound(site: Site, binding: Binding) -> tuple[str, int] | None:
    value = binding.value
    if not isinstance(value, ast.Call):
        return None
    if binding.kind == "assign":
        return _made(site, value, None)
    if binding.kind == "unpack" and binding.index is not None and binding.node is not None:
        return _made(site, value, binding)
    return None


def _made(site: Site, call: ast.Call, unpacked: Binding | None) -> tuple[str, int] | None:
    name = api_name(site.value(call.func))
    if (name in _KEYS and unpacked is None) or (
        name == _SPLIT and unpacked is not None and _into_few(site, call)
    ):
        return "key", call.lineno
    if name in _ONE and unpacked is None:
        return "unreplicated", call.lineno
    return None


def _into_few(site: Site, call: ast.Call) -> bool:
    """Whether the parts of a split are keys: it is unpacked into as many names as it makes, without a star."""
    statement = site.file.parent(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Tuple) or any(isinstance(one, ast.Starred) for one in target.elts):
        return False
    many = (
        call.args[1]
        if len(call.args) > 1
        else next((one.value for one in call.keywords if one.arg == "num"), None)
    )
    if many is None:
        return len(target.elts) == 2
    value = site.value(many)
    return isinstance(value, Constant) and value.value == len(target.elts)


def _left_after(outer: ast.AST | None, statement: ast.stmt) -> bool:
    """Whether the block of a statement ends by leaving the loop."""
    blocks = [getattr(outer, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((one for one in blocks if isinstance(one, list) and statement in one), [statement])
    return isinstance(block[-1], ast.Return | ast.Break | ast.Raise)

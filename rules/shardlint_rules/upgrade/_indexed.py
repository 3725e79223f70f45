"""jax.ops.index_update(x, index, y) and the like as x.at[index].set(y)."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import names_in
from shardlint_rules.upgrade.elsewhere import taken_elsewhere
from shardlint_rules.upgrade.places import references

METHODS = {
    "jax.ops.index_update": "set",
    "jax.ops.index_add": "add",
    "jax.ops.index_mul": "multiply",
    "jax.ops.index_min": "min",
    "jax.ops.index_max": "max",
}
# What writes an index down outside of brackets.
_INDEX = (
    "jax.ops.index",
    "jax.numpy.s_",
    "jax.numpy.index_exp",
    "numpy.s_",
    "numpy.index_exp",
)
_TAKEN = ("x", "idx", "y")
_WHOLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def fix(site: Site, name: str) -> Fix | str:
    """The fix of all the calls in the file; or why there is none."""
    edits: list[Edit] = []
    drops: set[str] = set()
    for node in references(site.program, site.file, name):
        call = site.file.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return f"it is handed on at line {node.lineno}"
        if any(_inside(site, other, call) for other in references(site.program, site.file, name)):
            return "its calls stand in one another"
        new = _call(site, call, METHODS[name])
        if new is None:
            return "its arguments are hidden"
        edits.append(site.replace(call, new))
        drops |= names_in(call.func) | {one for given in call.args[1:2] for one in _of_index(site, given)}
        if isinstance(node, ast.Name) and taken_elsewhere(site, node.id):
            return "another file takes the name from this one"
    if not edits:
        return "no call of it is seen"
    why = "what is updated must be an array of JAX: one of numpy has no `at`"
    return site.fix(Safety.UNSAFE, f"write x.at[...].{METHODS[name]}(y)", edits, why, sorted(drops))


def _inside(site: Site, node: ast.AST, call: ast.Call) -> bool:
    return node is not call.func and any(outer is call for outer in site.file.ancestors(node))


def _call(site: Site, call: ast.Call, method: str) -> str | None:
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return None
    given = dict(zip(_TAKEN, call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg in _TAKEN}
    if set(given) != set(_TAKEN):
        return None
    names = ("indices_are_sorted", "unique_indices")
    more = [f"{name}={site.text(one)}" for name, one in zip(names, call.args[3:], strict=False)]
    more += [f"{one.arg}={site.text(one.value)}" for one in call.keywords if one.arg not in _TAKEN]
    x = site.text(given["x"])
    x = x if isinstance(given["x"], _WHOLE) else f"({x})"
    return f"{x}.at[{_index(site, given['idx'])}].{method}({', '.join([site.text(given['y']), *more])})"


def _index(site: Site, node: ast.expr) -> str:
    """What stands in the brackets: of `ops.index[0, :]`, what stands in its own."""
    if isinstance(node, ast.Subscript) and _writes_an_index(site, node.value):
        return site.text(node.slice)
    return site.text(node)


def _writes_an_index(site: Site, node: ast.expr) -> bool:
    found = options(site.value(node))
    return all(isinstance(one, Api) and one.written in _INDEX for one in found)


def _of_index(site: Site, node: ast.expr) -> set[str]:
    """The names that say `ops.index`."""
    return names_in(node.value) if isinstance(node, ast.Subscript) and _writes_an_index(site, node.value) else set()

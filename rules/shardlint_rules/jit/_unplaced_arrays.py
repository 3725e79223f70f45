"""Arrays that functions and classes put on the default device, though they take a sharding or mesh. For SL231."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.facts.origins import visible_argument_values
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

_CONVERSIONS = ("jax.numpy.asarray", "jax.numpy.array")
_CREATIONS = tuple(f"jax.numpy.{name}" for name in ("zeros", "ones", "full", "empty"))
_PLACING_KEYWORDS = ("device", "sharding", "out_sharding", None)
_CONTAINERS = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)
_DEPTH = 3


def unplaced_puts(site: Site, owner: ast.AST) -> Iterator[ast.Call]:
    """The calls of `jax.device_put` without a sharding in a function or class."""
    for call in walk_nodes(owner):
        if isinstance(call, ast.Call) and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
            if (
                last_name(call.func) == "device_put"
                and not call.keywords
                and site.is_call_of(call, "jax.device_put")
            ):
                yield call


def returned_conversion(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Call | None:
    """The `jnp.asarray(x)` in what a host function returns."""
    for value in _find_returned(function):
        for call in walk_nodes(value):
            if isinstance(call, ast.Call) and last_name(call.func) in ("asarray", "array"):
                if _is_unplaced_on_host(site, call, *_CONVERSIONS):
                    return call
    return None


def created_arrays(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """The arrays that a host function creates on the default device and returns, also in a container."""
    for value in _find_returned(function):
        for call in _result_calls(function, value):
            if last_name(call.func) in ("zeros", "ones", "full", "empty") and call.args:
                shape = call.args[0]
                sized = not isinstance(shape, ast.List | ast.Constant)
                if sized and not (isinstance(shape, ast.Tuple) and len(shape.elts) < 2):
                    if _is_unplaced_on_host(site, call, *_CREATIONS):
                        yield call


def _find_returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    for statement in walk_nodes(function):
        if isinstance(statement, ast.Return) and statement.value is not None:
            yield statement.value


def _result_calls(function: ast.AST, node: ast.expr, depth: int = 0) -> Iterator[ast.Call]:
    """The calls whose results are a returned value or its parts, through one name."""
    if isinstance(node, ast.Name):
        values = [
            one.value
            for one in walk_nodes(function)
            if isinstance(one, ast.Assign)
            and [getattr(target, "id", "") for target in one.targets] == [node.id]
        ]
        node = values[0] if len(values) == 1 else node
    constructor = isinstance(node, ast.Call) and last_name(node.func)[:1].isupper()
    if isinstance(node, ast.Call) and not constructor:
        yield node
    elif constructor or isinstance(node, _CONTAINERS):
        for part in ast.iter_child_nodes(node):
            part = part.value if isinstance(part, ast.keyword) else part
            if isinstance(part, ast.expr) and depth < _DEPTH:
                yield from _result_calls(function, part, depth + 1)


def _is_unplaced_on_host(site: Site, call: ast.Call, *names: str) -> bool:
    """True for a call of one of these in host code without a device or sharding."""
    if (
        not call.args
        or any(one.arg in _PLACING_KEYWORDS for one in call.keywords)
        or not site.is_call_of(call, *names)
    ):
        return False
    return site.program.region(site.file, call).traced not in ("always", "sometimes")


def gets_mesh_from_callers(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """True if a call passes something called a mesh for a parameter."""
    calls = visible_argument_values(site.program, site.file, function, name)
    return any("mesh" in given.source_text().lower() for _, _, given in calls)


def class_with_unread_attribute(
    site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> ast.ClassDef | None:
    """The class whose `__init__` stores a parameter in an attribute that nothing reads."""
    owner = site.file.parent(function)
    if not isinstance(owner, ast.ClassDef) or function.name != "__init__":
        return None
    stored = [
        target.attr
        for one in walk_nodes(function)
        if isinstance(one, ast.Assign | ast.AnnAssign)
        and isinstance(one.value, ast.Name)
        and one.value.id == name
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    ]
    if len(stored) != 1:
        return None
    mentions = re.compile(rf"\.{stored[0]}\b|[\"']{stored[0]}[\"']|\b(?:vars|__dict__|__getattr__)\b")
    for file in site.program.project.files_holding(site.file.path, (stored[0],)):
        if file is None:
            return None
        if len(mentions.findall(file.source.text)) > (file is site.file):
            return None
    return owner

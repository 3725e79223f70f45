"""Copies to the default device in functions and classes that were given a sharding for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.leaf import given_in_sight


def unplaced(site: Site, function: ast.AST) -> Iterator[ast.Call]:
    """The calls of `jax.device_put` that do not say where, in a function with all inside it, or in a class."""
    for call in walk(function):
        if (
            isinstance(call, ast.Call)
            and last_name(call.func) == "device_put"
            and len(call.args) == 1
            and not isinstance(call.args[0], ast.Starred)
            and not call.keywords
            and all(
                isinstance(one, Api) and one.name == "jax.device_put"
                for one in options(site.value(call.func))
            )
        ):
            yield call


def converted(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Call | None:
    """The `jnp.asarray` of what a function is given, on the way to what it returns."""
    for statement in walk(function):
        if not isinstance(statement, ast.Return) or statement.value is None:
            continue
        for call in walk(statement.value):
            if (
                not isinstance(call, ast.Call)
                or last_name(call.func) not in ("asarray", "array")
                or not call.args
            ):
                continue
            if any(one.arg in (*_WHERE, None) for one in call.keywords):
                continue
            if all(isinstance(one, Api) and one.name in _CONVERTED for one in options(site.value(call.func))):
                if site.program.region(site.file, call).traced not in ("always", "sometimes"):
                    return call
    return None


_CONVERTED = ("jax.numpy.asarray", "jax.numpy.array")
_MADE = tuple(f"jax.numpy.{name}" for name in ("zeros", "ones", "full", "empty"))
_WHERE = ("device", "sharding", "out_sharding")


def made_here(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Call | None:
    """An array that a host function makes on the default device and gives to its callers as it is."""
    for statement in walk(function):
        if not isinstance(statement, ast.Return) or statement.value is None:
            continue
        for call in _given_back(site, function, statement.value):
            found = options(site.value(call.func))
            sized = bool(call.args) and not isinstance(call.args[0], ast.Tuple | ast.List | ast.Constant)
            shaped = sized or (isinstance(call.args[0], ast.Tuple) and len(call.args[0].elts) > 1)
            if (
                all(isinstance(one, Api) and one.name in _MADE for one in found)
                and shaped
                and not any(one.arg in (*_WHERE, None) for one in call.keywords)
                and site.program.region(site.file, call).traced not in ("always", "sometimes")
            ):
                return call
    return None


def _given_back(site: Site, function: ast.AST, node: ast.expr) -> Iterator[ast.Call]:
    """The calls whose results are, or are parts of, what is returned."""
    match node:
        case ast.Call() if last_name(node.func) in ("zeros", "ones", "full", "empty") and node.args:
            yield node
        case ast.Call(func=ast.Name(id=name)) if name[:1].isupper():
            for part in (*node.args, *(one.value for one in node.keywords)):
                yield from _given_back(site, function, part)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _given_back(site, function, part)
        case ast.Dict(values=parts):
            for part in parts:
                yield from _given_back(site, function, part)
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            yield from _given_back(site, function, part)
        case ast.Name(id=name):
            bound = [
                one.value
                for one in walk(function)
                if isinstance(one, ast.Assign)
                and any(isinstance(target, ast.Name) and target.id == name for target in one.targets)
            ]
            if len(bound) == 1 and not isinstance(bound[0], ast.Name):
                yield from _given_back(site, function, bound[0])


def given_a_mesh(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a call in sight gives a parameter something that is called a mesh."""
    calls = given_in_sight(site.program, site.file, function, name)
    return any("mesh" in given.text().lower() for _, _, given in calls)


def kept_unread(
    site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> ast.ClassDef | None:
    """The class whose `__init__` keeps a parameter in an attribute that nothing reads."""
    owner = site.file.parent(function)
    if not isinstance(owner, ast.ClassDef) or function.name != "__init__":
        return None
    kept = [
        target.attr
        for one in walk(function)
        if isinstance(one, ast.Assign | ast.AnnAssign)
        and isinstance(one.value, ast.Name)
        and one.value.id == name
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    ]
    if len(kept) != 1:
        return None
    says = re.compile(rf"\.{kept[0]}\b|[\"']{kept[0]}[\"']|\b(?:vars|__dict__|__getattr__)\b")
    for file in site.program.project.holding(site.file.path, (kept[0],)):
        if file is None:
            return None
        told = len(says.findall(file.source.text))
        if told > (file is site.file):
            return None
    return owner

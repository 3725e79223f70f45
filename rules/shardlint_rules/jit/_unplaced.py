"""Copies to the default device in functions and classes that were given a sharding for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name


def unplaced(site: Site, function: ast.AST) -> Iterator[ast.Call]:
    """The calls of `jax.device_put` that do not say where, in a function with all inside it, or in a class."""
    for call in ast.walk(function):
        if (
            isinstance(call, ast.Call)
            and last_name(call.func) == "device_put"
            and len(call.args) == 1
            and not isinstance(call.args[0], ast.Starred)
            and not call.keywords
            and all(isinstance(one, Api) and one.name == "jax.device_put" for one in options(site.value(call.func)))
        ):
            yield call


def kept_unread(site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.ClassDef | None:
    """The class whose `__init__` keeps a parameter in an attribute that nothing reads."""
    owner = site.file.parent(function)
    if not isinstance(owner, ast.ClassDef) or function.name != "__init__":
        return None
    kept = [
        target.attr
        for one in ast.walk(function)
        if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(one.value, ast.Name) and one.value.id == name
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
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

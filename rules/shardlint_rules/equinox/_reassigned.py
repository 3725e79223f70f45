"""Attributes that a jitted function reads of its object, and that another method gives anew. For SL105."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import JITS
from shardlint.model.values import Constant, Items, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk

_STATE = regex(r"(^|_)(params?|weights?|variables|state|ema|target|opt_state|train_state)(_|$|\d)")
_NO_WEIGHTS = regex(r"def$|graphdef|spec|shape|shard|struct|step|count|config|treedef|names")
_ONCE = regex(r"^_*(init|set_?up|build|create|make|load|restore|reset|prepare|from_|post_init|__)")
_METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Reassigned:
    """The read of `self.name` in what is compiled, the method that assigns it later, and where."""

    read: ast.Attribute
    method: str
    line: int


def reassigned(site: Site) -> Reassigned | None:
    """An attribute that is read at trace time, of an object that is no argument, and assigned later."""
    if site.api not in JITS:
        return None
    owner = next((one for one in site.file.ancestors(site.syntax) if isinstance(one, ast.ClassDef)), None)
    if owner is None or any("nnx" in site.text(base) or "Module" in site.text(base) for base in owner.bases):
        return None
    body = _compiled(site, owner)
    if body is None:
        return None
    inside = [one for one in walk(body) if isinstance(one, ast.Attribute)]
    written = {site.text(one) for one in inside if not isinstance(one.ctx, ast.Load)}
    for read in inside:
        if isinstance(read.ctx, ast.Load) and _STATE.search(read.attr):
            if _NO_WEIGHTS.search(read.attr):
                continue
            if isinstance(read.value, ast.Name) and read.value.id == "self" and site.text(read) not in written:
                for method, line in _assigned(site, owner, body, site.text(read)):
                    return Reassigned(read, method, line)
    return None


def _compiled(site: Site, owner: ast.ClassDef) -> ast.AST | None:
    """The lambda or method that is jitted once for the object: kept by it, or decorated with self static."""
    decorated = site.decorated
    if isinstance(decorated, ast.FunctionDef):
        return decorated if decorated in owner.body and _self_is_static(site, decorated) else None
    kept = site.file.parent(site.syntax)
    if not isinstance(site.syntax, ast.Call) or not isinstance(kept, ast.Assign) or not site.syntax.args:
        return None
    if not all(isinstance(one, ast.Attribute) and site.file.text(one.value) == "self" for one in kept.targets):
        return None
    function = site.syntax.args[0]
    if isinstance(function, ast.Lambda):
        return function
    if isinstance(function, ast.Attribute) and site.file.text(function.value) == "self":
        return next((one for one in owner.body if isinstance(one, _METHODS) and one.name == function.attr), None)
    return None


def _self_is_static(site: Site, method: ast.FunctionDef) -> bool:
    if not isinstance(site.syntax, ast.Call):
        return False
    keyword = site.keyword("static_argnums")
    if keyword is None or not method.args.args or method.args.args[0].arg != "self":
        named = site.keyword("static_argnames")
        return named is not None and "self" in site.text(named.value)
    value = options(site.value(keyword.value))
    numbers = [one for each in value for one in (each.items if isinstance(each, Items) else (each,))]
    return any(isinstance(one, Constant) and one.value == 0 for one in numbers)


def _assigned(site: Site, owner: ast.ClassDef, body: ast.AST, text: str) -> Iterator[tuple[str, int]]:
    """The methods that are no set-up and assign an attribute, from what they are given or compute."""
    for method in owner.body:
        if not isinstance(method, _METHODS) or method is body or _ONCE.search(method.name):
            continue
        for one in walk(method):
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            parts = [part for target in targets for part in (getattr(target, "elts", None) or [target])]
            if isinstance(one, ast.Assign | ast.AugAssign) and any(
                isinstance(part, ast.Attribute) and site.text(part) == text for part in parts
            ):
                if site.program.region(site.file, one).traced not in ("always", "sometimes"):
                    yield method.name, one.lineno

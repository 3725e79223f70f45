"""Numbers of this process that are computed with where code is compiled, so that they are constants of the program."""

from __future__ import annotations

import ast
from typing import Literal

from shardlint.model.api import AXIS_AT
from shardlint.model.reach import readers
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import last_name
from shardlint.syntax.nodes import children, walk

_COMPUTING = ("jax.numpy.", "jax.random.", "jax.lax.", "jax.nn.")
_ARITHMETIC = (ast.BinOp, ast.UnaryOp)


@dataclass(frozen=True)
class Compiled:
    """Why a place is compiled, and in words."""

    form: Literal["mapped", "compiled"]
    told: str


def compiled_in(site: Site) -> Compiled | None:
    """Why what a site's call gives becomes a constant of a compiled program; None where it does not, or may not."""
    function = site.scope.function()
    if function is None or not _computed_with(site, site.call):
        return None
    axis = _names_axis(site, function.node)
    if axis is not None:
        return Compiled("mapped", f"the function calls `{axis}`, so it is mapped")
    if site.wants("compiled") and site.region.traced == "always":
        return Compiled("compiled", site.region.describe(site.file))
    return None


def _names_axis(site: Site, function: ast.AST) -> str | None:
    """A collective or `axis_index` that the function itself calls, outside of functions in it."""
    waiting = list(children(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Call) and last_name(node.func) in AXIS_AT:
            found = options(site.value(node.func))
            if found and all(isinstance(one, Api) and one.name.startswith("jax.lax.") for one in found):
                return f"jax.lax.{last_name(node.func)}"
        waiting.extend(children(node))
    return None


def _computed_with(site: Site, node: ast.expr, names: int = 1) -> bool:
    """Whether it comes to a function of jax that computes, by arithmetic and one name."""
    inner: ast.expr = node
    for outer in site.file.ancestors(node):
        match outer:
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Tuple() | ast.List() | ast.keyword():
                if isinstance(outer, ast.expr):
                    inner = outer
                continue
            case ast.Call() if inner is not outer.func:
                found = options(site.value(outer.func))
                return bool(found) and all(
                    isinstance(one, Api) and one.name.startswith(_COMPUTING) for one in found
                )
            case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target) if names:
                return any(_computed_with(site, use, names - 1) for use, _ in readers(site.file, target))
        break
    return isinstance(inner, _ARITHMETIC) and _with_an_array(site, inner)


def _with_an_array(site: Site, node: ast.expr) -> bool:
    """Whether an arithmetic has an argument of its function, or what a function of jax gives, such as `axis_index`."""
    function = site.scope.function()
    taken = getattr(function.node, "args", None) if function is not None else None
    names = {one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)} if taken is not None else set()
    for part in walk(node):
        if isinstance(part, ast.Name) and part.id in names - {"self", "cls"}:
            return True
        if isinstance(part, ast.Call):
            for one in options(site.value(part.func)):
                if isinstance(one, Api) and one.name.startswith(_COMPUTING):
                    return True
    return False

"""The way a program takes with one process, beside a gather over several."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint_rules.jit.reads import reads
from shardlint_rules.processes.alone import asks_one

# What gives the same of one more axis, or makes that axis go away.
_REDUCED = frozenset("sum mean max min all any prod average size sort unique concatenate ravel flatten".split())


def whole_otherwise(site: Site, given: ast.expr) -> tuple[str, bool]:
    """What stands for a gathered value where there is one process, and whether it is fetched from devices.

    `device_get(process_allgather(x)) if process_count() > 1 else device_get(x)`: both are meant to be the same x.
    """
    around: ast.expr = site.call
    parent = site.file.parent(around)
    while isinstance(parent, ast.Call) and parent.args == [around] and not parent.keywords:
        if site.text(parent.func).rpartition(".")[2] in _REDUCED:
            return "", False
        around, parent = parent, site.file.parent(parent)
    wanted = ast.unparse(around).replace(ast.unparse(site.call), ast.unparse(given))
    beside = _beside(site, around)
    if beside is None or ast.unparse(beside) != wanted or _reduced_later(site, around):
        return "", False
    return wanted, _fetched(site, beside)


def _fetched(site: Site, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    found = options(site.value(node.func))
    return bool(found) and all(isinstance(one, Api) and one.name == "jax.device_get" for one in found)


def _beside(site: Site, around: ast.expr) -> ast.expr | None:
    """What is bound or returned instead where there is one process."""
    parent = site.file.parent(around)
    if isinstance(parent, ast.IfExp) and around is not parent.test:
        asked = asks_one(site.program, site.file, parent.test)
        other = parent.orelse if around is parent.body else parent.body
        return other if asked is (around is parent.orelse) else None
    if not isinstance(parent, ast.Assign | ast.Return):
        return None
    block = site.file.parent(parent)
    if not isinstance(block, ast.If):
        return _returned_before(site, parent)
    if asks_one(site.program, site.file, block.test) is not (parent in block.orelse):
        return None
    others = block.body if parent in block.orelse else block.orelse
    for one in others:
        if isinstance(parent, ast.Return) and isinstance(one, ast.Return):
            return one.value
        if isinstance(parent, ast.Assign) and isinstance(one, ast.Assign):
            if [site.text(each) for each in one.targets] == [site.text(each) for each in parent.targets]:
                return one.value
    return None


def _returned_before(site: Site, statement: ast.Assign | ast.Return) -> ast.expr | None:
    """`if process_count() == 1: return x` before `return process_allgather(x)`."""
    body = getattr(site.file.parent(statement), "body", None)
    if not isinstance(statement, ast.Return) or not isinstance(body, list) or statement not in body:
        return None
    for one in body[: body.index(statement)]:
        if isinstance(one, ast.If) and asks_one(site.program, site.file, one.test):
            last = one.body[-1]
            if isinstance(last, ast.Return):
                return last.value
    return None


def _reduced_later(site: Site, around: ast.expr) -> bool:
    """Whether the name it is bound to is summed or the like, for which one axis more is no matter."""
    holder: ast.AST | None = site.file.parent(around)
    if isinstance(holder, ast.IfExp):
        holder = site.file.parent(holder)
    if not isinstance(holder, ast.Assign) or not isinstance(holder.targets[0], ast.Name):
        return False
    return any(_reduces(site, use) for use in reads(site.file, holder.targets[0], only=False))


def _reduces(site: Site, use: ast.Name) -> bool:
    parent = site.file.parent(use)
    if isinstance(parent, ast.Subscript):
        return parent.value is use
    if isinstance(parent, ast.Attribute):
        return parent.attr in _REDUCED | {"reshape", "shape", "ndim"}
    return isinstance(parent, ast.Call) and site.text(parent.func).rpartition(".")[2] in _REDUCED | {
        "reshape",
        "tree_map",
        "map",
        "len",
    }

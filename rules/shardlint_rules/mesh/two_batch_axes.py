"""The spec of a batch that names two axes for rows, each for a dimension of its own."""

from __future__ import annotations

import ast

from shardlint.model.values import Constant, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint_rules.jit.reads import reads

# Axes that split rows as a rule. Those of the second kind split weights too, but no other dimension of a batch.
_ROWS = regex(r"dp|data|batch|replica|data_parallel|dp_replicate|dcn_data|dcn")
_ROWS_TOO = regex(r"fsdp|zero\d?|fsdp_parallel|dp_shard|data_fsdp|ici_fsdp")
_BATCH = regex(r"(^|_)(batch(es)?|inputs?|data|tokens?|images?|labels?|examples?|targets?)(_|$)")
_WEIGHT = regex(r"param|weight|kernel|embed|state|axis|axes|opt|grad")


def rows_apart(site: Site) -> tuple[str, str] | None:
    """The two axes, where a spec begins with both and is called one of a batch."""
    if len(site.call.args) < 2 or site.program.project.is_test(site.file.path):
        return None
    names = [_axis(site, node) for node in site.call.args[:2]]
    one, two = names
    if one is None or two is None or not _both_split_rows(one, two):
        return None
    return (one, two) if of_a_batch(site, by_use=True) else None


def of_a_batch(site: Site, by_use: bool = False) -> bool:
    """Whether a spec is said to be for a batch; `by_use`: also by what a sharding of no telling name is given to."""
    subject = _subject(site, by_use)
    return bool(_BATCH.search(subject)) and not _WEIGHT.search(subject)


def _both_split_rows(one: str, two: str) -> bool:
    if one in ("replica", "dp_replicate") and two in ("data", "dp_shard"):
        return True
    return any(_ROWS.fullmatch(a) and _ROWS_TOO.fullmatch(b) for a, b in ((one, two), (two, one)))


def _axis(site: Site, node: ast.expr) -> str | None:
    if isinstance(node, ast.Starred):
        return None
    found = options(site.value(node))
    only = found[0] if len(found) == 1 else None
    return only.value if isinstance(only, Constant) and isinstance(only.value, str) else None


def _subject(site: Site, by_use: bool) -> str:
    """What the spec is said to be for: a key, a keyword, the name that it is bound to, or the array that is placed."""
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        match outer:
            case ast.Dict(keys=keys, values=values):
                key = next((k for k, v in zip(keys, values, strict=True) if v is inner), None)
                return str(key.value).lower() if isinstance(key, ast.Constant) else ""
            case ast.keyword(arg=str() as name) if _BATCH.search(name.lower()) or _WEIGHT.search(name.lower()):
                return name.lower()
            case ast.Call(args=[first, *_]) if first is not inner and _BATCH.search(last_name(first).lower()):
                return last_name(first).lower()
            case ast.Assign(targets=[ast.Name() as target]) if by_use:
                return f"{target.id}_{_placed_with(site, target)}".lower()
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return last_name(target).lower()
            case ast.Return():
                function = site.scope.function()
                return function.name.lower() if function is not None else ""
            case ast.Tuple() | ast.List() | ast.stmt():
                return ""
        inner = outer
    return ""


def _placed_with(site: Site, target: ast.Name) -> str:
    """What a sharding of no telling name is given to: the array beside it in the first call that reads it."""
    if _BATCH.search(target.id.lower()) or _WEIGHT.search(target.id.lower()):
        return ""
    for use in reads(site.file, target):
        call = site.file.parent(use)
        if isinstance(call, ast.Call) and call.args and call.args[0] is not use:
            owner = site.scope.function()
            node = owner.node if owner is not None else None
            taken = node.args.args[:1] if isinstance(node, ast.FunctionDef) else []
            return "_".join((last_name(call.args[0]), *(one.arg for one in taken)))
    return ""

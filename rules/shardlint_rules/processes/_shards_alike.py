"""Methods that make the part of one shard of an object, and leave out the seed that it was made with."""

from __future__ import annotations

import ast

from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import defaults, walk

SHARDS = (
    "shard_id",
    "shard_index",
    "shard_idx",
    "process_index",
    "process_id",
    "host_id",
    "worker_id",
    "worker_index",
)
_SEED = regex(r"^(?:.*_)?(?:key|rng|seed)$")


def seed_left_out(site: Site) -> tuple[ast.Call, str] | None:
    """The call that makes an object of the same class for a shard, and the parameter of its seed that is left out."""
    cls = next((one for one in site.file.ancestors(site.syntax) if isinstance(one, ast.ClassDef)), None)
    method = site.scope.function()
    node = method.node if method is not None else None
    if (
        cls is None
        or not isinstance(node, ast.FunctionDef)
        or node.name == "__init__"
        or node not in cls.body
    ):
        return None
    taken = _taken(cls)
    seeds = [name for name, has_default in taken.items() if has_default and _SEED.match(name)]
    if not seeds or not any(_kept(cls, one) for one in seeds):
        return None
    for call in (one for one in walk(node) if isinstance(one, ast.Call)):
        if last_name(call.func) not in (cls.name, "cls") and site.text(call.func) not in (
            "self.__class__",
            "type(self)",
        ):
            continue
        open_ended = any(one.arg is None for one in call.keywords) or any(
            isinstance(one, ast.Starred) for one in call.args
        )
        given = {*list(taken)[: len(call.args)], *(one.arg for one in call.keywords)}
        copied = [
            one for one in call.keywords if isinstance(one.value, ast.Attribute) and one.value.attr == one.arg
        ]
        if open_ended or not copied or any(one in given for one in seeds):
            continue
        return call, seeds[0]
    return None


def _taken(cls: ast.ClassDef) -> dict[str, bool]:
    """What making an object takes, and whether that has a default: parameters of `__init__`, or fields."""
    init = next(
        (one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None
    )
    if init is None:
        fields = [
            one for one in cls.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        return {one.target.id: one.value is not None for one in fields if isinstance(one.target, ast.Name)}
    taken = [*init.args.posonlyargs, *init.args.args][1:]
    found = dict.fromkeys((one.arg for one in (*taken, *init.args.kwonlyargs)), False)
    return found | {one.arg: value is not None for one, value in defaults(init.args)}


def _kept(cls: ast.ClassDef, name: str) -> bool:
    """Whether the class reads `self.key` somewhere."""
    return any(
        isinstance(one, ast.Attribute)
        and one.attr == name
        and isinstance(one.ctx, ast.Load)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
        for one in walk(cls)
    )

"""Statements that constrain or place one array, also through helpers of the project that are named for it."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site

CONSTRAINING = Lines(
    r"(?:return|[\w.\[\]'\"]+\s*=)\s*[\w.]*(?:shard|constrain|constraint|device_put|reshard)\w*\(",
    saying=("shard", "constrain", "device_put"),
)
"""`x = with_sharding_constraint(`, `return shard(`, `a.scale.value = shard_put(`."""


def constraining(site: Site) -> tuple[ast.Call, ast.expr, ast.expr] | None:
    """The call of a statement, the array it is given, and the sharding."""
    statement = site.syntax
    call = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return) else None
    if not isinstance(call, ast.Call) or not call.args:
        return None
    rest = [*call.args[1:], *(one.value for one in call.keywords if one.arg and _of_sharding(one.arg))]
    return (call, call.args[0], rest[0]) if rest else None


def _of_sharding(name: str) -> bool:
    return any(word in name for word in ("shard", "spec", "device", "axes", "names"))

"""Shares of data by process that are computed with a number of devices."""

from __future__ import annotations

import ast

from shardlint.facts.processes.conditions import is_index
from shardlint.model.values import CallResult, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint_rules.processes.value_uses import reads_of_same_value

_SHARING = compile_lazily(r"(?i)shard|split|partition|interleave|islice|sampler|input_?context|subset|read_?config")
_COUNTING = ("range", "arange")
_INDEX = compile_lazily(r"(?i)^(shard_?|process_?|host_?|pipeline_|worker_|input_pipeline_)?(index|idx|id|rank)$")
_UNREAD = "Most of the data is never read: there is one slice per device, but each process reads only one."
_AS_DEVICE = "Most of the data is never read: each process takes the slice of one device."


def describe_wrong_share(site: Site) -> str | None:
    """Return the consequence of using a site's count of devices for the share of a process, in one sentence."""
    for use in reads_of_same_value(site.file, site.call):
        parent = site.file.parent(use)
        match parent:
            case ast.keyword(arg=str(name)):
                call = site.file.parent(parent)
                if isinstance(call, ast.Call):
                    return _describe_share_argument(site, call, use, name)
            case ast.Call(args=[lower, _, step]) if step is use and last_name(parent.func) in _COUNTING:
                if any(_is_process_index(site, one) for one in (lower, *_terms_of_sum(lower))):
                    return _UNREAD
                return None
            case ast.Call() if use in parent.args:
                return _describe_share_argument(site, parent, use, "")
            case ast.Slice(lower=ast.expr() as lower, upper=None, step=step) if step is use and _is_process_index(
                site, lower
            ):
                return _UNREAD
            case ast.BinOp(op=ast.Mod(), right=right) if right is use:
                outer = site.file.parent(parent)
                if (
                    isinstance(outer, ast.Compare)
                    and len(outer.ops) == 1
                    and isinstance(outer.ops[0], ast.Eq)
                ):
                    other = outer.comparators[0] if outer.left is parent else outer.left
                    if _is_process_index(site, other):
                        return _UNREAD
            case ast.BinOp(op=ast.FloorDiv(), right=right) if right is use and site.api == "jax.device_count":
                found = _describe_share_start(site, parent)
                if found is not None:
                    return found
    return None


def _terms_of_sum(node: ast.expr) -> tuple[ast.expr, ...]:
    """Return the terms of a sum."""
    return (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ()


def _describe_share_argument(site: Site, call: ast.Call, use: ast.expr, name: str) -> str | None:
    """`ds.shard(device_count(), process_index())`, `ShardOptions(shard_index=..., shard_count=...)`."""
    names = [one.arg or "" for one in call.keywords]
    if not _SHARING.search(" ".join((last_name(call.func), *names))):
        return None
    others = [one for one in (*call.args, *(one.value for one in call.keywords)) if one is not use]
    if _INDEX.match(name) and any(_is_device_count(site, one) for one in others):
        return f"The process takes a wrong slice: `{name}` is a number of devices, not a process index."
    if any(_is_process_index(site, one) for one in others) and not any(_is_device_count(site, one) for one in others):
        return _UNREAD
    return None


def _describe_share_start(site: Site, size: ast.BinOp) -> str | None:
    """`n = total // device_count()`, then `process_index() * n`: the share of a device for a process."""
    for use in reads_of_same_value(site.file, size):
        outer = site.file.parent(use)
        if not isinstance(outer, ast.BinOp) or not isinstance(outer.op, ast.Mult):
            continue
        above = site.file.parent(outer)
        if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult):
            continue  # times the devices of a process
        if _is_process_index(site, outer.left if outer.right is use else outer.right):
            return _AS_DEVICE
    return None


def _is_process_index(site: Site, node: ast.expr) -> bool:
    return is_index(site.program, Place(site.file, node))


def _is_device_count(site: Site, node: ast.expr) -> bool:
    found = options(site.value(node))
    return bool(found) and all(
        isinstance(one, CallResult) and one.api in ("jax.process_count", "jax.host_count") for one in found
    )

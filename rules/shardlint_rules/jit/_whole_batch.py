"""Batches that a loop gives whole to every device of a mesh that has an axis for them. For SL235."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import is_sharding
from shardlint.model.reach import assigned_once
from shardlint.model.values import Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint_rules.jit.batch_loops import Loop, loop_of, names_in, roots
from shardlint_rules.jit.repeated import is_test
from shardlint_rules.jit.sharded import calls

_DATA = regex(r"(?i)^(data|dp|batch|fsdp|replica|ddp|data_parallel|dcn)$")
_BATCHES = regex(r"(?i)load|batch|data(set|_iter)?(\b|_)|iterator|stream")
_BATCH = regex(r"(?i)batch|inputs|images|tokens|examples|labels|^xb?$|^yb?$")
_SPLITS_INSIDE = ("with_sharding_constraint", "shard_map", "filter_shard", "with_logical_constraint", "reshard")


@dataclass(frozen=True)
class Whole:
    """A batch that is given whole: where that is said, its name, the axis that could split it, and the loop's line."""

    node: ast.expr
    name: str
    axis: str
    line: int


def put_whole(site: Site, loop: Loop, where: ast.expr, placed: frozenset[str]) -> Whole | None:
    """What `batch = jax.device_put(batch, replicated)` in a loop over batches comes to."""
    if loop.node not in site.file.ancestors(site.call):
        return None
    names = sorted(one for one in placed & loop.names if _batch(site.file, loop, one))
    axis = _unused_axis(site, site.value(where)) if names else ""
    return Whole(where, names[0], axis, loop.line) if axis and not _splits_inside(site) else None


def taken_whole(site: Site) -> Iterator[Whole]:
    """The entries of `in_shardings` that name no axis, for what a loop draws anew in each turn."""
    keyword = site.keyword("in_shardings")
    written = keyword.value if keyword is not None else None
    if isinstance(written, ast.Name):
        written = assigned_once(site.file, written)
    if written is None or site.keyword("static_argnums") or _splits_inside(site):
        return
    for seen in calls(site):
        if is_test(seen.file, seen.call):
            return
        for at, argument in enumerate(seen.call.args):
            entry = written.elts[at : at + 1] if isinstance(written, ast.Tuple | ast.List) else [written]
            loop = _loop(seen.file, seen.call)
            if not entry or loop is None or isinstance(argument, ast.Starred) or not seen.call.args[1:]:
                continue
            held = [one for one in roots(site, argument) & loop.names if _batch(seen.file, loop, one)]
            axis = _unused_axis(site, site.value(entry[0])) if held else ""
            if axis:
                yield Whole(entry[0], held[0], axis, loop.line)
                return


def _loop(file: FileFacts, call: ast.Call) -> Loop | None:
    for outer in file.ancestors(call):
        if isinstance(outer, ast.FunctionDef | ast.Lambda):
            return None
        if isinstance(outer, ast.For | ast.While):
            return loop_of(outer)
    return None


def _batch(file: FileFacts, loop: Loop, name: str) -> bool:
    """Whether a name that a loop binds is a batch: by itself, or by what the loop goes over."""
    drawn = not isinstance(loop.node, ast.For) or name not in names_in(loop.node.target)  # by `next`
    over = file.text(loop.over) if loop.over is not None else ""
    return bool(_BATCH.search(name)) and (drawn or bool(_BATCHES.search(over)))


def _unused_axis(site: Site, sharding: Value) -> str:
    """The axis for batches that the mesh of a sharding has, where its spec names none at all."""
    found = options(sharding)
    parts = site.sharding_parts(found[0]) if len(found) == 1 and is_sharding(found[0]) else None
    spec = site.spec_of(parts[1]) if parts is not None else None
    mesh = site.mesh_of(site.program.followed(parts[0])) if parts is not None else None
    if spec is None or not spec.splits_nothing:
        return ""
    sizes = mesh.sizes if mesh is not None else None
    for at, name in enumerate(mesh.axis_names or () if mesh is not None else ()):
        if _DATA.match(name) and not (sizes is not None and at < len(sizes) and sizes[at] == 1):
            return name
    return ""


def _splits_inside(site: Site) -> bool:
    """Whether code of the program splits arrays inside of compiled functions: it may split what comes whole."""
    return site.program.project.holds(site.file.path, *_SPLITS_INSIDE)

"""SL823."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.bound_names import find_binding_reads
from shardlint.model.values import Place, options
from shardlint.rules_api.rule import Attributes, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes._own_rows import written_by_first
from shardlint_rules.processes.sharded_arrays import shardings_of
from shardlint_rules.processes.started_backend import shorten_text

_SHARDS = "addressable_shards"
_JOINING = ("concatenate", "concat", "vstack", "hstack", "stack", "block")
_SIZES = ("nbytes", "size", "shape", "itemsize", "ndim")
_ADDING = ("sum", "fsum")
_TOLD = compile_lazily(
    r"replica_id|\bset\(|unique|dedup|seen|visited|\.index\]|\.index\)?\s*:|\{[^{}\n]*\.index\b[^{}\n]*for "
)


class ReplicaShardsCombined(Rule):
    """The shards of an array are concatenated or added, although some are replicas or some are missing.

    Each device has a shard. Along a mesh axis that the spec doesn't name, the shards are replicas. With two devices
    along this axis every row occurs twice, and a sum is twice as large.

    ## Reports
    - `replicated-axis` (likely): `np.concatenate([shard.data for shard in x.addressable_shards])`, if the spec of `x`
      leaves out an axis of its mesh. Also `stack`, `sum`, a sorted list, or a loop that appends.
    - `first-process` (likely): such an array that only one process writes (`if jax.process_index() == 0: np.save(...)`)
      and nothing else reads. The shards of the other processes are never written.

    ## Write instead
    Take one replica of each shard: `[shard.data for shard in x.addressable_shards if shard.replica_id == 0]`.
    For the full array write `np.asarray(x)` with one process, and
    `multihost_utils.process_allgather(x, tiled=True)` with several.
    """

    code = "SL823"
    name = "replica-shards-combined"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("replicated-axis", "first-process")
    assumptions: ClassVar[Mapping[str, str]] = {
        "replicated-axis": "The mesh has several devices along the axis.",
        "first-process": "The program runs on more than one process.",
    }
    triggers = (Attributes(_SHARDS, file_says=(_SHARDS,)),)
    in_tests = False
    fixes = "none"

    @detector("attribute", finds="first-process")
    def report_first_process(self, site: Site) -> Finding | None:
        """Shards that one process joins and writes."""
        joined = _find_join(site.file, site.syntax, 0)
        written = written_by_first(site, joined) if joined is not None else None
        if written is None or not isinstance(site.syntax, ast.Attribute):
            return None
        what = site.text(site.syntax.value)
        return site.finding(
            site.syntax,
            f"The shards of `{what}` on other processes are never written.",
            label="the shards of this process",
            help=f"gather the array on all processes first: `multihost_utils.process_allgather({what}, tiled=True)`",
            why=f"only one process runs `{shorten_text(written)}` at {site.where(written)}, which gets these shards",
        )

    @detector("attribute", finds="replicated-axis")
    def report_copies(self, site: Site) -> Finding | None:
        """Shards that are joined with their copies."""
        node, joined = site.syntax, _find_join(site.file, site.syntax, 0)
        if not isinstance(node, ast.Attribute) or joined is None or _distinguishes_replicas(site, node):
            return None
        axes = _replicated_axes(site, node.value)
        if not axes:
            return None
        along, name = " and ".join(f'"{one}"' for one in axes), last_name(joined.func)
        return site.finding(
            node,
            f"`{name}` counts each shard several times: `{site.shown(node.value)}` is replicated along {along}."
            if name in _ADDING
            else f"`{name}` repeats rows: the shards of `{site.shown(node.value)}` along {along} are equal.",
            help="take one replica of each shard: `[s.data for s in x.addressable_shards if s.replica_id == 0]`",
            why=f"the spec doesn't name {along}, and {name} at {site.where(Place(site.file, joined))} takes all shards",
        )


def _replicated_axes(site: Site, node: ast.expr) -> tuple[str, ...] | None:
    """The axes of its mesh that an array is surely not split over; None where its sharding is not known."""
    found: list[tuple[str, ...]] = []
    for mesh_value, spec_value in shardings_of(site, node):
        spec = site.spec_of(spec_value)
        if spec is None or spec.open or any(not entry.known for entry in spec.entries):
            return None
        named = {axis for entry in spec.entries for axis in entry.axes}
        for option in options(site.program.followed(mesh_value)):
            mesh = site.mesh_of(option)
            if mesh is None or mesh.axis_names is None:
                return None
            sizes = dict(zip(mesh.axis_names, mesh.sizes, strict=True)) if mesh.sizes else {}
            found.append(tuple(one for one in mesh.axis_names if one not in named and sizes.get(one) != 1))
    if not found:
        return None
    return found[0] if all(found) else ()


def _find_join(file: FileFacts, node: ast.AST, depth: int) -> ast.Call | None:
    """The call that puts the data of shards together: of an expression that gives the shards, or their data."""
    if depth > 6:
        return None
    parent = file.parent(node)
    match parent:
        case ast.comprehension(iter=inner) if inner is node:
            made = file.parent(parent)
            if isinstance(made, ast.ListComp | ast.GeneratorExp) and _is_shard_data(made.elt, parent.target):
                return _find_join(file, made, depth + 1)
        case ast.Call(func=ast.Name(id="sorted" | "list" | "tuple" | "reversed")) if node in parent.args[:1]:
            return _find_join(file, parent, depth + 1)
        case ast.Call() if node in parent.args[:1] and last_name(parent.func) in (*_JOINING, *_ADDING):
            return parent if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.Name | ast.Call) else None
        case ast.Assign(targets=[ast.Name() as target]) if parent.value is node:
            found = (_find_join(file, use, depth + 1) for use, _ in find_binding_reads(file, target))
            return next((one for one in found if one is not None), None)
        case ast.For(iter=inner) if inner is node:
            return _find_join_of_appended(file, parent, depth)
    return None


def _find_join_of_appended(file: FileFacts, loop: ast.For, depth: int) -> ast.Call | None:
    """The same of a list that a loop over the shards appends their data to."""
    for call in (one for statement in loop.body for one in walk_nodes(statement)):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name() as to, attr="append"), args=[given]):
                if not _holds_data(given, loop) or not _is_in_each_iteration(file, call, loop):
                    continue
                for use in file.mentions_in(file.evaluation_scope(to), to.id):
                    if isinstance(use, ast.Name) and use is not to and isinstance(use.ctx, ast.Load):
                        found = _find_join(file, use, depth + 1)
                        if found is not None:
                            return found
    return None


def _holds_data(node: ast.expr, loop: ast.For) -> bool:
    """Return whether an expression is the data of a shard, also by a name that a turn of the loop gives it."""
    if _is_shard_data(node, loop.target):
        return True
    names = {
        one.targets[0].id
        for one in loop.body
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and _is_shard_data(one.value, loop.target)
    }
    words = list(walk_nodes(node))
    return any(isinstance(one, ast.Name) and one.id in names for one in words) and not any(
        isinstance(one, ast.Attribute) and one.attr in _SIZES for one in words
    )


def _is_in_each_iteration(file: FileFacts, call: ast.Call, loop: ast.For) -> bool:
    """Return whether a call is in the loop itself, or where only the device of the shard is tested."""
    outer = file.parent(file.parent(call) or call)
    while isinstance(outer, ast.If) and not outer.orelse and "device" in file.source_text(outer.test):
        outer = file.parent(outer)
    return outer is loop


def _is_shard_data(node: ast.expr, target: ast.expr) -> bool:
    """Return whether an expression is the data of a shard, or made of them: not their size or shape."""
    if not isinstance(target, ast.Name):
        return False
    for one in walk_nodes(node):
        match one:
            case ast.Attribute(value=ast.Name(id=name), attr="data") if name == target.id:
                return not any(isinstance(part, ast.Attribute) and part.attr in _SIZES for part in walk_nodes(node))
    return False


def _distinguishes_replicas(site: Site, node: ast.AST) -> bool:
    """Return whether the function around tests the replica, or uses each index once."""
    function = site.file.evaluation_scope(node).enclosing_function()
    return _TOLD.search(site.text(function.node if function is not None else site.file.tree)) is not None

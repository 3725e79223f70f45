"""SL246."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.enclosing import enclosing_block
from shardlint.syntax.nodes import mentions_name, walk_nodes

# Calls that place, constrain, gather, reduce or distribute the array they get.
_CONVERTING = (
    "device_put", "device_get", "with_sharding_constraint", "with_logical_constraint", "logical_constraint",
    "with_named_sharding_constraint", "host_local_array_to_global_array", "global_array_to_host_local_array",
    "process_allgather", "broadcast_one_to_all", "make_array_from_process_local_data", "psum", "pmean", "pmax",
    "psum_scatter", "all_gather", "all_to_all", "ppermute", "pvary", "pcast", "reshard", "replicate", "unreplicate",
    "device_put_replicated", "device_put_sharded", "filter_shard", "shard_array", "shard_batch", "shard", "auto_shard",
    "array_split", "wsc", "constrain", "constraint", "constrain_act", "put",
)  # fmt: skip
_CALL = compile_lazily(rf"^_?(?!shard_?map)(?:maybe_)?(?:{'|'.join(_CONVERTING)})(?:_\w+)?$")
_LINE = rf"\w+(?:\s*:[^=\n]*)? = [\w.]*(?:{'|'.join(_CONVERTING)})\w*\("


class OverwrittenBeforePlacement(Rule):
    """The result of a placement or a collective overwrites a computed array that nothing has read yet.

    The computed array is lost, and the program continues with the new one. Nothing is raised if both have the same
    shape.

    ## Reports
    - `overwritten` (likely): `x = device_put(y, sharding)` if the same block computes `x` before, and no code in
      between reads it. The same for sharding constraints, conversions between host-local and global arrays,
      collectives, `replicate`, `np.array_split`, and functions that are named after one of these operations, such
      as `shard_batch` and `put_data`.

    ## Write instead
    Pass the computed array to the call, or assign the result of the call to another name.

    ## Limits
    Not reported if both statements have the same right-hand side. An `assert` does not count as a read.
    """

    code = "SL246"
    name = "overwritten-before-placement"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("overwritten",)
    triggers = (Lines(_LINE, saying=_CONVERTING),)
    fixes = "none"

    @detector("line", finds="overwritten")
    def report_assignment(self, site: Site) -> Finding | None:
        """An assignment that overwrites an array before any read."""
        statement = site.syntax
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return None
        name, call = _bound_name(statement), statement.value
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if _CALL.match(call.func.attr) or not isinstance(call.func.value, ast.Call):
                break
            call = call.func.value  # `np.array_split(files, count).tolist()`
        if not name or not isinstance(call, ast.Call) or not _CALL.match(last_name(call.func)):
            return None
        passed = [*call.args, *(one.value for one in call.keywords)]
        if not passed or isinstance(passed[0], ast.Constant) or mentions_name(call, name):
            return None
        before = _unread_definition(site, statement, name)
        if before is None or _computes_same(before, statement):
            return None
        return site.finding(
            passed[0],
            f"The `{name}` of line {before.lineno} is lost: this result overwrites it before any read.",
            label=f"`{name}` is expected here",
            help=f"pass the computed array: {last_name(call.func)}({name}, ...)",
            why=f"line {before.lineno} computes `{name}`, and `{last_name(call.func)}` gets `{site.shown(passed[0])}`",
        )


def _bound_name(statement: ast.AST | None) -> str:
    """The one name that a statement binds."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return "" if name.strip("_") == "" else name
    return ""


def _computes_same(before: ast.stmt, statement: ast.Assign | ast.AnnAssign) -> bool:
    """True if both statements compute the same: the first is then only redundant."""
    first = before.value if isinstance(before, ast.Assign | ast.AnnAssign) else None
    return first is not None and statement.value is not None and ast.dump(first) == ast.dump(statement.value)


def _unread_definition(site: Site, statement: ast.stmt, name: str) -> ast.stmt | None:
    """The earlier statement of the same block that computes the overwritten name, if nothing reads it in between."""
    parent = site.file.parent(statement)
    block = enclosing_block(site.file, statement)
    before: ast.stmt
    for before in reversed(block[: block.index(statement)]):
        if isinstance(before, ast.Assert):
            continue
        if _overwrites_name(before, name):
            return before
        if isinstance(parent, ast.Module) or mentions_name(before, name):
            return None  # functions that are called in between may read a global name
    return None


def _overwrites_name(statement: ast.stmt, name: str) -> bool:
    """True if a statement, or each branch of it, binds a name to something computed, and does not read it."""
    if isinstance(statement, ast.If):
        branches = (statement.body, statement.orelse)
        inside = [one for branch in branches for one in branch if mentions_name(one, name)]
        ends = all(branch and _overwrites_name(branch[-1], name) for branch in branches)
        return ends and len(inside) == len(branches) and not mentions_name(statement.test, name)
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if _bound_name(statement) != name or value is None or mentions_name(value, name):
        return False
    computed = any(isinstance(one, ast.Call | ast.BinOp | ast.ListComp) for one in walk_nodes(value))
    return computed and any(isinstance(one, ast.Name) for one in walk_nodes(value))

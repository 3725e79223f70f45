"""SL246."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.enclosing import block_of
from shardlint.syntax.nodes import says, walk

# Calls that make another array of the one that they are given: placed, constrained, gathered, reduced, shared out.
_CONVERTING = (
    "device_put", "device_get", "with_sharding_constraint", "with_logical_constraint", "logical_constraint",
    "with_named_sharding_constraint", "host_local_array_to_global_array", "global_array_to_host_local_array",
    "process_allgather", "broadcast_one_to_all", "make_array_from_process_local_data", "psum", "pmean", "pmax",
    "psum_scatter", "all_gather", "all_to_all", "ppermute", "pvary", "pcast", "reshard", "replicate", "unreplicate",
    "device_put_replicated", "device_put_sharded", "filter_shard", "shard_array", "shard_batch", "shard", "auto_shard",
    "array_split", "wsc", "constrain", "constraint", "constrain_act", "put",
)  # fmt: skip
_CALL = regex(rf"^_?(?!shard_?map)(?:maybe_)?(?:{'|'.join(_CONVERTING)})(?:_\w+)?$")
_LINE = rf"\w+(?:\s*:[^=\n]*)? = [\w.]*(?:{'|'.join(_CONVERTING)})\w*\("


class OverwrittenBeforePlacement(Rule):
    """What was computed to be placed is overwritten by the placement of something else.

    ## What it does
    Reports `x = device_put(y, sharding)` where `x` was computed just before, in the same block, is read nowhere in
    between, and is not among what the call is given. So it does for sharding constraints, conversions between global
    arrays and those of one host, gathers, collectives, `replicate`, `np.array_split`, and helpers that are named so.
    An `assert` about it counts for no reading. Left alone is what computes the same once more.

    ## Why it hurts
    The value that was computed is lost, and all that follows goes on with another one. Mostly their names differ by a
    letter, shapes and shardings are the same, and nothing is raised.

    ## Evidence
    The proof computes another number. Recorded in NetKet, where new probabilities are overwritten by old ones, and in
    TECO, where a list of files is overwritten by a part of the number of shards.
    """

    code = "SL246"
    name = "overwritten-before-placement"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("overwritten",)
    triggers = (Lines(_LINE, saying=_CONVERTING),)
    fixes = "none"
    forms = ("line",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an assignment."""
        statement = site.syntax
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return
        name, call = _bound(statement), statement.value
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if _CALL.match(call.func.attr) or not isinstance(call.func.value, ast.Call):
                break
            call = call.func.value  # `np.array_split(files, count).tolist()`
        if not name or not isinstance(call, ast.Call) or not _CALL.match(last_name(call.func)):
            return
        given = [*call.args, *(one.value for one in call.keywords)]
        if not given or isinstance(given[0], ast.Constant) or says(call, name):
            return
        before = _lost(site, statement, name)
        if before is None or _again(before, statement):
            return
        taken = site.shown(given[0])
        yield site.finding(
            given[0],
            f"`{name}` of line {before.lineno} is read nowhere: `{last_name(call.func)}` is given `{taken}`, and its "
            f"result takes the place of what was computed.",
            label=f"`{name}` was computed on line {before.lineno}, and is lost here",
            help=f"give it what was computed: {last_name(call.func)}({name}, ...)",
            form="overwritten",
            why="a value that is computed and then overwritten was meant to be given to this call",
        )


def _bound(statement: ast.AST | None) -> str:
    """The one name that a statement binds."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return "" if name.strip("_") == "" else name
    return ""


def _again(before: ast.stmt, statement: ast.Assign | ast.AnnAssign) -> bool:
    """Whether the same is computed twice: then nothing else was meant to be placed, and the first is only in vain."""
    first = before.value if isinstance(before, ast.Assign | ast.AnnAssign) else None
    return first is not None and statement.value is not None and ast.dump(first) == ast.dump(statement.value)


def _lost(site: Site, statement: ast.stmt, name: str) -> ast.stmt | None:
    """The statement before, in the same block, that computes what is overwritten and was not read."""
    parent = site.file.parent(statement)
    block = block_of(site.file, statement)
    before: ast.stmt
    for before in reversed(block[: block.index(statement)]):
        if isinstance(before, ast.Assert):
            continue
        if _computes(before, name):
            return before
        if isinstance(parent, ast.Module) or says(before, name):
            return None  # functions that are called in between may read a global name
    return None


def _computes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement, or each branch of it, binds a name to something computed, and does not read it."""
    if isinstance(statement, ast.If):
        branches = (statement.body, statement.orelse)
        inside = [one for branch in branches for one in branch if says(one, name)]
        ends = all(branch and _computes(branch[-1], name) for branch in branches)
        return ends and len(inside) == len(branches) and not says(statement.test, name)
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if _bound(statement) != name or value is None or says(value, name):
        return False
    computed = any(isinstance(one, ast.Call | ast.BinOp | ast.ListComp) for one in walk(value))
    return computed and any(isinstance(one, ast.Name) for one in walk(value))

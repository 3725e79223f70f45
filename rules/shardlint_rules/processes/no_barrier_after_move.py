"""SL824."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import evaluate_on_first_process
from shardlint.model.values import Place
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.single_process_code import BARRIER, is_reached_with_one_process

_MOVES = compile_lazily(r"^(?:rename|renames|replace|move|mv)$")
_MOVED_BY = compile_lazily(r"[\"']mv[\"']")


class NoBarrierAfterMove(Rule):
    """One process moves files after the last barrier, and the other processes do not wait for the move.

    The other processes don't find the checkpoint under its final name, or restore the previous one.

    ## Reports
    - `moved` (likely): a rename or move after the last barrier (`sync_global_devices`) of a function, if only one
      process runs the move: under `if jax.process_index() == 0:` or after `if jax.process_index() != 0: return`.

    ## Write instead
    Call `sync_global_devices` on all processes after the move.
    """

    code = "SL824"
    name = "no-barrier-after-move"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("moved",)
    assumptions: ClassVar[Mapping[str, str]] = {"moved": "The processes share the file system."}
    triggers = (
        Lines(
            r"if\b[^\n]*",
            file_names=r"sync_(?:global_)?(?:devices|processes|hosts)|sync (?:global )?(?:devices|processes|hosts)",
            saying=("process_index", "host_id", "is_primary", "is_main", "primary_host"),
        ),
    )
    in_tests = False
    fixes = "none"

    @detector("line", finds="moved")
    def report_branch(self, site: Site) -> Finding | None:
        """A branch in which one process moves files."""
        statement = site.syntax
        function = site.scope.enclosing_function()
        node = function.node if function is not None else None
        if not isinstance(statement, ast.If) or not isinstance(node, ast.FunctionDef):
            return None
        barriers = [
            one.lineno
            for one in walk_nodes(node)
            if isinstance(one, ast.Call) and BARRIER.match(last_name(one.func))
        ]
        if not barriers or max(barriers) >= statement.lineno:
            return None
        found = evaluate_on_first_process(site.program, Place(site.file, statement.test))
        leaves = isinstance(statement.body[-1], ast.Return) and not statement.orelse
        if found is None or (not found.truth and not leaves):
            return None
        rest = node.body[node.body.index(statement) + 1 :] if statement in node.body else []
        done = statement.body if found.truth else rest
        move = next((one for part in done for one in walk_nodes(part) if _is_move(site, one)), None)
        if not isinstance(move, ast.Call) or is_reached_with_one_process(site.program, Place(site.file, statement)):
            return None
        last = max(barriers)
        return site.finding(
            statement.test,
            f"The other processes don't wait for `{last_name(move.func)}`: no barrier follows it.",
            help="call `sync_global_devices` on all processes after the move",
            why=f"one process moves the files at line {move.lineno}, and the last barrier is at line {last}",
        )


def _is_move(site: Site, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    if name == "replace":
        return site.text(node.func) == "os.replace"
    return _MOVES.match(name) is not None or (
        name in ("run", "check_call") and bool(_MOVED_BY.search(site.text(node)))
    )

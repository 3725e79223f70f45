"""SL824."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import first, guard
from shardlint.model.values import Place
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.alone import BARRIER, alone

_MOVES = regex(r"^(?:rename|renames|replace|move|mv)$")
_MOVED_BY = regex(r"[\"']mv[\"']")
_TAKES_AWAY = regex(r"^(?:rename|renames|move|rmtree|unlink|remove|rmdir|delete\w*)$")
_LISTS = regex(
    r"^(?:listdir|scandir|glob|iglob|rglob|iterdir|tmp_checkpoints|\w*(?:list|find)_\w*(?:files|checkpoints|dirs))$"
)


class OthersDoNotWait(Rule):
    """One process moves files after the last barrier, and the others go on as if it were done.

    The other processes return first: they don't find the checkpoint under its final name, or restore the one before.

    ## Reports
    - `moved` (likely): in a function with a barrier (`sync_global_devices`), a rename or move that one process alone
      makes after the last barrier, under `if jax.process_index() == 0:` or after
      `if jax.process_index() != 0: return`.
    - `listed` (likely): a loop over the listing of a folder, if all of its body is left to one process and moves or
      deletes there: the other processes meet paths that are gone.

    ## Write instead
    A barrier after the move, and the condition on the process around the loop.
    """

    code = "SL824"
    name = "others-do-not-wait"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("moved", "listed")
    assumptions: ClassVar[Mapping[str, str]] = {
        "moved": "The processes share the file system.",
        "listed": "The processes share the file system.",
    }
    triggers = (
        Lines(
            r"(?:if|for)\b[^\n]*",
            file_names=r"sync_(?:global_)?(?:devices|processes|hosts)|sync (?:global )?(?:devices|processes|hosts)",
            saying=("process_index", "host_id", "is_primary", "is_main", "primary_host", "for "),
        ),
    )
    in_tests = False
    fixes = "none"
    forms = ("line",)

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a branch or a loop."""
        statement = site.syntax
        if isinstance(statement, ast.For):
            yield from self._listed(site, statement)
        elif isinstance(statement, ast.If):
            yield from self._moved(site, statement)

    def _moved(self, site: Site, statement: ast.If) -> Iterator[Finding]:
        function = site.scope.function()
        node = function.node if function is not None else None
        if not isinstance(node, ast.FunctionDef):
            return
        barriers = [
            one.lineno
            for one in walk(node)
            if isinstance(one, ast.Call) and BARRIER.match(last_name(one.func))
        ]
        if not barriers or max(barriers) >= statement.lineno:
            return
        found = first(site.program, Place(site.file, statement.test))
        leaves = isinstance(statement.body[-1], ast.Return) and not statement.orelse
        if found is None or (not found.truth and not leaves):
            return
        rest = node.body[node.body.index(statement) + 1 :] if statement in node.body else []
        done = statement.body if found.truth else rest
        move = next((one for part in done for one in walk(part) if _is_move(site, one)), None)
        if not isinstance(move, ast.Call) or alone(site.program, Place(site.file, statement)):
            return
        last = max(barriers)
        yield site.finding(
            statement.test,
            f"The other processes don't wait for `{last_name(move.func)}`: no barrier follows it.",
            help="call sync_global_devices after it on all processes",
            form="moved",
            why=f"one process moves the files at line {move.lineno}, and the last barrier is at line {last}",
        )

    def _listed(self, site: Site, loop: ast.For) -> Iterator[Finding]:
        if len(loop.body) != 1 or loop.orelse or not isinstance(loop.body[0], ast.If) or loop.body[0].orelse:
            return
        inside = loop.body[0]
        found = first(site.program, Place(site.file, inside.test))
        if found is None or not found.truth or guard(site.program, site.file, loop) is not None:
            return
        listing = next(
            (
                one
                for one in walk(loop.iter)
                if isinstance(one, ast.Call) and _LISTS.match(last_name(one.func))
            ),
            None,
        )
        calls = [one for part in inside.body for one in walk(part) if isinstance(one, ast.Call)]
        takes = next(
            (one for one in calls if _TAKES_AWAY.match(last_name(one.func)) or _is_move(site, one)), None
        )
        if listing is None or takes is None or alone(site.program, Place(site.file, loop)):
            return
        yield site.finding(
            loop.iter,
            f"`{last_name(listing.func)}` can raise on the other processes: one process removes the files meanwhile.",
            help="put the loop under the `if` on the process index",
            form="listed",
            why=f"all processes list the folder, and one of them moves or deletes what is in it at line {takes.lineno}",
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

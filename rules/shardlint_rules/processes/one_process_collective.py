"""SL809."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.program.processes import First, first, leaves
from shardlint.program.values import Place
from shardlint.program.whole_program import Together, joined
from shardlint.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.site import Site
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.starting import short

_WORDS = "process|host|rank|main|master|chief|lead|primary|coordinator|worker|proc|pid|first|zero|root"


class OneProcessCollective(Rule):
    """A call that all processes must make together stands where only one of them comes.

    ## What it does
    Reports `process_allgather`, `broadcast_one_to_all`, `sync_global_devices`, `assert_equal` and Orbax's `save` and
    `restore` under `if jax.process_index() == 0:`, under a flag, property or function that asks it
    (`is_main_process()`), in the `else` of its opposite, or after `if jax.process_index() != 0: return`; also where a
    function of the project makes the call. The same call on the other side of the condition is right, and so is one in
    a program of one process.

    ## Why it hurts
    The process that makes the call waits for the others, which never come: the program hangs, until a timeout ends it.
    With one process nothing shows.

    ## Evidence
    The proof runs two processes on jax 0.12, which do not end. Recorded in NetKet (three times), DeepQMC and paxml.
    """

    code = "SL809"
    name = "one-process-collective"
    harm = Harm.CRASH
    certainty = Certainty.PROVEN
    wakes = (
        Lines(
            rf"(?:el)?if\b[^\n]*(?i:{_WORDS})",
            near=r"process_allgather|broadcast_one_to_all|sync_global_devices|process_index|orbax|multihost|host_id",
            saying=("if ", "if("),
        ),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call under the condition."""
        statement = site.syntax
        if not isinstance(statement, ast.If):
            return
        found = first(site.program, Place(site.file, statement.test))
        if found is None:
            return
        inside, outside = _sides(site, statement, found)
        if not inside or alone(site.program, Place(site.file, inside[0])):
            return
        others = {one.name for one in joined(site.program, site.file, outside)}
        for one in joined(site.program, site.file, inside):
            start = (*one.through, one.place)[0]
            if one.name not in others and not alone(site.program, start):
                yield self._finding(site, statement, found, one)

    def _finding(self, site: Site, statement: ast.If, found: First, one: Together) -> Finding:
        start = (*one.through, one.place)[0]
        name = one.name.rpartition(".")[2]
        where = (
            f" (`{short(one.place)}`, {one.place.file.path.name}:{one.place.line})"
            if one.through and one.place.file is not site.file
            else f" (line {one.place.line})"
            if one.through
            else ""
        )
        sure = found.proven and one.sure
        form = "" if sure else "by-name" if one.sure else "maybe"
        test = " ".join(site.text(statement.test).split())
        why = one.why if one.why else "" if found.proven else f"`{test}` asks for the process by its name"
        return site.finding(
            start.node,
            "one process alone",
            f"By `{test}` one process alone comes here, and {name}{where} waits for all of them: the program hangs.",
            help="make this call on all processes, and let one of them use what it gives",
            certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
            form=form,
            why=why,
        )


def _sides(site: Site, statement: ast.If, found: First) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """The statements that one process alone runs, and those that the others run instead."""
    if found.truth:
        return statement.body, [
            *statement.orelse,
            *(_rest(site, statement) if leaves(statement.body) else []),
        ]
    if statement.orelse:
        return statement.orelse, statement.body
    return (_rest(site, statement), statement.body) if leaves(statement.body) else ([], [])


def _rest(site: Site, statement: ast.If) -> list[ast.stmt]:
    """What follows a statement in its block."""
    parent = site.file.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return []

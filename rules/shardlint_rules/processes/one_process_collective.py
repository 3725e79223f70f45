"""SL809."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from shardlint.facts.processes.collective_calls import (
    COLLECTIVES,
    FLAX_SAVE,
    CollectiveCall,
    collective_calls,
)
from shardlint.facts.processes.conditions import (
    First,
    evaluate_on_first_process,
    find_guarding_decorator,
    leaves_at_end,
    may_ask_process,
)
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.single_process_code import conditions_around_call, is_reached_with_one_process
from shardlint_rules.processes.started_backend import shorten_text

_WORDS = "process|host|rank|main|master|chief|lead|primary|coordinator|worker|proc|pid|first|zero|root"
_TOGETHER = "process_allgather|broadcast_one_to_all|sync_global_devices|process_index|orbax|multihost|host_id"
_SAYS = compile_lazily(rf"(?i:{_WORDS})")
_FIRST = "(?:main|master|chief|lead|leader|primary|coordinator|first)"


class OneProcessCollective(Rule):
    """Only one process makes a call that all processes must make together, so the program hangs.

    This process waits for the others until a timeout ends it. With one process there is no symptom.

    ## Reports
    A collective call is a call of `process_allgather`, `broadcast_one_to_all`, `sync_global_devices`, `assert_equal`,
    Orbax's `save` or `restore`, or flax's `save_checkpoint` (from flax 0.6.11, unless
    `flax_use_orbax_checkpointing` is off). Also a call of a project function that makes such a call.

    - proven: a collective call under `if jax.process_index() == 0:` or after `if jax.process_index() != 0: return`.
      Also under a flag, property, function or decorator that tests the process index, such as `is_main_process()`.
    - `branch` (likely): a collective call that also depends on a second condition, which may skip the call.
    - `global-array` (likely): only one process runs a jitted or `jax.numpy` function on a global array, and the
      function communicates: a sum over all dimensions, `x[0]`. Code that shardlint cannot read counts too.
    - `global-array-by-layout` (possible): such a function that communicates only for some shardings: `x @ w`, a sum
      over one dimension, `reshape`.
    - `by-name` (possible): a collective call, if only a name such as `is_main` shows that one process runs the code.
    - `global-array-by-name` (possible): as `global-array`, if only a name shows that one process runs the code.
    - `uncertain` (possible): a call, if only a name or type hint shows that all processes must make it.

    ## Write instead
    Make the call on all processes, and let one of them use the result.

    ## Limits
    Not reported:

    - notebooks, which run on one process
    - elementwise work on a global array, which needs no other process
    - a call that the other branch of the condition makes too.
    """

    code = "SL809"
    name = "one-process-collective"
    harm = Harm.CRASH
    certainty = Certainty.PROVEN
    likely = ("global-array", "branch")
    assumptions: ClassVar[Mapping[str, str]] = {
        "global-array": "The program runs on more than one process.",
        "branch": "The condition around the call holds.",
    }
    triggers = (
        Lines(
            rf"(?:el)?if\b[^\n]*(?i:{_WORDS})",
            file_names=rf"{_TOGETHER}|is_?{_FIRST}|{_FIRST}_(?:process|host|rank|proc)|rank_?(?:zero|0)",
            saying=("if ", "if("),
        ),
        Lines(r"(?:el)?if\s+(?:not\s+)?\w[\w.]*[.(]", file_says=r"jax|multihost", saying=("if ", "if(")),
        # By helpers of the project alone.
        Lines(
            rf"(?:el)?if\s+(?:not\s+)?(?:\w+\.)*(?:is_?)?\w*(?:{_FIRST}|rank_?zero|rank_?0|process_?0|host_?0)",
            saying=("if ", "if("),
            anywhere=True,
        ),
        Calls(*COLLECTIVES, FLAX_SAVE, file_says=("@",)),
        Methods("save", "restore", "wait_until_finished", file_says=("orbax",)),
    )
    fixes = "none"

    @detector("line")
    def find_calls(self, site: Site) -> Iterator[Finding]:
        """The calls under a condition."""
        statement = site.syntax
        if not isinstance(statement, ast.If) or site.file.source.in_cells:
            return  # a notebook runs on one process
        test = Place(site.file, statement.test)
        found = (
            evaluate_on_first_process(site.program, test)
            if may_ask_process(site.program, test) or _SAYS.search(test.source_text())
            else None
        )
        if found is None:
            return
        inside, outside = _split_by_process(site, statement, found)
        if not inside or is_reached_with_one_process(site.program, Place(site.file, inside[0])):
            return
        others: set[str] | None = None  # asked when there is something to compare with it
        computes = False
        for one in collective_calls(site.program, site.file, inside):
            start = (*one.through, one.place)[0]
            if (one.computes and computes) or conditions_around_call(site.program, one) is None:
                continue  # one computation tells it
            computes |= one.computes
            if others is None:
                others = {other.name for other in collective_calls(site.program, site.file, outside)}
            if (
                one.name not in others
                and _waits_for_all(site, one)
                and not is_reached_with_one_process(site.program, start)
            ):
                yield self._make_finding(site, statement, found, one)

    @detector("call", "method")
    def report_decorated(self, site: Site) -> Finding | None:
        """A call in a function that a decorator lets one process alone run."""
        call, function = site.call, site.scope.enclosing_function()
        if function is None or not isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        one = next(collective_calls(site.program, site.file, [call]), None)
        guard = find_guarding_decorator(site.program, site.file, function.node) if one is not None else None
        if one is None or one.place.node is not call or guard is None or not _waits_for_all(site, one):
            return None
        if is_reached_with_one_process(site.program, one.place) or conditions_around_call(site.program, one) is None:
            return None
        form, why = self._find_form(site, guard.proven, one)
        text = site.text(guard.test)
        return site.finding(
            call,
            _explain_hang(one),
            help="make this call on all processes; only code without collectives may run on one",
            form=form,
            why=f"`@{text}` lets only one process run `{function.name}`" + (f"; {why}" if why else ""),
        )

    def _find_form(self, site: Site, proven: bool, collective_call: CollectiveCall) -> tuple[str, str]:
        """How sure it is: nothing where the text proves it, else the form, and why, where the call tells it."""
        around = conditions_around_call(site.program, collective_call) or ()
        if not collective_call.sure:
            return "uncertain", collective_call.why or "the name may be of another function"
        if not proven:
            return ("uncertain" if around else "by-name"), ""
        if not around:
            return "", ""
        calls = [
            place.node for place in (*collective_call.through, collective_call.place)
        ]  # one stands for an exception that is caught
        if any(
            place.node in calls or _reads_parameter(place) or evaluate_on_first_process(site.program, place)
            for place in around
        ):
            return "uncertain", "a branch may skip the call"
        return "branch", f"the call waits for the others if `{shorten_text(around[0])}` lets it run"

    def _make_finding(self, site: Site, statement: ast.If, first: First, collective_call: CollectiveCall) -> Finding:
        start = (*collective_call.through, collective_call.place)[0]
        form, why = (
            self._find_form(site, first.proven, collective_call)
            if not collective_call.computes
            else ("", collective_call.why)
        )
        if collective_call.computes:
            by_name = "global-array" if first.proven else "global-array-by-name"
            form = "global-array-by-layout" if collective_call.by_layout else by_name
        stop = f"line {statement.lineno}, `if {site.shown(statement.test)}`, stops the other processes"
        reason = f"only one process gets here: {stop}"
        if collective_call.through:
            reason += (
                f"; the call reaches `{shorten_text(collective_call.place)}` at {site.where(collective_call.place)}"
            )
        return site.finding(
            start.node,
            _explain_hang(collective_call),
            help="make this call on all processes; only code without collectives may run on one",
            form=form,
            why=f"{reason}; {why}" if why else reason,
        )


def _explain_hang(collective_call: CollectiveCall) -> str:
    """The message for a call that one process alone makes."""
    name = collective_call.name if collective_call.computes else collective_call.name.rpartition(".")[2]
    name = name if "`" in name or " " in name else f"`{name}`"
    if collective_call.computes:
        return f"The program hangs: only one process runs {name} on a global array, which needs all processes."
    return f"The program hangs: only one process calls {name}, which waits for all of them."


def _waits_for_all(site: Site, collective_call: CollectiveCall) -> bool:
    """Return whether a call waits for all processes on the release of the project, as it is configured."""
    if collective_call.name != FLAX_SAVE:
        return True
    off = site.program.project.files_holding(site.file.path, ("use_orbax_checkpointing",), joined=True)
    return site.allows("flax", ">=0.6.11") and next(iter(off), None) is None


def _split_by_process(site: Site, statement: ast.If, first: First) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """The statements that one process alone runs, and those that the others run instead."""
    if first.truth:
        return statement.body, [
            *statement.orelse,
            *(_statements_after(site, statement) if leaves_at_end(statement.body) else []),
        ]
    if statement.orelse:
        return statement.orelse, statement.body
    return (_statements_after(site, statement), statement.body) if leaves_at_end(statement.body) else ([], [])


def _statements_after(site: Site, statement: ast.If) -> list[ast.stmt]:
    """Return the statements after a statement in its block."""
    parent = site.file.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return []


def _reads_parameter(place: Place) -> bool:
    """Return whether a condition reads a parameter of its function, so that each call may decide it.

    Not where it only asks an array whether several processes hold it, or whether it is one: the call is for those.
    """
    function = place.file.evaluation_scope(place.node).enclosing_function()
    arguments = getattr(getattr(function, "node", None), "args", None)
    if arguments is None:
        return False
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self"}
    read = [one for one in walk_nodes(place.node) if isinstance(one, ast.Name) and one.id in names]
    return any(not _is_layout_test(place.file, one) for one in read)


def _is_layout_test(file: FileFacts, name: ast.Name) -> bool:
    match file.parent(name):
        case ast.Attribute(attr="is_fully_replicated" | "is_fully_addressable" | "addressable_shards"):
            return True
        case ast.Call(func=ast.Name(id="isinstance" | "hasattr"), args=[first, *_]):
            return first is name
    return False

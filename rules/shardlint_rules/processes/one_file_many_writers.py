"""SL814."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import first, guard, several, starts_one
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.enclosing import block_of
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._paths import OWN, contents, made_in, names_process
from shardlint_rules.processes._trackers import (
    LOGGING,
    beside_the_process,
    by_one,
    first_of_its_kind,
    flag_of_process,
    flagged,
    joined_before,
    started_by_another,
    started_by_one,
)
from shardlint_rules.processes._writers import (
    WRITES,
    beside,
    maybe_one,
    of_own_shards,
    parts_of,
    printed_beside,
)
from shardlint_rules.processes.alone import BARRIER, alone
from shardlint_rules.processes.differing import Differing
from shardlint_rules.processes.own_data import own_data
from shardlint_rules.processes.starting import at, short

_OPEN = {
    "builtins.open": 1,
    "tensorflow.io.gfile.GFile": 1,
    "tensorflow.gfile.GFile": 1,
    "fsspec.open": 1,
}
_SAVES = ("numpy.save", "numpy.savez", "numpy.savez_compressed")
_NEAR = ("process_index()", "host_id()")
_FAMILY = (
    r"(?:)class \w+\([\w., ]*(?:Handler|Writer|Checkpointer|Saver|Store|Exporter|Callback|Hook|Serializer)\b",
)
_ROLE = (
    r"(?:)\b(?:is|on|am|if)_?(?:the_)?(?:main|master|chief|lead|primary|coordinator|first|rank_?(?:zero|0))"
)
_TRACKERS = ("wandb.init", "mlflow.start_run")
_BARRIER = "sync_global_devices"
_TORCH = ("torch", "torch_xla", "accelerate", "lightning", "pytorch_lightning", "deepspeed")
_JAX = ("jax", "flax", "orbax")
_IMPORTS_JAX = regex(rf"(?m)^\s*(?:import|from)\s+(?:{'|'.join(_JAX)})\b")
_STARTS_TORCH = regex(
    r"(?m)^\s*(?:import|from)\s+(?:torch\.distributed|torch_xla|accelerate|lightning|pytorch_lightning|deepspeed)\b"
    r"|^\s*from\s+torch\s+import\s[^\n]*\bdistributed\b|\btorch\.distributed\."
)
_WHOSE = ("the index of the process", "the name of the host", "the id of the process")
_COUNTED = ("process_count()", "host_count()")
_JOINED = "distributed.initialize("
_WHY = {
    "barrier": "meets at a barrier, and asks for the index of the process",
    "beside": "leaves another write to one process",
}


class OneFileManyWriters(Rule):
    """Every process writes the same file, in a function where another write is left to one of them.

    ## What it does
    Reports `open(path, "w")`, `gfile.GFile(path, "w")`, `path.write_text(...)` that all processes come to, in a
    function that meets at a barrier (`sync_global_devices`) and leaves other work to one process by `process_index()`.
    So it does (likely) for such a write right beside a barrier where nothing asks for the process, for the call of a
    function that writes, which a barrier follows, for files that code writes on all processes after it has called
    `jax.distributed.initialize`, for `wandb.init` on all processes where one of them alone comes to another call of it
    or the file asks for the index, and for `wandb.log` under the flag of a start that also asks for the process; and
    (likely) for what each process has of its own, made of its index, that all write to one path. A path that names the
    process, the host or a shard is left alone, and so are files of
    PyTorch's processes. Possible: such a write where a caller leaves another write to one
    process, or another class of the same base (`CheckpointHandler`) meets at a barrier; `wandb.init` that all
    processes come to where only another file asks for the index; `wandb.log` that all come to where one of them alone
    starts the run; and a write, also one that adds to a file, or `np.savez`, where the function or a caller prints and
    logs on one process only.

    ## Why it hurts
    On a shared file system the processes write over each other: the file is torn, object stores refuse or bill each
    write, and a marker that says "done" stands there before the last one is. After the barrier nobody waits for it.

    ## Evidence
    Two processes write the same path; the proof counts the writers. Recorded in t5x and twice in orbax.
    """

    code = "SL814"
    name = "one-file-many-writers"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = (
        "barrier", "family", "printed", "same-flag", "met", "met-call", "other-start", "launch", "tracker",
        "own-content",
    )  # fmt: skip
    triggers = (
        Calls(*_OPEN, *_SAVES, file_says=(*_NEAR, *_FAMILY, "sync_", _ROLE)),
        Methods("write_text", "write_bytes", file_says=(*_NEAR, *_FAMILY, "sync_", _ROLE)),
        Lines(
            r"with\s+[\w.]*open\(.*[\"'][wx]b?\+?[\"']\s*[,)]",
            file_says=r"distributed\.initialize\(",
            saying=("with ", "with("),
        ),
        Calls(*_TRACKERS),
        Calls(*LOGGING, file_says=_NEAR),
    )
    fixes = "none"
    forms = ("call", "method", "line")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a write."""
        function = site.scope.function()
        if _is_of_torch(site):
            return
        if site.form == "line":
            yield from self._launched(site)
            return
        if site.api in _TRACKERS:
            yield from self._tracked(site, function)
            return
        if site.api in LOGGING:
            yield from self._logged(site)
            return
        if function is None or site.program.project.is_test(site.file.path):
            return
        path = self._written(site)
        if path is None or names_process(site.program, Place(site.file, path)):
            return
        own = self._own(site)
        if own is not None and not self._by_one(site, function):
            yield self._torn(site, path, own)
            return
        added = site.form == "call" and (site.api in _SAVES or self._adds(site))
        form = self._shared(site, function) if not added else ""
        why = f"`{function.name}` {_WHY.get(form, '')}"
        if not form and not maybe_one(site) and self._meets(site):
            form, why = (
                "met",
                f"`{function.name}` meets the other processes at a barrier, and this is on all of them",
            )
        met = self._met_by_caller(site, function) if not form and not added and not maybe_one(site) else None
        if met is not None and not self._by_one(site, function):
            yield self._called_there(site, function, met)
            return
        if not form and not added and site.wants("called", "family"):
            form, why = beside(site, function)
        if not form and site.wants("printed") and not maybe_one(site) and not of_own_shards(site):
            if several(site.program, site.file) == "initialized" and not OWN.search(_called(site, function)):
                form, why = "printed", printed_beside(site, function)
        if not (form and why) or self._by_one(site, function):
            return
        what = site.shown(path)
        yield site.finding(
            site.call,
            f"All processes write `{what}` here, where other work is left to one by its index: they write over each "
            "other.",
            label="all processes write it",
            help="put it under `if jax.process_index() == 0:`"
            + (", in front of the barrier" if form == "barrier" else ""),
            form=form,
            why=why,
        )

    def _met_by_caller(self, site: Site, function: Scope) -> ast.Call | None:
        """The call of a function that writes, behind which its caller, which asks for the process, waits for all."""
        if not site.wants("met-call") or OWN.search(_called(site, function)):
            return None
        written = function.node
        ends = (
            site.program.flow.in_sight(site.file, written).found
            if isinstance(written, ast.FunctionDef)
            else ()
        )
        for end in ends:
            call = end.place.node
            if end.kind != "called" or end.place.file is not site.file or not isinstance(call, ast.Call):
                continue
            caller = site.file.home(call).function()
            if caller is None or guard(site.program, site.file, call) is not None:
                continue
            if self._asking(site, caller) and _waits_behind(site.file, call):
                return call
        return None

    def _called_there(self, site: Site, function: Scope, call: ast.Call) -> Finding:
        return site.finding(
            call,
            f"`{function.name}` writes a file, all processes call it here, and then wait for each other: they write "
            "over each other.",
            label="all processes come here and write",
            help="put it under `if jax.process_index() == 0:`, in front of the barrier",
            form="met-call",
            why="a barrier follows, as it does where one process writes for all",
        )

    def _own(self, site: Site) -> Differing | None:
        """What makes what is written another in each process."""
        if not site.wants("own-content") or maybe_one(site) or not several(site.program, site.file):
            return None
        found = (own_data(site.program, Place(site.file, one)) for one in contents(site, self._written(site)))
        return next((one for one in found if one is not None and one.what in _WHOSE), None)

    def _torn(self, site: Site, path: ast.expr, own: Differing) -> Finding:
        made = made_in(site, path)
        what = site.shown(path)
        where = f" at line {site.call.lineno}" if made is not None else ""
        return site.finding(
            made if made is not None else site.call,
            f"All processes write `{what}`{where}, each what is of "
            f"itself (`{short(own.place)}`{at(own.place, site.file, site.call)} is {own.what}): what the last one "
            "wrote is left, and all read that back.",
            label="one path for all processes",
            help="name the process in the path: jax.process_index()",
            form="own-content",
            why="the path is the same in all processes, as far as the text tells",
        )

    def _launched(self, site: Site) -> Iterator[Finding]:
        """A file that the code that joins the processes writes on all of them."""
        statement = site.syntax
        opened = statement.items[0].context_expr if isinstance(statement, ast.With) else None
        if (
            not isinstance(opened, ast.Call)
            or not opened.args
            or site.program.project.is_test(site.file.path)
        ):
            return
        path = opened.args[0]
        if isinstance(path, ast.Constant) and str(path.value)[:1] in ("w", "x") and len(str(path.value)) < 4:
            path = opened.func.value if isinstance(opened.func, ast.Attribute) else path  # `path.open("w")`
        started = joined_before(site)
        if started is None or maybe_one(site) or names_process(site.program, Place(site.file, path)):
            return
        place = Place(site.file, statement)
        if guard(site.program, site.file, statement) is not None or alone(site.program, place):
            return
        what = site.shown(path)
        yield site.finding(
            opened,
            f"All processes write `{what}` here: on a shared file system they write over each other.",
            label="all processes write it",
            help="put it under `if jax.process_index() == 0:`",
            form="launch",
            why=f"jax.distributed.initialize on line {started.lineno} joins them, and nothing here depends on which "
            "process this is",
        )

    def _tracked(self, site: Site, function: Scope | None) -> Iterator[Finding]:
        """A run of an experiment tracker that all processes start."""
        if site.program.project.is_test(site.file.path) or any(
            one.arg == "group" for one in site.call.keywords
        ):
            return
        mode = site.keyword("mode")
        asked = site.text(mode.value) if mode is not None else ""
        if maybe_one(site) or "index" in asked or "main" in asked:
            return
        if function is not None and self._by_one(site, function):
            return
        if function is None and guard(site.program, site.file, site.call) is not None:
            return
        other = started_by_another(site)
        asks = any(map(site.file.says, (*_NEAR, *_COUNTED)))
        asks = asks or (site.file.says(_JOINED) and not starts_one(site.file))
        if other is None and (site.file.source.in_cells or not site.file.says("jax")):
            return  # of one host, or of another library's processes
        if (
            other is None
            and not asks
            and not (site.wants("tracker-beside") and several(site.program, site.file))
        ):
            return
        if other is None and flag_of_process(site):
            return
        yield site.finding(
            site.call,
            f"All processes come to `{site.text(site.call.func)}`: each starts a run of its own and writes to it.",
            label="all processes start a run",
            help='start it under `if jax.process_index() == 0:`, or with mode="disabled" on the others',
            form="other-start" if other is not None else "tracker" if asks else "tracker-beside",
            why=f"{'this file asks' if asks else 'files that run with this one ask'} for the processes, and nothing "
            "here depends on which one this is"
            if other is None
            else f"one process alone starts the run of line {other.lineno}",
        )

    def _logged(self, site: Site) -> Iterator[Finding]:
        """What all processes log to a run that one of them starts."""
        if site.program.project.is_test(site.file.path):
            return
        start = started_by_one(site)
        if start is None:
            return
        same = beside_the_process(site, start)
        if maybe_one(site, same) or by_one(site):
            return
        around = flagged(site, same)
        flag = min(same & set(parts_of(site, around.test)), default="") if around is not None else ""
        if around is not None and not first_of_its_kind(site, around):
            return  # one call tells it for all of the branch
        called = site.text(site.call.func)
        yield site.finding(
            around.test if around is not None else site.call,
            f"With several processes this raises on all but one: they come to `{called}` without a run.",
            label=f"the run is started by one process, at line {start.lineno}",
            help="ask for `jax.process_index() == 0` here too",
            harm=Harm.CRASH,
            form="same-flag" if flag else "not-started",
            why=f"wandb.init asks for `{flag}` and for the process, and here only the former is asked for"
            if flag
            else "only one process comes to wandb.init, and nothing here depends on which one this is",
        )

    def _adds(self, site: Site) -> bool:
        mode = self._mode(site)
        return isinstance(mode, ast.Constant) and str(mode.value).startswith("a")

    def _mode(self, site: Site) -> ast.expr | None:
        mode = next((one.value for one in site.call.keywords if one.arg == "mode"), None)
        at = _OPEN.get(site.api, 1)
        return site.call.args[at] if mode is None and at < len(site.call.args) else mode

    def _written(self, site: Site) -> ast.expr | None:
        """The path that is written; None where it is read."""
        if site.form == "method":
            func = site.call.func
            return func.value if isinstance(func, ast.Attribute) else None
        first = next(iter(site.call.args), None)
        if site.api in _SAVES and isinstance(first, ast.Name):
            if any(one.kind not in ("assign", "param") for one in lookup(site.file, first, first.id)[0]):
                return None  # an open file
        mode = self._mode(site)
        written = site.api in _SAVES or (
            isinstance(mode, ast.Constant) and str(mode.value).startswith(("w", "x", "a"))
        )
        return site.call.args[0] if written and site.call.args else None

    def _shared(self, site: Site, function: Scope) -> str:
        """Whether the function meets at a barrier and leaves something to one process, or another write."""
        file = site.file
        calls = file.walked(function).calls
        meets = any(
            isinstance(one, Api) and one.name.endswith(_BARRIER)
            for call in calls
            for one in options(site.value(call.func))
        )
        tests = self._asking(site, function)
        if meets and tests:
            return "barrier"
        others = (one for test in tests for one in walk(test) if isinstance(one, ast.Call))
        return "beside" if any(WRITES.search(site.text(one.func)) for one in others) else ""

    def _meets(self, site: Site) -> bool:
        """Whether a function waits for the other processes right before a write, or right after it."""
        statement = site.file.statement(site.call)
        block = block_of(site.file, statement)
        at = block.index(statement)
        return any(_is_barrier(one) for one in block[max(at - 2, 0) : at + 3])

    def _asking(self, site: Site, function: Scope) -> list[ast.If]:
        """The statements by which a function leaves something to one process."""
        tests = [one for one in function.statements if isinstance(one, ast.If)]
        return [one for one in tests if first(site.program, Place(site.file, one.test)) is not None]

    def _by_one(self, site: Site, function: Scope) -> bool:
        """Whether one process alone comes here, or to each call of the function."""
        if guard(site.program, site.file, site.call) is not None:
            return True
        if alone(site.program, Place(site.file, site.call)):
            return True
        ends = [one for one in site.program.flow.ends(site.file, function.node).found if one.kind == "called"]
        return bool(ends) and all(guard(site.program, one.place.file, one.place.node) for one in ends)


def _is_of_torch(site: Site) -> bool:
    """Whether the processes of a file are those of PyTorch alone.

    They are where it imports what starts them and no jax, and where something that runs with it imports PyTorch and
    nothing imports jax.
    """
    source = site.file.source.text
    if _IMPORTS_JAX.search(source):
        return False
    if _STARTS_TORCH.search(source):
        return True
    imported, path = site.program.project.imported, site.file.path
    return any(imported(path, one) for one in _TORCH) and not any(imported(path, one) for one in _JAX)


def _waits_behind(file: FileFacts, call: ast.Call) -> bool:
    """Whether a barrier follows a call soon, in its block or behind the `if` that it stands in."""
    inner: ast.stmt = file.statement(call)
    while True:
        block = block_of(file, inner)
        at = block.index(inner)
        if any(_is_barrier(one) for one in block[at + 1 : at + 3]):
            return True
        outer = file.parent(inner)
        if not isinstance(outer, ast.If | ast.With):
            return False
        inner = outer


def _is_barrier(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and BARRIER.match(last_name(call.func)) is not None


def _called(site: Site, function: Scope) -> str:
    """What a function is called, and what it binds the open file to."""
    statement = site.file.statement(site.call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    items = statement.items if isinstance(statement, ast.With | ast.AsyncWith) else []
    names = [*targets, *(one.optional_vars for one in items if one.optional_vars is not None)]
    return " ".join((function.name, *(site.text(one) for one in names)))

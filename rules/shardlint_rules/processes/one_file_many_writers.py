"""SL814."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts import Scope
from shardlint.patterns import regex
from shardlint.program.processes import first, guard
from shardlint.program.values import Api, Place, options
from shardlint.rule import Calls, Certainty, Finding, Harm, Methods, Rule
from shardlint.site import Site
from shardlint_rules.jit.how_many import settled_expression
from shardlint_rules.processes.alone import alone

_OPEN = {
    "builtins.open": 1,
    "tensorflow.io.gfile.GFile": 1,
    "tensorflow.gfile.GFile": 1,
    "fsspec.open": 1,
}
_NEAR = (r"(?:)process_index\(\)|host_id\(\)",)
_WRITES = regex(
    r"(?i)(?:^|[._])(?:save|dump|write|makedirs|mkdir|open|rename|copy\w*|rmtree|remove)\w*$"
)
_BARRIER = "sync_global_devices"
_OWN = regex(r"(?i)process|host|rank|shard|worker|pid|uuid|tmp|temp|local|dev/null")


class OneFileManyWriters(Rule):
    """Every process writes the same file, in a function where another write is left to one of them.

    ## What it does
    Reports `open(path, "w")`, `gfile.GFile(path, "w")`, `path.write_text(...)` that all processes come to, in a
    function that meets at a barrier (`sync_global_devices`) and leaves other work to one process by `process_index()`.
    A path that names the process, the host or a shard is left alone.

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
    likely = ("barrier",)
    wakes = (Calls(*_OPEN, near=_NEAR), Methods("write_text", "write_bytes", near=_NEAR))
    fixes = "none"
    forms = ("call", "method")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a write."""
        function = site.scope.function()
        if function is None or site.program.project.is_test(site.file.path):
            return
        path = self._written(site)
        if path is None or _names_the_process(site, path):
            return
        form = self._shared(site, function)
        if not form or self._by_one(site, function):
            return
        what = " ".join(site.text(path).split())
        yield site.finding(
            site.call,
            "all processes write it",
            f"All processes write `{what}` here, where other work is left to one by its index: they write over each "
            "other.",
            help="put it under `if jax.process_index() == 0:`"
            + (", in front of the barrier" if form == "barrier" else ""),
            form=form,
            why=f"`{function.name}` "
            + (
                "meets at a barrier, and asks for the index of the process"
                if form == "barrier"
                else "leaves another write to one process"
            ),
        )

    def _written(self, site: Site) -> ast.expr | None:
        """The path that is written; None where it is read, or added to."""
        if site.form == "method":
            func = site.call.func
            return func.value if isinstance(func, ast.Attribute) else None
        at = _OPEN[site.api]
        mode = next((one.value for one in site.call.keywords if one.arg == "mode"), None)
        if mode is None and at < len(site.call.args):
            mode = site.call.args[at]
        written = isinstance(mode, ast.Constant) and str(mode.value).startswith(("w", "x"))
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
        tests = [
            one
            for one in function.statements
            if isinstance(one, ast.If) and first(site.program, Place(file, one.test)) is not None
        ]
        if meets and tests:
            return "barrier"
        others = (one for test in tests for one in ast.walk(test) if isinstance(one, ast.Call))
        return "beside" if any(_WRITES.search(site.text(one.func)) for one in others) else ""

    def _by_one(self, site: Site, function: Scope) -> bool:
        """Whether one process alone comes here, or to each call of the function."""
        if guard(site.program, site.file, site.call) is not None:
            return True
        if alone(site.program, Place(site.file, site.call)):
            return True
        ends = [one for one in site.program.flow.ends(site.file, function.node).found if one.kind == "called"]
        return bool(ends) and all(guard(site.program, one.place.file, one.place.node) for one in ends)


def _names_the_process(site: Site, path: ast.expr) -> bool:
    """Whether a path says which process it is of, as far as its names tell."""
    parts = [path, settled_expression(site.file, path)]
    parts += [
        settled_expression(site.file, one)
        for part in list(parts)
        for one in ast.walk(part)
        if isinstance(one, ast.Name)
    ]
    return any(_OWN.search(site.text(part)) for part in parts)

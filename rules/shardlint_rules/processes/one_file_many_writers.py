"""SL814."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import (
    evaluate_on_first_process,
    find_process_guard,
    multi_process_evidence,
)
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes._written_paths import (
    is_process_in_path,
    path_expression_in_file,
    written_contents,
)
from shardlint_rules.processes.per_process_values import ProcessDifference, find_process_difference
from shardlint_rules.processes.single_process_code import left_to_one
from shardlint_rules.processes.started_backend import describe_position, shorten_text

_OPEN = {
    "builtins.open": 1,
    "tensorflow.io.gfile.GFile": 1,
    "tensorflow.gfile.GFile": 1,
    "fsspec.open": 1,
}
_SAVES = ("numpy.save", "numpy.savez", "numpy.savez_compressed")
_NEAR = ("process_index()", "host_id()")
_ROLE = (
    r"(?:)\b(?:is|on|am|if)_?(?:the_)?(?:main|master|chief|lead|primary|coordinator|first|rank_?(?:zero|0))"
)
_BARRIER = "sync_global_devices"
_TORCH = ("torch", "torch_xla", "accelerate", "lightning", "pytorch_lightning", "deepspeed")
_JAX = ("jax", "flax", "orbax")
_IMPORTS_JAX = compile_lazily(rf"(?m)^\s*(?:import|from)\s+(?:{'|'.join(_JAX)})\b")
_STARTS_TORCH = compile_lazily(
    r"(?m)^\s*(?:import|from)\s+(?:torch\.distributed|torch_xla|accelerate|lightning|pytorch_lightning|deepspeed)\b"
    r"|^\s*from\s+torch\s+import\s[^\n]*\bdistributed\b|\btorch\.distributed\."
)
_WHOSE = ("the index of the process", "the name of the host", "the id of the process")
_WRITES = compile_lazily(r"(?i)(?:^|[._])(?:save|dump|write|makedirs|mkdir|open|rename|copy\w*|rmtree|remove)\w*$")
_ONE = compile_lazily(r"(?i)primary|main|master|chief|lead|process|host|rank|wandb\.run|first|writer|enabled|log")
_STEP = compile_lazily(r"^[^()]*%[^()]*(?:==|!=|<|>)[^()]*$|^\([^()]*\) *%[^()]*(?:==|!=)[^()]*$")
_WHY = {
    "barrier": "has a barrier and a condition on the process",
    "next-to-guarded-write": "leaves another write to one process",
}


class OneFileManyWriters(Rule):
    """Every process writes the same file.

    On a shared file system the processes overwrite each other, and the file may be corrupt. Object stores refuse or
    bill each write.

    ## Reports
    Writes are `open(path, "w")`, `gfile.GFile(path, "w")` and `path.write_text(...)` that all processes run.

    - `barrier` (likely): a write in a function that has a barrier (`sync_global_devices`) and a condition on the
      process.
    - `next-to-guarded-write` (possible): a write in a function in which only one process makes another write.
    - `per-process-content` (likely): a write of text or data that depends on the process index, to a path that does
      not.

    ## Write instead
    Write under `if jax.process_index() == 0:`, or put the process index into the path. A file that marks completion is
    written after the barrier.

    ## Limits
    Not reported: a path that names the process, the host or a shard, and programs whose processes PyTorch starts.
    """

    code = "SL814"
    name = "one-file-many-writers"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("barrier", "per-process-content")
    assumptions: ClassVar[Mapping[str, str]] = {
        "barrier": "The processes share the file system.",
        "per-process-content": "The processes share the file system.",
    }
    triggers = (
        Calls(*_OPEN, *_SAVES, file_says=(*_NEAR, "sync_", _ROLE)),
        Methods("write_text", "write_bytes", file_says=(*_NEAR, "sync_", _ROLE)),
    )
    fixes = "none"

    @detector("call")
    def report_opened(self, site: Site) -> Finding | None:
        """A file that all processes open for writing, or save."""
        path = self._written_path(site)
        return (
            self._report_write(site, path, adds=site.api in _SAVES or self._is_appending(site))
            if path is not None
            else None
        )

    @detector("method")
    def report_path(self, site: Site) -> Finding | None:
        """A path that all processes write to by its method."""
        func = site.call.func
        return self._report_write(site, func.value, adds=False) if isinstance(func, ast.Attribute) else None

    def _report_write(self, site: Site, path: ast.expr, adds: bool) -> Finding | None:
        function = site.scope.enclosing_function()
        if _uses_torch_processes(site) or function is None or site.program.project.is_test(site.file.path):
            return None
        if is_process_in_path(site.program, Place(site.file, path)):
            return None
        own = self._find_process_difference(site, path)
        if own is not None and not self._is_run_by_one_process(site, function):
            return self._report_torn_file(site, path, own)
        form = self._sharing_evidence(site, function) if not adds else ""
        if not form or self._is_run_by_one_process(site, function):
            return None
        what = site.shown(path)
        return site.finding(
            site.call,
            f"All processes write `{what}`: on a shared file system they overwrite each other.",
            help="write the file under `if jax.process_index() == 0:`"
            + (", before the barrier" if form == "barrier" else ""),
            form=form,
            why=f"`{function.name}` {_WHY[form]}",
        )

    def _find_process_difference(self, site: Site, path: ast.expr) -> ProcessDifference | None:
        """Return the source of the difference between processes in the written contents."""
        if (
            not site.wants("per-process-content")
            or _may_test_process(site)
            or not multi_process_evidence(site.program, site.file)
        ):
            return None
        found = (find_process_difference(site.program, Place(site.file, one)) for one in written_contents(site, path))
        return next((one for one in found if one is not None and one.what in _WHOSE), None)

    def _report_torn_file(self, site: Site, path: ast.expr, difference: ProcessDifference) -> Finding:
        made = path_expression_in_file(site, path)
        what = site.shown(path)
        where = f" of line {site.call.lineno}" if made is not None else ""
        return site.finding(
            made if made is not None else site.call,
            f"Only one process's data survive in `{what}`: each process writes different data to the same path.",
            help="write `jax.process_index()` into the path",
            form="per-process-content",
            why=f"`{shorten_text(difference.place)}`{describe_position(difference.place, site.file, site.call)} is "
            f"{difference.what}, and the path{where} is the "
            "same on all processes",
        )

    def _is_appending(self, site: Site) -> bool:
        mode = self._mode_argument(site)
        return isinstance(mode, ast.Constant) and str(mode.value).startswith("a")

    def _mode_argument(self, site: Site) -> ast.expr | None:
        mode = next((one.value for one in site.call.keywords if one.arg == "mode"), None)
        at = _OPEN.get(site.api, 1)
        return site.call.args[at] if mode is None and at < len(site.call.args) else mode

    def _written_path(self, site: Site) -> ast.expr | None:
        """The path that is written; None where it is read."""
        first = next(iter(site.call.args), None)
        if site.api in _SAVES and isinstance(first, ast.Name):
            if any(one.kind not in ("assign", "param") for one in lookup_bindings(site.file, first, first.id)[0]):
                return None  # an open file
        mode = self._mode_argument(site)
        written = site.api in _SAVES or (
            isinstance(mode, ast.Constant) and str(mode.value).startswith(("w", "x", "a"))
        )
        return site.call.args[0] if written and site.call.args else None

    def _sharing_evidence(self, site: Site, function: Scope) -> str:
        """Return the form of evidence that the function leaves a write to one process: a barrier or a guarded write;
        "" without it.
        """
        file = site.file
        calls = file.walk_scope(function).calls
        meets = any(
            isinstance(one, Api) and one.name.endswith(_BARRIER)
            for call in calls
            for one in options(site.value(call.func))
        )
        tests = self._find_process_tests(site, function)
        if meets and tests:
            return "barrier"
        others = (one for test in tests for one in walk_nodes(test) if isinstance(one, ast.Call))
        return "next-to-guarded-write" if any(_WRITES.search(site.text(one.func)) for one in others) else ""

    def _find_process_tests(self, site: Site, function: Scope) -> list[ast.If]:
        """The statements by which a function leaves something to one process."""
        tests = [one for one in function.statements if isinstance(one, ast.If)]
        return [one for one in tests if evaluate_on_first_process(site.program, Place(site.file, one.test)) is not None]

    def _is_run_by_one_process(self, site: Site, function: Scope) -> bool:
        """Return whether one process alone comes here, or to each call of the function."""
        if left_to_one(site.program, Place(site.file, site.call)):
            return True
        ends = [one for one in site.program.flow.ends(site.file, function.node).found if one.kind == "called"]
        return bool(ends) and all(find_process_guard(site.program, one.place.file, one.place.node) for one in ends)


def _uses_torch_processes(site: Site) -> bool:
    """True if the processes of a file are those of PyTorch alone.

    The file imports what starts them and no jax, or code that runs with it imports PyTorch and nothing imports jax.
    """
    source = site.file.source.text
    if _IMPORTS_JAX.search(source):
        return False
    if _STARTS_TORCH.search(source):
        return True
    imported, path = site.program.project.is_module_imported, site.file.path
    return any(imported(path, one) for one in _TORCH) and not any(imported(path, one) for one in _JAX)


def _may_test_process(site: Site) -> bool:
    """True if a condition around a site may be about processes, by its words."""
    return any(
        isinstance(outer, ast.If | ast.IfExp)
        and "__name__" not in site.text(outer.test)
        and any(_ONE.search(one) and not _STEP.search(one) for one in _conjuncts_of_test(site, outer.test))
        for outer in site.file.ancestors(site.syntax)
    )


def _conjuncts_of_test(site: Site, test: ast.expr) -> list[str]:
    """The conditions that must all hold for one to do so, as text."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return [site.text(one) for one in parts]

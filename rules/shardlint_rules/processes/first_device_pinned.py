"""SL808."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from shardlint.facts.processes.conditions import (
    multi_process_evidence,
    process_question,
    reads_process_state,
    runs_code_with,
)
from shardlint.facts.processes.replaced_functions import calls_replacement
from shardlint.facts.repeated import is_benchmark
from shardlint.facts.unused import is_unused_in_application
from shardlint.model.values import Constant, Place
from shardlint.rules_api.rule import (
    Calls,
    Certainty,
    Edit,
    Finding,
    Fix,
    Harm,
    Methods,
    Rule,
    Safety,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import is_exception_caught
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes._device_numbers import indexed_by_name_number
from shardlint_rules.processes._device_uses import Use, find_device_uses
from shardlint_rules.processes._memory_of_all import whose_devices_asked
from shardlint_rules.processes.single_process_code import left_to_one
from shardlint_rules.processes.value_uses import reads_of_same_value

_LOCAL = "jax.local_devices"
_ASKED = "a file that runs with this one reads the process index or the process count"
_SHARED_CPUS = ">=0.4.21"
"""The releases of jax whose `jax.devices("cpu")` lists the CPUs of all processes."""
# Helpers of libraries that call jax.distributed.initialize.
_STARTED = ("JaxDistributedConfig.initialize",)
# Without these nothing needs all devices of a list to be of this process.
_OF_LISTS = ("memory_stats", "live_buffers")


class _Basis(NamedTuple):
    """Why a program is taken to be for several processes."""

    form: str
    """The form of the findings; empty where the use of the device gives it."""
    why: str
    unstarted: bool = False
    """A device of `jax.devices("cpu")` is meant, and nothing in sight calls `jax.distributed.initialize`."""


class FirstDevicePinned(Rule):
    """An array is placed on a device of process 0, or `memory_stats()` is called on devices of other processes.

    `jax.devices()` lists the devices of all processes, and the first device belongs to process 0. On every other
    process an array on `jax.devices()[0]` can't be read
    (`RuntimeError: Fetching value for jax.Array that spans non-addressable devices`), and `memory_stats()` raises. With
    one process there is no symptom.

    ## Reports
    Reported only in multi-process programs: this file, or one that runs with it, calls `jax.distributed.initialize`,
    `jax.process_index` or `jax.process_count`. shardlint follows devices through names, attributes and helpers.

    - `placed` (likely): `jax.devices()[0]`, `jax.devices("cpu")[0]` or `next(iter(jax.devices()))` in `device_put`,
      `SingleDeviceSharding`, `device=` or as the default device.
    - `memory-stats` (possible): `memory_stats()` of such a device, or of each of `jax.devices()`.
    - `count-in-other-file` (likely): code as in `placed` or `memory-stats`, if only another file calls
      `jax.process_index` or `jax.process_count`.
    - `cpu-without-initialize` (possible): `jax.devices("cpu")` in code as in `placed`, if no code in the project calls
      `jax.distributed.initialize`. Until something calls it, the list has only the CPUs of this process.
    - `mesh` (likely): `device.memory_stats()` in a loop over the devices of a mesh, or over a parameter that gets the
      devices of all processes.
    - `by-number` (likely): a device of `jax.devices(kind)` chosen by the number in a name such as "cuda:1".

    ## Fix
    Writes `jax.local_devices()`. Safe: with one process both lists are equal.

    ## Limits
    Not reported: tests, benchmarks and notebooks, unused functions of a project that is not an installable package,
    programs that replace `jax.devices`, and `jax.devices("cpu")` before jax 0.4.21, which lists only the CPUs of this
    process.
    """

    code = "SL808"
    name = "first-device-pinned"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("count-in-other-file", "placed", "mesh", "by-number")
    assumptions: ClassVar[Mapping[str, str]] = {"mesh": "The mesh has devices of more than one process."}
    triggers = (Calls("jax.devices"), Methods("memory_stats", "live_buffers"))
    in_tests = False
    fixes = "safe"

    @detector("call")
    def find_pinned(self, site: Site) -> Iterator[Finding]:
        """Each device of the list that is pinned, unless a test has replaced the list."""
        found = [*self._find_pinned_devices(site)]
        if found and not calls_replacement(site.program, Place(site.file, site.call), "jax", "devices"):
            yield from found

    def _find_pinned_devices(self, site: Site) -> Iterator[Finding]:
        """The findings for a call of `jax.devices`, as far as it is jax's."""
        of_cpu = _is_cpu_only(site)
        if of_cpu and not site.allows("jax", _SHARED_CPUS):
            return
        yield from self._report_numbered_device(site)
        taken = list(_first_device_expressions(site, site.call))
        if not taken and not any(site.is_named_anywhere(word) for word in _OF_LISTS):
            return
        basis = self._find_multi_process_evidence(site)
        if basis is None or self._is_single_process_code(site, site.call):
            return
        if is_benchmark(site.file, site.call) or is_unused_in_application(site.program, Place(site.file, site.call)):
            return
        for node in taken:
            use = next(self._find_reached_uses(site, node), None)
            if use is not None:
                yield self._report_first_device(site, node, use, basis)
        each = (
            one
            for one in self._find_reached_uses(site, site.call)
            if one.kind == "memory-stats" and not is_exception_caught(*one.place)
        )
        asked = next(each, None) if not taken else None
        if asked is not None:
            yield self._report_device_list(site, asked, basis)

    def _report_numbered_device(self, site: Site) -> Iterator[Finding]:
        """A device of the list of all by the number in its name."""
        node = indexed_by_name_number(site) if site.wants("by-number") else None
        basis = self._find_multi_process_evidence(site) if node is not None else None
        if node is None or basis is None or basis.unstarted or self._is_single_process_code(site, site.call):
            return
        yield site.finding(
            node,
            f"`{site.shown(node)}` can be a device of another process, which this process can't use.",
            help="write `jax.local_devices(backend=kind)[n]`, with the kind and the number of the name",
            form=basis.form or "by-number",
            why="jax.devices() lists the devices of all processes, and the number comes from a name with a colon; "
            f"{basis.why}",
        )

    @detector("method", finds="mesh")
    def report_memory(self, site: Site) -> Finding | None:
        """Memory that is asked of each device of a mesh, or of a list that callers give."""
        whose = whose_devices_asked(site) if not is_exception_caught(site.file, site.call) else ""
        if not whose or not _speaks_of_processes(site) or self._is_single_process_code(site, site.call):
            return None
        return site.finding(
            site.call,
            f"`{site.shown(site.call)}` raises with several processes: the loop includes devices of other processes.",
            help="skip devices whose `process_index` is not `jax.process_index()`",
            why=whose,
        )

    def _find_multi_process_evidence(self, site: Site) -> _Basis | None:
        """Return the evidence that the program is for several processes."""
        question, evidence = process_question(site.file), multi_process_evidence(site.program, site.file)
        started = evidence == "initialized" or any(
            runs_code_with(site.program, site.file, word) for word in _STARTED
        )
        unstarted = _is_cpu_only(site) and not started
        cpus = "; after jax.distributed.initialize, jax.devices lists the CPUs of all processes" if unstarted else ""
        form = "cpu-without-initialize" if unstarted else ""
        if form and not site.wants(form):
            return None
        if question is not None:
            asked = question.func if isinstance(question, ast.Call) else question
            text = asked.name if isinstance(asked, ast.alias) else site.text(asked)
            line = Place(site.file, asked).line
            shows = f"line {line} (`{text}`) shows that this file is for several processes"
            return _Basis(form, f"{shows}{cpus}", unstarted)
        if evidence == "initialized":
            return _Basis("", "a file that runs with this one calls jax.distributed.initialize")
        form = form or "count-in-other-file"
        return _Basis(form, f"{_ASKED}{cpus}", unstarted) if evidence and site.wants(form) else None

    def _find_reached_uses(self, site: Site, node: ast.expr) -> Iterator[Use]:
        """The uses that all processes come to, but those that are traced: there a target is a hint to the compiler."""
        for use in find_device_uses(site.program, Place(site.file, node)):
            region = site.program.region(use.place.file, use.place.node)
            if region.traced != "always" and not left_to_one(site.program, use.place):
                yield use

    def _is_single_process_code(self, site: Site, node: ast.AST) -> bool:
        """Return whether process 0 alone comes here, or a program of one process alone."""
        return left_to_one(site.program, Place(site.file, node))

    def _report_first_device(self, site: Site, node: ast.expr, use: Use, basis: _Basis) -> Finding:
        """One device of the list, and what is done with it."""
        where = f"{use.what}{_describe_use_place(site, node, use)}"
        return site.finding(
            node,
            f"`{site.shown(node)}` belongs to {_find_owner(node)}{_describe_condition(basis)}; "
            "other processes cannot read its arrays.",
            help="write `jax.local_devices()[0]`",
            fix=self._write_fix(site, node),
            form=basis.form or use.kind,
            why=f"{where} raises on other processes; {basis.why}"
            if use.kind == "memory-stats"
            else f"reading {where} raises RuntimeError on other processes; {basis.why}",
        )

    def _report_device_list(self, site: Site, use: Use, basis: _Basis) -> Finding:
        """The list itself, passed to a function that needs devices of this process."""
        return site.finding(
            site.call,
            f"With several processes this raises: `{site.shown(site.call)}` also lists devices of other processes"
            f"{_describe_condition(basis)}.",
            help="write `jax.local_devices()`",
            fix=self._write_fix(site, site.call),
            form=basis.form or use.kind,
            why=f"{use.what}{_describe_use_place(site, site.call, use)} needs devices of this process, and {basis.why}",
        )

    def _write_fix(self, site: Site, node: ast.expr) -> Fix | None:
        inside = any(part is site.call for part in walk_nodes(node))
        call = site.call
        if not inside or len(call.args) + len(call.keywords) > 1:
            return None
        backend = call.args[0] if call.args else call.keywords[0].value if call.keywords else None
        if isinstance(backend, ast.Starred) or (call.keywords and call.keywords[0].arg != "backend"):
            return None
        spelled, imports = site.spell(_LOCAL)
        given = f"backend={site.text(backend)}" if backend is not None else ""
        edits: list[Edit] = [site.replace(call, f"{spelled}({given})"), *imports]
        whole = site.text(node).replace(site.text(call), f"{spelled}({given})", 1)
        return site.fix(Safety.SAFE, f"write {' '.join(whole.split())}", edits)


def _speaks_of_processes(site: Site) -> bool:
    """Return whether code that runs with the file distinguishes processes or their devices."""
    program, file = site.program, site.file
    return (
        reads_process_state(file)
        or bool(multi_process_evidence(program, file))
        or runs_code_with(program, file, _LOCAL)
    )


def _describe_condition(basis: _Basis) -> str:
    return " once `jax.distributed.initialize` has run" if basis.unstarted else ""


def _find_owner(node: ast.expr) -> str:
    """The process whose device an expression is."""
    is_first = not isinstance(node, ast.Subscript) or (
        isinstance(node.slice, ast.Constant) and node.slice.value == 0
    )
    return "process 0" if is_first else "one process"


def _describe_use_place(site: Site, node: ast.expr, use: Use) -> str:
    """The place of a use that stands on another line, in brackets."""
    if use.place.file is not site.file:
        return f" ({use.place.file.path.name}:{use.place.line})"
    return "" if use.place.line == node.lineno else f" (line {use.place.line})"


def _is_cpu_only(site: Site) -> bool:
    """Return whether `jax.devices` is asked for the CPUs alone."""
    named = [one.value for one in site.call.keywords if one.arg == "backend"]
    backend = next(iter((*site.call.args, *named)), None)
    return backend is not None and site.value(backend) == Constant("cpu")


def _first_device_expressions(site: Site, call: ast.Call) -> Iterator[ast.expr]:
    """The expressions that are one device of a list."""
    file = site.file
    for listed in reads_of_same_value(file, call):
        parent = file.parent(listed)
        match parent:
            case ast.Subscript(value=value) if value is listed and _is_number(parent.slice):
                yield parent
            case ast.Call(func=ast.Name(id="iter")):
                outer = file.parent(parent)
                if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "next":
                    yield outer
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name() as one, ast.Starred()])]):
                yield one


def _is_number(index: ast.expr) -> bool:
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        index = index.operand
    return isinstance(index, ast.Constant) and isinstance(index.value, int)

"""SL804."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import (
    find_process_guard,
    multi_process_evidence,
    reads_process_state,
)
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes._count_conflicts import CountConflict, find_count_conflicts
from shardlint_rules.processes._given_devices import find_devices_parameter
from shardlint_rules.processes._leading_dimensions import find_row_count
from shardlint_rules.processes._mesh_grids import find_grid_conflicts
from shardlint_rules.processes._shares import describe_wrong_share
from shardlint_rules.processes.single_process_code import is_reached_with_one_process

_ALL, _OWN = "jax.device_count", "jax.local_device_count"
_LISTS = ("jax.devices", "jax.local_devices")
# What maps over the devices of a process, or prepares what is mapped.
_MAPPING = ("pmap", "jax_utils", "common_utils")


class LocalAndGlobalCounts(Rule):
    """Code counts the devices of all processes where it needs the devices of one process, or the reverse.

    Each process then loads, reshapes or skips the wrong number of examples. With one process there is no symptom.

    ## Reports
    `devices-parameter` and `count-by-itself` are always reported. All other forms are reported only in multi-process
    programs: the code calls `jax.distributed.initialize`, `jax.process_index` or `jax.process_count`.

    - `leading` (likely): `jax.device_count()` rows for `pmap`, which raises:
      `jax.random.split(key, jax.device_count())`, `x.reshape((jax.device_count(), ...))`,
      `dataset.batch(jax.device_count())`.
    - `devices-parameter` (likely): `jax.device_count()` or `len(jax.devices())` in a function that uses the devices of
      its parameter `devices`.
    - `data-shares` (likely): a slice of the data per process that is computed from a number of devices:
      `ds.shard(jax.device_count(), jax.process_index())`, `files[jax.process_index() :: jax.device_count()]`.
    - `mesh` (likely): a mesh of all devices whose shape is computed from the devices of one process, or the reverse.
      It raises, or leaves devices out.
    - `twice` (likely): `jax.process_count() * jax.device_count()`, also as two sizes of a shape.
    - `offset` (likely): `jax.process_index() * jax.device_count()` as the first device of a process.
    - `count-by-itself` (likely): a count that is divided by itself or compared with itself:
      `jax.device_count() // len(jax.devices())`.

    ## Fix
    Writes the other count, if the finding marks a call of `device_count` or `local_device_count`. Unsafe: numbers
    change with several processes.

    ## Limits
    Not reported: notebooks, which run on one process, and a conflict that only a name shows, such as
    `per_host_batch_size`.
    """

    code = "SL804"
    name = "local-and-global-counts"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("leading", "devices-parameter", "data-shares", "mesh", "twice", "offset", "count-by-itself")
    assumptions: ClassVar[Mapping[str, str]] = {
        "devices-parameter": "A caller passes other devices.",
        "data-shares": "A process has more than one device.",
        "mesh": "The program runs on more than one process.",
        "twice": "The program runs on more than one process.",
        "offset": "The number is that of a device.",
        "count-by-itself": "The two counts are meant to differ.",
    }
    triggers = (Calls(_ALL, _OWN, "jax.process_count"), Calls(*_LISTS, function_says=("len(",)))
    in_tests = False
    fixes = "unsafe"

    @detector("call", of=(_ALL, _OWN, *_LISTS), finds="devices-parameter")
    def report_other_devices(self, site: Site) -> Finding | None:
        """A count of other devices than those that the function is called with."""
        name = find_devices_parameter(site)
        if name is None or _runs_alone(site):
            return None
        return site.finding(
            site.call,
            f"`{site.shown(site.call)}` ignores `{name}`, the devices that this function works with.",
            help=f"write `len({name})`",
            why=f"a caller may pass other devices as `{name}`, and the number is then wrong",
        )

    @detector("call", of=(_ALL, _OWN), finds="data-shares")
    def report_slices(self, site: Site) -> Finding | None:
        """A number of slices of which a process takes the one of its index."""
        asks_index = site.file.contains_text("process_index") or site.file.contains_text("host_id")
        message = describe_wrong_share(site) if asks_index else None
        if message is None or _runs_alone(site):
            return None
        return site.finding(
            site.call,
            message,
            label="a number of devices",
            help="write `jax.process_count()` for the number of slices and `jax.process_index()` for the slice",
            why="the slice is chosen by the index of the process, and a process has several devices",
        )

    @detector("call", of=_ALL, finds="leading")
    def report_rows(self, site: Site) -> Finding | None:
        """Rows for a `pmap`, as many as all processes have devices."""
        made = find_row_count(site)
        if made is None or _runs_alone(site):
            return None
        # Named in the code: that Flax modules can be used with pmap stands in many a docstring.
        file = site.file
        maps = any(
            file.contains_text(word) and (file.find_mentions(word) or file.names_imported_from(word))
            for word in _MAPPING
        )
        if not maps and not (made.paired and site.is_named_anywhere("jax.pmap")):
            return None
        if _takes_own_rows(site, made.count) or not _asks_processes(site):
            return None
        if find_process_guard(site.program, site.file, site.call) is not None:
            return None
        where = "this file" if maps else "code that runs with it"
        return site.finding(
            site.call,
            f"With several processes `pmap` raises: `{made.by}` makes one row per global device, not per local device.",
            label="the devices of all processes",
            help=f"write `{site.spell(_OWN)[0]}()`",
            fix=self._write_count(site, _OWN),
            harm=Harm.CRASH,
            why=f"jax.device_count() counts the devices of all processes, and pmap in {where} maps over those of one",
        )

    @detector("call")
    def find_conflicts(self, site: Site) -> Iterator[Finding]:
        """The first conflict in each function that a count is used in."""
        if _runs_alone(site):
            return
        done: set[ast.AST | None] = set()
        for found in (*find_count_conflicts(site), *find_grid_conflicts(site)):
            function = site.file.evaluation_scope(found.node).enclosing_function()
            where = function.node if function is not None else None
            # A mesh of jax.local_devices() in a file that asks for its process may be meant for one host.
            asks = (
                bool(multi_process_evidence(site.program, site.file))
                if found.form == "mesh"
                else _asks_processes(site)
            )
            if where not in done and (asks or found.form == "count-by-itself"):
                done.add(where)
                yield self._report_conflict(site, found)

    def _report_conflict(self, site: Site, count_conflict: CountConflict) -> Finding:
        fix: Fix | None = None
        if count_conflict.instead:
            same = (site.api in (_ALL, _OWN)) is count_conflict.instead.endswith("count")
            fix = self._write_count(site, count_conflict.instead) if count_conflict.node is site.call and same else None
        return site.finding(
            count_conflict.node,
            count_conflict.message,
            help=count_conflict.help or f"write `{site.spell(count_conflict.instead)[0]}()`",
            fix=fix,
            form=count_conflict.form,
            why=count_conflict.why,
        )

    def _write_count(self, site: Site, instead: str) -> Fix | None:
        """Writes another count in place of the call."""
        if site.call.args or site.call.keywords:
            return None
        spelled, imports = site.spell(instead)
        edits = [site.replace(site.call, f"{spelled}()"), *imports]
        return site.fix(Safety.UNSAFE, f"write {spelled}()", edits, why="numbers change with several processes")


def _runs_alone(site: Site) -> bool:
    return is_reached_with_one_process(site.program, Place(site.file, site.call))


def _asks_processes(site: Site) -> bool:
    """True if code of the program asks for processes or starts them."""
    return reads_process_state(site.file) or bool(multi_process_evidence(site.program, site.file))


def _takes_own_rows(site: Site, count: ast.expr) -> bool:
    """Return whether the process indexes the rows where they are counted or made: it takes its own rows of those for
    all.
    """
    functions = (site.scope.enclosing_function(), site.file.evaluation_scope(count).enclosing_function())
    return any(
        isinstance(part, ast.Subscript) and "process_index" in site.text(part.slice)
        for function in functions
        if function is not None
        for part in walk_nodes(function.node)
    )

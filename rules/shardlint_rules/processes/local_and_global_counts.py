"""SL804."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import asks_itself, guard, several
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._count_conflicts import CountConflict, find_count_conflicts
from shardlint_rules.processes._given_devices import given_devices
from shardlint_rules.processes._grids import grids
from shardlint_rules.processes._leading import leading
from shardlint_rules.processes._shares import share
from shardlint_rules.processes.alone import alone

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

    - `leading` (likely): `jax.device_count()` rows for `pmap`: `jax.random.split(key, jax.device_count())`,
      `x.reshape((jax.device_count(), ...))`, `dataset.batch(jax.device_count())`.
    - `devices-parameter` (likely): `jax.device_count()` or `len(jax.devices())` in a function that uses the devices of
      its parameter `devices`.
    - `data-shares` (likely): a slice of the data per process that is computed from a number of devices:
      `ds.shard(jax.device_count(), jax.process_index())`, `files[jax.process_index() :: jax.device_count()]`.
    - `mesh` (likely): a mesh of all devices whose shape is computed from the devices of one process, or the reverse.
    - `twice` (likely): `jax.process_count() * jax.device_count()`, also as two sizes of a shape.
    - `offset` (likely): `jax.process_index() * jax.device_count()` as the first device of a process.
    - `count-by-itself` (likely): a count divided by itself or compared with itself:
      `jax.device_count() // len(jax.devices())`.

    ## Fix
    Writes the other count, if the finding is at the call that counts. Unsafe: numbers change with several processes.

    ## Limits
    shardlint does not infer a count from a name such as `per_host_batch_size`.
    """

    code = "SL804"
    name = "local-and-global-counts"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("leading", "devices-parameter", "data-shares", "mesh", "twice", "offset", "count-by-itself")
    assumptions: ClassVar[Mapping[str, str]] = {
        "data-shares": "A process has more than one device.",
        "mesh": "The program runs on more than one process.",
        "twice": "The program runs on more than one process.",
        "offset": "The number is that of a device.",
        "count-by-itself": "The two counts are meant to differ.",
    }
    triggers = (Calls(_ALL, _OWN, "jax.process_count"), Calls(*_LISTS, function_says=("len(",)))
    in_tests = False
    fixes = "unsafe"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a count."""
        if alone(site.program, Place(site.file, site.call)):
            return
        reported = list(self._counted(site)) if site.api != "jax.process_count" else []
        yield from reported or self._conflicts(site)

    def _conflicts(self, site: Site) -> Iterator[Finding]:
        """At most one finding in each function that a count is used in."""
        done: set[ast.AST | None] = set()
        for found in (*find_count_conflicts(site), *grids(site)):
            function = site.file.home(found.node).function()
            where = function.node if function is not None else None
            # A mesh of jax.local_devices() in a file that asks for its process may be meant for one host.
            asks = bool(several(site.program, site.file)) if found.form == "mesh" else _asks(site)
            if where not in done and (asks or found.form == "count-by-itself"):
                done.add(where)
                yield self._conflict(site, found)

    def _conflict(self, site: Site, found: CountConflict) -> Finding:
        fix: Fix | None = None
        if found.instead:
            same = (site.api in (_ALL, _OWN)) is found.instead.endswith("count")
            fix = self._write_count(site, found.instead) if found.node is site.call and same else None
        return site.finding(
            found.node,
            found.message,
            help=found.help or f"write `{site.spell(found.instead)[0]}()`",
            fix=fix,
            form=found.form,
            why=found.why,
        )

    def _counted(self, site: Site) -> Iterator[Finding]:
        """The findings about a call of `jax.device_count` or `jax.local_device_count`, or a list of devices."""
        if site.wants("devices-parameter"):
            yield from self._given(site)
        if site.api not in (_ALL, _OWN):
            return
        asks_index = site.file.says("process_index") or site.file.says("host_id")
        part = share(site) if asks_index and site.wants("data-shares") else None
        if part is not None:
            yield site.finding(
                site.call,
                part,
                label="a number of devices",
                help="write `jax.process_count()` for the number of slices and `jax.process_index()` for the slice",
                form="data-shares",
                why="the slice is chosen by the index of the process, and a process has several devices",
            )
        elif site.api == _ALL:
            yield from self._leading(site)

    def _given(self, site: Site) -> Iterator[Finding]:
        """A count of other devices than those that the function is called with."""
        name = given_devices(site)
        if name is not None:
            yield site.finding(
                site.call,
                f"`{site.shown(site.call)}` ignores `{name}`, the devices that this function works with.",
                help=f"write `len({name})`",
                form="devices-parameter",
                why=f"a caller may pass other devices as `{name}`, and the number is then wrong",
            )

    def _leading(self, site: Site) -> Iterator[Finding]:
        """Rows for a `pmap`, as many as all processes have devices."""
        made = leading(site)
        if made is None:
            return
        # Named in the code: that Flax modules can be used with pmap stands in many a docstring.
        file = site.file
        maps = any(file.says(word) and (file.mentions(word) or file.taken_from(word)) for word in _MAPPING)
        if not maps and not (made.paired and site.anywhere("jax.pmap")):
            return
        if (
            _takes_own_rows(site, made.count)
            or not _asks(site)
            or guard(site.program, site.file, site.call) is not None
        ):
            return
        where = "this file" if maps else "code that runs with it"
        spelled, _ = site.spell(_OWN)
        yield site.finding(
            site.call,
            f"With several processes `pmap` raises: `{made.by}` makes one row per global device, not per local device.",
            label="the devices of all processes",
            help=f"write `{spelled}()`",
            fix=self._write_count(site, _OWN),
            form="leading",
            why=f"jax.device_count() counts the devices of all processes, and pmap in {where} maps over those of one",
        )

    def _write_count(self, site: Site, instead: str) -> Fix | None:
        """Writes another count in place of the call."""
        if site.call.args or site.call.keywords:
            return None
        spelled, imports = site.spell(instead)
        edits = [site.replace(site.call, f"{spelled}()"), *imports]
        return site.fix(Safety.UNSAFE, f"write {spelled}()", edits, why="numbers change with several processes")


def _asks(site: Site) -> bool:
    """True if code of the program asks for processes or starts them."""
    return asks_itself(site.file) or bool(several(site.program, site.file))


def _takes_own_rows(site: Site, count: ast.expr) -> bool:
    """Return whether the process indexes the rows where they are counted or made: it takes its own rows of those for
    all.
    """
    functions = (site.scope.function(), site.file.home(count).function())
    return any(
        isinstance(part, ast.Subscript) and "process_index" in site.text(part.slice)
        for function in functions
        if function is not None
        for part in walk(function.node)
    )

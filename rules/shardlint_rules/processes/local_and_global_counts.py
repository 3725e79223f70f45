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
from shardlint_rules.processes._count_uses import rows_lost
from shardlint_rules.processes._given_devices import given_devices
from shardlint_rules.processes._grids import grids
from shardlint_rules.processes._leading import leading
from shardlint_rules.processes._shares import Share, share
from shardlint_rules.processes.alone import alone

_ALL, _OWN = "jax.device_count", "jax.local_device_count"
_LISTS = ("jax.devices", "jax.local_devices")
# What maps over the devices of a process, or prepares what is mapped.
_MAPPING = ("pmap", "jax_utils", "common_utils")


class LocalAndGlobalCounts(Rule):
    """The devices of all processes are counted where those of one process are needed, or the reverse.

    Each process then loads, reshapes or skips the wrong number of examples. With one process nothing shows.

    ## Reports
    Only in programs for several processes:

    - `leading` (likely): rows for `pmap` that are as many as `jax.device_count()`: `jax.random.split(key,
      jax.device_count())`, `x.reshape((jax.device_count(), ...))`, `dataset.batch(jax.device_count())`.
    - `given` (likely): a count of all devices in a function that works with the devices of a parameter `devices`.
    - `shares` (likely): the part of a process computed with a number of devices: `ds.shard(jax.device_count(),
      jax.process_index())`, `files[jax.process_index() :: jax.device_count()]`.
    - `rows` (likely): `x.reshape(jax.local_device_count(), x.shape[0] // jax.device_count(), ...)`.
    - `mesh` (likely): a mesh shape that fits the devices of one process, for the devices of all, or the reverse.
    - `twice` (likely): `jax.process_count() * jax.device_count()`, also as sizes of a shape.
    - `offset` (likely): `jax.process_index() * jax.device_count()` as the first device of a process.
    - `itself` (likely): a count compared with itself: `jax.device_count() // len(jax.devices())`.
    - `asserted` (likely): `assert jax.device_count() == 8`.

    ## Fix
    Writes the other count, if the count stands at the place of the finding. The fix is unsafe: numbers change on
    several processes.

    ## Limits
    Names such as `per_host_batch_size` are not compared with the counts.
    """

    code = "SL804"
    name = "local-and-global-counts"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("leading", "given", "shares", "rows", "mesh", "twice", "offset", "itself", "asserted")
    assumptions: ClassVar[Mapping[str, str]] = {
        "shares": "A process has more than one device.",
        "rows": "The program runs on more than one process.",
        "mesh": "The program runs on more than one process.",
        "twice": "The program runs on more than one process.",
        "offset": "The number is that of a device.",
        "itself": "The two counts are meant to differ.",
        "asserted": "The program runs on more than one host of this size.",
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
            if where not in done and (asks or found.form == "itself"):
                done.add(where)
                yield self._conflict(site, found)

    def _conflict(self, site: Site, found: CountConflict) -> Finding:
        fix: Fix | None = None
        help_ = found.help
        if found.instead:
            spelled, imports = site.spell(found.instead)
            help_ = f"write {spelled}()"
            same = (site.api in (_ALL, _OWN)) is found.instead.endswith("count")
            if found.node is site.call and same and not site.call.args and not site.call.keywords:
                edits = [site.replace(site.call, f"{spelled}()"), *imports]
                fix = site.fix(
                    Safety.UNSAFE, f"write {spelled}()", edits, why="numbers change with several processes"
                )
        return site.finding(found.node, found.message, help=help_, fix=fix, form=found.form, why=found.why)

    def _counted(self, site: Site) -> Iterator[Finding]:
        """The findings about a call of `jax.device_count` or `jax.local_device_count`, or a list of devices."""
        if site.wants("given"):
            yield from self._given(site)
        if site.api not in (_ALL, _OWN):
            return
        asks_index = site.file.says("process_index") or site.file.says("host_id")
        part = share(site) if asks_index and site.wants("shares") else None
        if part is not None:
            yield self._share(site, part)
        elif site.api == _ALL:
            yield from self._leading(site)
            yield from self._lost(site)
            yield from self._asserted(site)

    def _share(self, site: Site, part: Share) -> Finding:
        return site.finding(
            site.call,
            part.message,
            label="a number of devices",
            help="write jax.process_count() for the number of parts and jax.process_index() for the part",
            form="shares",
            why="the part is chosen by the index of the process, and a process has several devices",
        )

    def _given(self, site: Site) -> Iterator[Finding]:
        """A count of other devices than those that the function is called with."""
        name = given_devices(site)
        if name is not None:
            yield site.finding(
                site.call,
                f"`{site.shown(site.call)}` ignores `{name}`, the devices that this function works with.",
                help=f"write len({name})",
                form="given",
                why=f"a caller may pass other devices as `{name}`, and the number is then wrong",
            )

    def _asserted(self, site: Site) -> Iterator[Finding]:
        """`assert jax.device_count() == 8`."""
        test = _asserted_count(site)
        if test is not None and (asks_itself(site.file) or several(site.program, site.file) == "initialized"):
            yield self._found(
                site,
                f"`{site.text(test)}` fails on a second host.",
                "asserted",
                "jax.device_count() counts the devices of all processes, and the program is for several",
            )

    def _lost(self, site: Site) -> Iterator[Finding]:
        """`x.reshape(jax.local_device_count(), x.shape[0] // jax.device_count(), ...)`."""
        lost = rows_lost(site) if site.wants("rows") else None
        if lost is not None:
            yield self._found(
                site,
                "On several processes this reshape raises or loses rows: "
                f"`{site.shown(lost.left)}` is divided by all devices.",
                "rows",
                "the array gets a row for each of jax.local_device_count()",
                fixed=any(one is site.call for one in walk(lost)),
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
        if _takes_own_rows(site) or not _asks(site) or guard(site.program, site.file, site.call) is not None:
            return
        who = "this file maps" if maps else "code that runs with it maps"
        yield self._found(
            site,
            f"On several processes `{made.by}` makes more rows than pmap takes.",
            "leading",
            f"jax.device_count() counts the devices of all processes, and {who} with pmap over those of one",
        )

    def _found(self, site: Site, message: str, form: str, why: str, fixed: bool = True) -> Finding:
        spelled, imports = site.spell(_OWN)
        edits = [site.replace(site.call, f"{spelled}()"), *imports]
        fix: Fix | None = None
        if fixed and not site.call.args and not site.call.keywords:
            fix = site.fix(
                Safety.UNSAFE, f"write {spelled}()", edits, why="numbers change with several processes"
            )
        return site.finding(
            site.call,
            message,
            label="the devices of all processes",
            help=f"write {spelled}()",
            fix=fix,
            form=form,
            why=why,
        )


def _asks(site: Site) -> bool:
    """True if code of the program asks for processes or starts them."""
    return asks_itself(site.file) or bool(several(site.program, site.file))


def _takes_own_rows(site: Site) -> bool:
    """Whether the function around indexes something by the process: each takes its own rows of what is for all."""
    function = site.scope.function()
    return function is not None and any(
        isinstance(part, ast.Subscript) and "process_index" in site.text(part.slice)
        for part in walk(function.node)
    )


def _asserted_count(site: Site) -> ast.expr | None:
    """`assert jax.device_count() == 8`."""
    parent = site.file.parent(site.call)
    if not isinstance(parent, ast.Compare) or len(parent.ops) != 1:
        return None
    numbers = [
        one
        for one in (parent.left, parent.comparators[0])
        if isinstance(one, ast.Constant) and isinstance(one.value, int)
    ]
    is_assert = isinstance(site.file.parent(parent), ast.Assert)
    if is_assert and isinstance(parent.ops[0], ast.Eq) and numbers and numbers[0].value in (4, 8):
        return parent
    return None

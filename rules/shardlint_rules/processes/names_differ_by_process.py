"""SL813."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import ASKING_SAYS, SEVERAL_SAYS, asks_itself, guard, several
from shardlint.model.process.whole_program import FLAX_SAVE
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.processes._own_clock import CLOCKS, DATES, Decided, decided
from shardlint_rules.processes.alone import alone, branches
from shardlint_rules.processes.own_data import Differing, own_data
from shardlint_rules.processes.starting import at, short

_BARRIER = "jax.experimental.multihost_utils.sync_global_devices"
_MANAGER = "orbax.checkpoint.CheckpointManager"


class NamesDifferByProcess(Rule):
    """A name or a condition that all processes must share is made of the time or a random number.

    The processes then raise or hang.

    ## Reports
    Only in programs for several processes. Names, helpers, f-strings, arguments and fields are followed.

    - proven: the name of a barrier, made of the time, a random number, a uuid, or the index of the process:
      `sync_global_devices(f"saved {time.time()}")`.
    - `folder` (likely): the same in the directory of an Orbax `CheckpointManager`.
    - `clock` (likely): a condition on the time that ends a loop, or leads to a call, in which all processes wait for
      each other: `if time.time() - last > 600: manager.save(step, ...)`.

    ## Write instead
    Take the value from process 0 with `multihost_utils.broadcast_one_to_all`, or from the configuration.
    """

    code = "SL813"
    name = "names-differ-by-process"
    harm = Harm.CRASH
    likely = ("folder", "clock")
    assumptions: ClassVar[Mapping[str, str]] = {
        "folder": "The program runs on more than one process.",
        "clock": "The processes do not reach the limit in the same step.",
    }
    triggers = (Calls(_BARRIER, _MANAGER), Calls(*CLOCKS, *DATES, file_says=("jax", "orbax", "multihost")))
    project_says = SEVERAL_SAYS
    or_file_says = ASKING_SAYS
    in_tests = False
    fixes = "none"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an argument."""
        if site.api not in (_BARRIER, _MANAGER):
            yield from self._clock(site)
            return
        named = [one.value for one in site.call.keywords if one.arg in ("name", "directory")]
        for node in (*site.call.args[:1], *named):
            found = own_data(site.program, Place(site.file, node))
            if found is not None and self._matters(site):
                yield self._finding(site, node, found)

    def _finding(self, site: Site, node: ast.expr, found: Differing) -> Finding:
        waits = site.api == _BARRIER
        return site.finding(
            node,
            "`sync_global_devices` raises AssertionError: the name differs between processes."
            if waits
            else "Saving hangs: each process passes `CheckpointManager` a different directory.",
            label=f"{found.what}, different in each process",
            help="leave it out of the name, or take it from process 0 by multihost_utils.broadcast_one_to_all",
            form="" if waits else "folder",
            certainty=Certainty.PROVEN if waits else Certainty.POSSIBLE,
            why=f"all processes must pass the same, and it is made of `{short(found.place)}`"
            f"{at(found.place, site.file, node)}, {found.what}",
        )

    def _clock(self, site: Site) -> Iterator[Finding]:
        """A condition that each process answers by its own clock, on a way to what they do together."""
        if not site.wants("clock") or not self._matters(site):
            return
        found = decided(site)
        if found is None or not _enough(site, found):
            return
        waits = found.waits.name.rpartition(".")[2]
        waits = f"`{waits}`" if waits.isidentifier() else waits
        start = (*found.waits.through, found.waits.place)[0]
        yield site.finding(
            found.test,
            f"This can hang: each process decides by its own clock, and {waits} waits for all of them.",
            help="let process 0 decide with multihost_utils.broadcast_one_to_all(...), or count steps",
            form="clock",
            certainty=Certainty.POSSIBLE,
            why=f"one process {'goes on' if found.ends else 'comes'} to {site.where(start)} where another one does not"
            + (f"; {found.waits.why}" if found.waits.why else ""),
        )

    def _matters(self, site: Site) -> bool:
        if not asks_itself(site.file) and several(site.program, site.file) != "initialized":
            return False
        place = Place(site.file, site.call)
        return guard(site.program, site.file, site.call) is None and not alone(site.program, place)


def _enough(site: Site, found: Decided) -> bool:
    """Whether the call under the condition is told well enough: not by a name alone."""
    if found.waits.name == FLAX_SAVE:
        return False
    if found.waits.sure and not found.waits.computes:
        return branches(site.program, found.waits) == []
    return found.waits.computes or "annotation" in found.waits.why

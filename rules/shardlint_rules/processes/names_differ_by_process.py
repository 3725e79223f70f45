"""SL813."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.processes.collective_calls import FLAX_SAVE
from shardlint.facts.processes.conditions import ASKING_SAYS, SEVERAL_SAYS
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.processes._own_clock import CLOCKS, DATES, Decided, find_clock_decision
from shardlint_rules.processes.per_process_values import INDEX, find_process_difference
from shardlint_rules.processes.single_process_code import (
    conditions_around_call,
    is_for_several_processes,
    left_to_one,
)
from shardlint_rules.processes.started_backend import describe_position, shorten_text

_BARRIER = "jax.experimental.multihost_utils.sync_global_devices"
# What must be the same in all processes: the message and the form of the finding.
_MANAGER = "orbax.checkpoint.CheckpointManager"
_METADATA = "jax.experimental.xla_metadata.set_xla_metadata"


class NamesDifferByProcess(Rule):
    """A name or a condition differs between processes: it depends on the time, a random number or the process index.

    The processes then raise or hang. Metadata only make each process compile another program.

    ## Reports
    Reported only in multi-process programs: the code calls `jax.distributed.initialize`, `jax.process_index` or
    `jax.process_count`. shardlint follows names, helpers, f-strings, arguments and fields.

    - proven: `sync_global_devices(name)` with a name made from the time, a random number, a uuid or the process index:
      `sync_global_devices(f"saved {time.time()}")`.
    - `folder` (likely): an Orbax `CheckpointManager` whose directory is made from the time, a random number or a uuid.
    - `xla-metadata` (likely): `set_xla_metadata(...)` with such a value, which becomes part of the compiled program.
    - `clock` (likely): a condition on the time that decides whether to make a call in which all processes wait:
      `if time.time() - last > 600: manager.save(step, ...)`. Also a condition on the time that ends a
      loop with such a call.

    ## Write instead
    Take the name from the configuration, or build it from a number of process 0:
    `int(multihost_utils.broadcast_one_to_all(np.int32(time.time())))`. `broadcast_one_to_all` takes numbers and arrays
    of numbers. A string raises TypeError.
    """

    code = "SL813"
    name = "names-differ-by-process"
    harm = Harm.CRASH
    likely = ("folder", "xla-metadata", "clock")
    assumptions: ClassVar[Mapping[str, str]] = {
        "folder": "The program runs on more than one process.",
        "xla-metadata": "The program runs on more than one process.",
        "clock": "The processes do not reach the limit in the same step.",
    }
    triggers = (Calls(_BARRIER, _MANAGER, _METADATA), Calls(*CLOCKS, *DATES, file_says=("jax", "orbax", "multihost")))
    project_says = SEVERAL_SAYS
    or_file_says = ASKING_SAYS
    in_tests = False
    fixes = "none"

    @detector("call", of=_BARRIER)
    def report_barrier(self, site: Site) -> Finding | None:
        """The name of a barrier."""
        message = "`sync_global_devices` raises AssertionError: the name differs between processes."
        return _make_finding(site, "name", message)

    @detector("call", of=_MANAGER, finds="folder")
    def report_folder(self, site: Site) -> Finding | None:
        """The folder of checkpoints."""
        message = "Saving hangs: each process passes `CheckpointManager` a different directory."
        return _make_finding(site, "directory", message, but=INDEX)

    @detector("call", of=_METADATA, finds="xla-metadata")
    def report_metadata(self, site: Site) -> Finding | None:
        """The metadata of a compiled program."""
        message = "Each process compiles a different program: the metadata differ between them."
        return _make_finding(site, "", message, but=INDEX)

    @detector("call", finds="clock")
    def report_condition(self, site: Site) -> Finding | None:
        """A condition that each process answers by its own clock, on a way to what they do together."""
        found = find_clock_decision(site) if _runs_on_several(site) else None
        if found is None or not _has_evidence(site, found):
            return None
        waits = found.waits.name.rpartition(".")[2]
        waits = f"`{waits}`" if waits.isidentifier() else waits
        start = (*found.waits.through, found.waits.place)[0]
        return site.finding(
            found.test,
            f"{waits[0].upper()}{waits[1:]} can hang: each process decides by its local clock whether to call it.",
            help="let process 0 decide with `multihost_utils.broadcast_one_to_all(...)`, or count steps",
            why=f"the call at {site.where(start)} waits for all processes, and some may skip this call"
            + (f"; {found.waits.why}" if found.waits.why else ""),
        )


def _make_finding(site: Site, keyword: str, message: str, but: str = "") -> Finding | None:
    """The finding of an argument that differs, the first one or one by keyword: any, if no keyword is named."""
    named = [one.value for one in site.call.keywords if not keyword or one.arg == keyword]
    for node in (*site.call.args[:1], *named):
        found = find_process_difference(site.program, Place(site.file, node))
        if found is not None and found.what != but and _runs_on_several(site):
            return site.finding(
                node,
                message,
                label=f"{found.what}, different in each process",
                help="write a name that does not depend on time or randomness, or build it from a number that "
                "`multihost_utils.broadcast_one_to_all` takes from process 0 (it takes no strings)",
                why=f"all processes must pass the same value, and this value depends on `{shorten_text(found.place)}`"
                f"{describe_position(found.place, site.file, node)}, {found.what}",
            )
    return None


def _runs_on_several(site: Site) -> bool:
    """Return whether the code runs on several processes."""
    one = left_to_one(site.program, Place(site.file, site.call))
    return is_for_several_processes(site.program, site.file) and not one


def _has_evidence(site: Site, decided: Decided) -> bool:
    """Return whether the call under the condition has enough evidence: not a name alone."""
    if decided.waits.name == FLAX_SAVE:
        return False
    if decided.waits.sure and not decided.waits.computes:
        return conditions_around_call(site.program, decided.waits) == []
    return decided.waits.computes or "annotation" in decided.waits.why

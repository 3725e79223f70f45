"""SL813."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import (
    ASKING_SAYS,
    INDEX,
    SEVERAL_SAYS,
    asks_itself,
    guard,
    is_index,
    several,
)
from shardlint.model.process.whole_program import FLAX_SAVE
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._compiled_in import compiled_in
from shardlint_rules.processes._own_clock import CLOCKS, DATES, Decided, decided
from shardlint_rules.processes.alone import alone, branches
from shardlint_rules.processes.differing import Differing, differing
from shardlint_rules.processes.starting import at, short

_BARRIER = "jax.experimental.multihost_utils.sync_global_devices"
_METADATA = "jax.experimental.xla_metadata.set_xla_metadata"
_MANAGER = "orbax.checkpoint.CheckpointManager"
_KEYS = ("jax.random.PRNGKey", "jax.random.key")


class NamesDifferByProcess(Rule):
    """A name, a constant or a condition that all processes must share is made of the time or a random number.

    The processes then raise, hang, or compute with different parameters.

    ## Reports
    Only in programs for several processes. Names, helpers, f-strings, arguments and fields are followed.

    - proven: the name of a barrier, made of the time, a random number, a uuid, or the index of the process:
      `sync_global_devices(f"saved {time.time()}")`.
    - `program` (likely): the same in `set_xla_metadata(...)`, which becomes part of the compiled program.
    - `folder` (likely): the same in the directory of an Orbax `CheckpointManager`.
    - `clock` (likely): a condition on the time that ends a loop, or leads to a call, in which all processes wait for
      each other: `if time.time() - last > 600: manager.save(step, ...)`.
    - `mapped` (likely): `jax.process_index()` in arithmetic of a function that calls `jax.lax.axis_index` or `psum`.
    - `compiled` (possible): the same in any function that is always traced.
    - `seed` (possible): a random key of the time: `jax.random.key(int(time.time()))`.

    ## Write instead
    Take the value from process 0 with `multihost_utils.broadcast_one_to_all`, or from the configuration.
    """

    code = "SL813"
    name = "names-differ-by-process"
    harm = Harm.SILENT
    likely = ("program", "folder", "clock", "mapped")
    assumptions: ClassVar[Mapping[str, str]] = {
        "program": "The program runs on more than one process.",
        "folder": "The program runs on more than one process.",
        "clock": "The processes do not reach the limit in the same step.",
        "mapped": "The mapped function runs on more than one process.",
    }
    triggers = (
        Calls(_BARRIER, _METADATA, *_KEYS, _MANAGER),
        Calls(*INDEX, file_says=("jax",)),
        Calls(*CLOCKS, *DATES, file_says=("jax", "orbax", "multihost")),
    )
    project_says = SEVERAL_SAYS
    or_file_says = ASKING_SAYS
    in_tests = False
    fixes = "none"
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an argument."""
        if site.api in INDEX:
            yield from self._index(site)
            return
        if site.api in (*CLOCKS, *DATES):
            yield from self._clock(site)
            return
        if site.api == _BARRIER:
            yield from self._numbered(site)
        for node in self._asked(site):
            found = differing(site.program, Place(site.file, node))
            if found is not None and self._matters(site):
                yield self._finding(site, node, found)
                return

    def _index(self, site: Site) -> Iterator[Finding]:
        """The index of this process, as a constant of a compiled program."""
        how = compiled_in(site)
        if how is not None:
            text = site.text(site.call)
            yield site.finding(
                site.call,
                f"`{text}` becomes a constant of the program, so each process compiles a different program.",
                help="call it outside of the compiled function and pass the number as an array",
                form=how.form,
                certainty=Certainty.POSSIBLE,
                why=f"{how.told}, and an array declared replicated then differs between processes",
            )

    def _numbered(self, site: Site) -> Iterator[Finding]:
        """The index of this process in the name of a barrier."""
        for node in self._asked(site):
            named = (ast.Name, ast.Attribute, ast.Call)
            parts = [one for one in walk(node) if isinstance(one, named)]
            own = next((one for one in parts if is_index(site.program, Place(site.file, one))), None)
            if own is not None and self._matters(site):
                yield site.finding(
                    node,
                    "`sync_global_devices` raises AssertionError: the name differs between processes.",
                    label=f"`{site.text(own)}` differs by process",
                    help="leave the index out of the name",
                    why="all processes must pass the same name",
                    harm=Harm.CRASH,
                )
                return

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
            harm=Harm.CRASH,
            form="clock",
            certainty=Certainty.POSSIBLE,
            why=f"one process {'goes on' if found.ends else 'comes'} to {site.where(start)} where another one does not"
            + (f"; {found.waits.why}" if found.waits.why else ""),
        )

    def _asked(self, site: Site) -> list[ast.expr]:
        call = site.call
        if site.api == _METADATA:
            return [one.value for one in call.keywords]
        keywords = [one.value for one in call.keywords if one.arg in ("name", "seed", "directory")]
        return [*call.args[:1], *keywords]

    def _matters(self, site: Site) -> bool:
        if not asks_itself(site.file) and several(site.program, site.file) != "initialized":
            return False
        place = Place(site.file, site.call)
        return guard(site.program, site.file, site.call) is None and not alone(site.program, place)

    def _finding(self, site: Site, node: ast.expr, found: Differing) -> Finding:
        form, message, harm = self._effect(site)
        return site.finding(
            node,
            message,
            label=f"{found.what}, different in each process",
            help="take it from process 0 by multihost_utils.broadcast_one_to_all, or from the configuration",
            harm=harm,
            form=form,
            certainty=Certainty.POSSIBLE if form else Certainty.PROVEN,
            why=f"it is made of `{short(found.place)}`{at(found.place, site.file, node)}, {found.what}",
        )

    def _effect(self, site: Site) -> tuple[str, str, Harm]:
        """The form, the message and the harm for the function that gets the value."""
        if site.api == _BARRIER:
            return "", "`sync_global_devices` raises AssertionError: the name differs between processes.", Harm.CRASH
        if site.api == _METADATA:
            return "program", "Each process compiles a different program: the metadata differ between them.", Harm.CRASH
        if site.api in _KEYS:
            name = site.text(site.call.func)
            return "seed", f"`{name}` makes a different key in each process: drawn parameters differ.", Harm.SILENT
        message = "Saving hangs: each process passes `CheckpointManager` a different directory."
        return "folder", message, Harm.CRASH


def _enough(site: Site, found: Decided) -> bool:
    """Whether the call under the condition is told well enough: not by a name alone."""
    if found.waits.name == FLAX_SAVE:
        return False
    if found.waits.sure and not found.waits.computes:
        return branches(site.program, found.waits) == []
    return found.waits.computes or "annotation" in found.waits.why

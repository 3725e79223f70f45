"""SL813."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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
from shardlint_rules.processes._folders import DATED, FOLDERS, beside, dated, folder_of, made_of
from shardlint_rules.processes._own_clock import CLOCKS, DATES, Decided, decided
from shardlint_rules.processes.alone import alone, branches
from shardlint_rules.processes.differing import Differing, differing
from shardlint_rules.processes.starting import at, short

_BARRIER = "jax.experimental.multihost_utils.sync_global_devices"
_METADATA = "jax.experimental.xla_metadata.set_xla_metadata"
_KEYS = ("jax.random.PRNGKey", "jax.random.key")


_APART = "a checkpoint of which each has a part is never whole."
_HANGS = "what Orbax waits for in it never comes"


class NamesDifferByProcess(Rule):
    """What all processes must agree in is made of the time or of a random number, so each has its own.

    ## What it does
    Reports a time, a random number, a uuid or the id of a process, also through names, helpers, f-strings, arguments
    that calls in sight give, and fields of configurations and their defaults, in

    - the name of a barrier: `sync_global_devices(f"saved {time.time()}")`, there also the index of the process;
    - what becomes part of the compiled program: `set_xla_metadata(...)`;
    - the folder of a checkpoint manager (likely), reported where the time is read;
    - a key: `jax.random.key(int(time.time()))`;
    - a condition that ends a loop, or leads to a call, in which all processes wait for each other (likely):
      `if time.time() - last > 600: manager.save(step, ...)`, `while time.time() < deadline: state = step(state)`, also
      where a name, a property or a helper holds the answer, or the function returns early by it; reported at the
      comparison where one method of a class asks another one of it;
    - the folder in which each process writes a part named by its index, in a function that meets at a barrier (likely).

    It reports, too, `jax.process_index()` that a compiled function computes with: in a function that names a mapped
    axis itself (`jax.lax.axis_index`, `psum`), and possible in any that is always traced. The number is a constant of
    the program. What a trace only logs or asks for in a condition is left alone.

    Only in programs for several processes. A value that was broadcast is the same everywhere, and what one process
    alone does may have its own name.

    ## Why it hurts
    The barrier raises: its name is compared. Programs that differ wait for each other or compute nonsense. A
    checkpoint of which every process has another folder is never complete. Keys that differ make parameters differ
    that are declared the same, and nothing says so.

    ## Evidence
    Two processes on jax 0.12: the barrier raises `AssertionError: sync_global_devices name mismatch`; a replicated
    `x + jax.process_index()` of a jitted function is 0 on one and 1 on the other; a manager in another folder on each
    does not end. Twelve commits in
    nine repositories fixed one of them, among them MaxText, orbax, jaxline and levanter.
    """

    code = "SL813"
    name = "names-differ-by-process"
    harm = Harm.SILENT
    likely = ("program", "mapped", "clock", "folder", "folder-parts")
    triggers = (
        Calls(_BARRIER, _METADATA, *_KEYS, *FOLDERS),
        Calls(*INDEX, file_says=("jax",)),
        Calls(*CLOCKS, file_says=("jax", "orbax", "multihost")),
        Calls(*DATED, file_says=("jax", "orbax")),
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
        if site.api in CLOCKS:
            yield from self._clock(site)
            yield from self._dated(site)
            return
        if site.api in DATED:
            yield from self._dated(site)
            if site.api in DATES:
                yield from self._clock(site)
            return
        if site.api == _BARRIER:
            yield from self._numbered(site)
        for node in self._asked(site):
            found = differing(site.program, Place(site.file, node))
            if found is not None and self._matters(site):
                if site.api not in FOLDERS or beside(site, found) or not dated(site, found):
                    yield self._finding(site, node, found)
                return

    def _index(self, site: Site) -> Iterator[Finding]:
        """The index of this process, as a constant of a compiled program."""
        how = compiled_in(site)
        if how is not None:
            yield site.finding(
                site.call,
                f"{how.told}: this is a constant of the program, and each process compiles another one. What is "
                "declared the same on all devices is not.",
                label="a constant, another in each process",
                help="ask outside of the compiled function, and hand the number in as an array",
                form=how.form,
                certainty=Certainty.POSSIBLE,
                why="the function names a mapped axis"
                if how.form == "mapped"
                else "the function is always traced",
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
                    "sync_global_devices compares the names and raises: all processes must give the same one.",
                    label=f"`{site.text(own)}` is another number in each process",
                    help="leave the index out of the name",
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
        start = (*found.waits.through, found.waits.place)[0]
        where = site.where(start)
        yield site.finding(
            found.test,
            f"The clocks of processes are not read at the same moment: one {'goes on' if found.ends else 'comes here'} "
            f"where another does not, and {waits} at {where} waits for all of them: the program hangs.",
            label="each process answers by its own clock",
            help="let process 0 decide: multihost_utils.broadcast_one_to_all(...), or count steps",
            harm=Harm.CRASH,
            form="clock",
            certainty=Certainty.POSSIBLE,
            why=found.waits.why or "the program is one for several processes",
        )

    def _dated(self, site: Site) -> Iterator[Finding]:
        """A time or an id of which another function makes the folder of a checkpoint."""
        if not site.wants("folder", "folder-saved", "folder-parts"):
            return
        folder = folder_of(site) if self._matters(site) else None
        if folder is None:
            return
        where = (
            f"{folder.file}:{folder.line}" if folder.file != site.file.path.name else f"line {folder.line}"
        )
        yield site.finding(
            made_of(site),
            f"It becomes the folder of a checkpoint (`{folder.text[:60]}` at {where}), and each process has its own: "
            + (_APART if folder.what == "parts" else f"{_HANGS}."),
            label="another in each process",
            harm=Harm.SILENT if folder.what == "parts" else Harm.CRASH,
            help="take it from process 0 by multihost_utils.broadcast_one_to_all, or from the configuration",
            form="folder" if folder.what == "manager" else f"folder-{folder.what}",
            certainty=Certainty.POSSIBLE,
            why="the program is one for several processes"
            if folder.what != "parts"
            else "each process writes its part there, by its index, and they meet at a barrier",
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
        source = f"`{short(found.place)}`"
        where = at(found.place, site.file, node)
        form, says, harm = self._says(site)
        sure = site.api == _BARRIER
        return site.finding(
            node,
            f"{source}{where} is {found.what}, another in each process: {says}",
            label=f"{found.what}, another in each process",
            help="take it from process 0 by multihost_utils.broadcast_one_to_all, or from the configuration",
            harm=harm,
            form="" if sure else form,
            certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
            why="" if sure else "the program is one for several processes",
        )

    def _says(self, site: Site) -> tuple[str, str, Harm]:
        if site.api == _BARRIER:
            return "barrier", "sync_global_devices compares the names and raises.", Harm.CRASH
        if site.api == _METADATA:
            return "program", "they compile programs that differ.", Harm.CRASH
        if site.api in _KEYS:
            return "seed", "what they draw differs where it is taken for the same.", Harm.SILENT
        return "folder", f"each has a folder of its own for the checkpoint, and {_HANGS}.", Harm.CRASH


def _enough(site: Site, found: Decided) -> bool:
    """Whether the call under the condition is told well enough: not by a name alone."""
    if found.waits.name == FLAX_SAVE:
        return False
    if found.waits.sure and not found.waits.computes:
        return branches(site.program, found.waits) == []
    return found.waits.computes or "annotation" in found.waits.why

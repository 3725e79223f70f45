"""SL808."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import asks_itself, guard, several
from shardlint.model.values import Constant, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Methods, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._device_numbers import by_number
from shardlint_rules.processes._device_uses import Use, uses
from shardlint_rules.processes._memory_of_all import of_all
from shardlint_rules.processes.alone import alone

_LOCAL = "jax.local_devices"
_TELLING = (
    "jax.process_index",
    "jax.process_count",
    "jax.distributed",
    "jax.local_devices",
    "multihost_utils",
)
_ASKED = "a file that runs with this one asks for the processes there are"
_CPUS = "and CPUs are of all of them once jax.distributed is started"
_CPU = f"this file asks for the processes there are, {_CPUS}"
_CPU_ASKED = f"{_ASKED}, {_CPUS}"
_CPU_ALONE = "nothing in sight asks for processes; CPUs are of all of them once jax.distributed is started"
_OF_CPUS = (_CPU, _CPU_ASKED, _CPU_ALONE)
# Helpers of libraries that call jax.distributed.initialize.
_STARTED = ("JaxDistributedConfig.initialize",)
# Without these nothing needs all devices of a list to be of this process.
_OF_LISTS = ("memory_stats", "device_put_sharded", "device_put_replicated", "flax.jax_utils")


class FirstDevicePinned(Rule):
    """An array is placed on the first of all devices, which is one of another process everywhere but on process 0.

    ## What it does
    Reports `jax.devices()[0]`, `jax.devices("cpu")[0]` and `next(iter(jax.devices()))` where the device is what an
    array is put on (`device_put`, `SingleDeviceSharding`, `device=`), the default device, or what memory statistics are
    asked of, and `jax.devices()` of which a loop asks each for its memory; also through names, attributes, helpers and
    their parameters. Before jax 0.10 also `jax.devices()` that come to `device_put_sharded`, `device_put_replicated`,
    `flax.jax_utils.replicate` or `prefetch_to_device`. Only in programs for several processes: something that runs
    with the file calls `jax.distributed.initialize`, or asks which process it is. Where
    `jax.devices("cpu")` is asked and nothing in sight calls `jax.distributed.initialize`, without which a process knows
    no CPUs but its own, the finding says so; and it is possible where nothing asks for the process either. Possible,
    too: `jax.devices("cpu")` itself in a file that asks for the processes, and `device.memory_stats()` in a loop over
    the devices of a mesh, or over a parameter that callers give those of all processes. Also a device that is taken
    from `jax.devices(kind)` by the number in a name as "cuda:1".

    ## Why it hurts
    `jax.devices()` lists the devices of all processes, those of process 0 first. On the other processes what is put on
    its first lies in the memory of a process they cannot read: `RuntimeError: Fetching value for jax.Array that spans
    non-addressable devices`, or an array that meets no other. `memory_stats()` raises. With one process nothing shows.
    Since jaxlib 0.4.21 (its changelog) `jax.devices("cpu")`, too, lists the devices of all processes of a distributed
    job; those who write jax put `jax.local_devices(backend="cpu")` in its place in many public projects then.

    ## Fix safety
    Safe: `jax.local_devices()` lists the devices of this process, and with one process they are all there are.

    ## Evidence
    Two processes of four devices on jax 0.12: process 0 computes, process 1 raises where it reads the array. On 0.5.3
    and 0.8.3 the functions that put a part on each device raise on every process ("Cannot copy array to
    non-addressable device"); with flax 0.12.12 on jax 0.12 they make one array over all of them. Recorded
    in scenic, big_vision, paxml, EasyDeL, skrl and torch_xla, of which most fixed several places.
    """

    code = "SL808"
    name = "first-device-pinned"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("asked", "cpu-asked", "placed", "mesh", "by-number", "listed")
    triggers = (Calls("jax.devices"), Methods("memory_stats", "live_buffers"))
    in_tests = False
    fixes = "safe"
    forms = ("call", "method")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a device that is pinned."""
        if site.form == "method":
            yield from self._memory(site)
            return
        yield from self._by_number(site)
        taken = list(_first_of(site, site.call))
        if not taken and site.wants("cpu-listed"):
            yield from self._cpus(site)
        if not taken and not any(site.anywhere(word) for word in _OF_LISTS):
            return
        why = self._several(site)
        if why is None or self._of_one(site, site.call):
            return
        each = (one for one in self._reaching(site, site.call) if _of_list(site, one))
        asked = next(each, None) if not taken else None
        if asked is not None:
            yield self._finding(site, site.call, asked, why, "some of these devices are another process's")
        for node in taken:
            use = next((one for one in self._reaching(site, node) if one.kind != "all"), None)
            if use is not None:
                yield self._finding(site, node, use, why)

    def _by_number(self, site: Site) -> Iterator[Finding]:
        """A device of the list of all by the number in its name."""
        node = by_number(site) if site.wants("by-number") else None
        why = self._several(site) if node is not None else None
        if node is None or why is None or why in _OF_CPUS or self._of_one(site, site.call):
            return
        yield site.finding(
            node,
            "the number in a name is no place in this list",
            "jax.devices() lists the devices of all processes, those of process 0 first: with several this is "
            "mostly a device of another one, and the ids of devices need not count from 0.",
            help="look among jax.local_devices() for the one with this id",
            form="by-number" if why != _ASKED else "asked",
            why=f"the number comes from a name with a colon, and {why}",
        )

    def _cpus(self, site: Site) -> Iterator[Finding]:
        """The list of CPUs itself, beside what is of this process alone."""
        parent = site.file.parent(site.call)
        counted = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"
        if counted or isinstance(parent, ast.Subscript) or not _of_cpu(site) or not asks_itself(site.file):
            return
        if self._of_one(site, site.call):
            return
        yield site.finding(
            site.call,
            "the CPUs of all processes",
            "Where jax.distributed.initialize has run these are the CPUs of all processes, those of process 0 first.",
            help="ask for jax.local_devices(backend=\"cpu\"), if those of this process are meant",
            fix=self._fix(site, site.call),
            form="cpu-listed",
            why=_CPU,
        )

    def _memory(self, site: Site) -> Iterator[Finding]:
        """Memory that is asked of each device of a mesh, or of a list that callers give."""
        if not site.wants("mesh") or _caught(Place(site.file, site.call)):
            return
        whose = of_all(site)
        if not whose or not any(site.anywhere(word) for word in _TELLING):
            return
        if self._of_one(site, site.call):
            return
        yield site.finding(
            site.call,
            "some of these devices are another process's",
            "With several processes some of these devices are another process's, and asking them for their memory "
            "raises.",
            help="leave out those whose process_index is not jax.process_index()",
            form="mesh",
            why=whose,
        )

    def _several(self, site: Site) -> str | None:
        """What shows that there are several processes."""
        itself, told = asks_itself(site.file), several(site.program, site.file)
        if site.file.source.in_cells and not itself and told != "initialized":
            return None  # a notebook runs on one host
        if told != "initialized" and _of_cpu(site) and not any(map(site.anywhere, _STARTED)):
            # A CPU client that is made without it knows the devices of its own process alone, and the finding says so.
            return _CPU if itself else _CPU_ASKED if told else _CPU_ALONE if site.wants("cpu-alone") else None
        if itself:
            return "this file asks for the processes there are"
        if told == "initialized":
            return "a file that runs with this one calls jax.distributed.initialize"
        return _ASKED if told and site.wants("asked", "listed") else None

    def _reaching(self, site: Site, node: ast.expr) -> Iterator[Use]:
        for use in uses(site.program, Place(site.file, node)):
            if guard(site.program, use.place.file, use.place.node) is None and not self._other(site, use):
                yield use

    def _other(self, site: Site, use: Use) -> bool:
        """Whether one process alone comes to a use, or it is traced: there a target is a hint to the compiler."""
        region = site.program.region(use.place.file, use.place.node)
        return region.traced == "always" or alone(site.program, use.place)

    def _of_one(self, site: Site, node: ast.AST) -> bool:
        """Whether process 0 alone comes here, or a program of one process alone."""
        return guard(site.program, site.file, node) is not None or alone(site.program, Place(site.file, node))

    def _finding(self, site: Site, node: ast.expr, use: Use, why: str, those: str = "") -> Finding:
        where = (
            ""
            if use.place.file is site.file and use.place.line == node.lineno
            else f" (line {use.place.line})"
            if use.place.file is site.file
            else f" ({use.place.file.path.name}:{use.place.line})"
        )
        if use.kind == "all":
            says = f"With several processes {those}, and {use.what}{where} raises: it needs devices of this process."
        elif use.kind == "own":
            says = f"On all processes but the first this device is another process's, and {use.what}{where} raise."
            if those:
                says = f"With several processes {those}, and {use.what}{where} raise."
        else:
            says = (
                f"On all processes but the first this device is another process's: {use.what}{where} on it there "
                "cannot be read."
                if use.what != "the default device"
                else f"On all processes but the first this device is another process's: what is computed with it as "
                f"the default device{where} cannot be read there."
            )
        if why in _OF_CPUS:
            says = f"Where jax.distributed.initialize has run: {says[0].lower()}{says[1:]}"
        return site.finding(
            node,
            "the devices of all processes" if those else "a device of process 0",
            says,
            help=f"{'give' if use.kind == 'all' else 'ask'} those of jax.local_devices()"
            if those
            else "take the first of jax.local_devices()",
            fix=self._fix(site, node),
            form=_form(use, why, bool(those and site.anywhere(_LOCAL))),
            why=why if why != _ASKED or not those else "files that run with this one take jax.local_devices()",
        )

    def _fix(self, site: Site, node: ast.expr) -> Fix | None:
        inside = any(part is site.call for part in walk(node))
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


def _form(use: Use, why: str, beside: bool) -> str:
    """The form of a finding; `beside` says that files that run with this one take the devices of their process."""
    if why in (_CPU_ASKED, _CPU_ALONE):
        return "cpu-asked" if why == _CPU_ASKED else "cpu-alone"
    if why != _ASKED:
        return use.kind
    return "listed" if beside else "asked"


def _of_cpu(site: Site) -> bool:
    """Whether `jax.devices` is asked for the CPUs alone."""
    named = [one.value for one in site.call.keywords if one.arg == "backend"]
    backend = next(iter((*site.call.args, *named)), None)
    return backend is not None and site.value(backend) == Constant("cpu")


def _first_of(site: Site, call: ast.Call) -> Iterator[ast.expr]:
    """The expressions that are one device of a list."""
    file, parent = site.file, site.file.parent(call)
    match parent:
        case ast.Subscript(value=value) if value is call and _is_index(parent.slice):
            yield parent
        case ast.Call(func=ast.Name(id="iter")):
            outer = file.parent(parent)
            if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id == "next":
                yield outer
        case ast.Assign(targets=[ast.Name(id=name) as target]):
            for mention in file.mentions_in(file.home(target), name):
                owner = file.parent(mention)
                if isinstance(owner, ast.Subscript) and owner.value is mention and _is_index(owner.slice):
                    if isinstance(mention, ast.Name) and _is_list(site, mention):
                        yield owner
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name() as one, ast.Starred()])]):
            yield one


def _of_list(site: Site, use: Use) -> bool:
    """Whether a use needs all devices of a list to be of this process, and raises where they are not."""
    if use.kind == "all":
        return site.allows("jax", "<0.10")  # from then on what flax has left of it takes any devices
    return use.kind == "own" and not _caught(use.place)


def _caught(place: Place) -> bool:
    """Whether what a place raises is caught at once."""
    return any(isinstance(outer, ast.Try) and outer.handlers for outer in place.file.ancestors(place.node))


def _is_list(site: Site, name: ast.Name) -> bool:
    found = options(site.value(name))
    return all(getattr(one, "api", "") == "jax.devices" for one in found)


def _is_index(index: ast.expr) -> bool:
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        index = index.operand
    return isinstance(index, ast.Constant) and isinstance(index.value, int)

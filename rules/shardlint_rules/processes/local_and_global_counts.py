"""SL804."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.process.processes import asks_itself, guard, several
from shardlint.model.process.scales import key
from shardlint.model.values import CallResult, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._given_devices import given_devices
from shardlint_rules.processes._grids import grids
from shardlint_rules.processes._leading import leading
from shardlint_rules.processes._lists import LISTS, LISTS_SAY, listed
from shardlint_rules.processes._passed_on import GIVES_ALL, TAKES_ALL, passed_on
from shardlint_rules.processes._quotients import rows_lost, shared_by_one
from shardlint_rules.processes._shares import Share, share
from shardlint_rules.processes._uses import disagreements, undivided
from shardlint_rules.processes._whose import Contradiction, contradictions, name_of
from shardlint_rules.processes.alone import alone

_ALL, _OWN = "jax.device_count", "jax.local_device_count"
_BATCH = r"(?:batch(?:_?size)?|bsz?|examples)"
_LOCAL = regex(
    rf"(?i)(?:^|_)(?:local|host|process|proc)(?:_\w+)?_{_BATCH}|{_BATCH}(?:_\w+)?_(?:per_)?(?:host|process|proc|local)(?:$|_)"
)
_GLOBAL = regex(
    rf"(?i)(?:^|_)(?:global|overall)(?:_\w+)?_{_BATCH}|{_BATCH}(?:_\w+)?_(?:global|overall)(?:$|_)"
)
_PROCESS = regex(r"(?i)(?:^|_)per_?(?:process|host)|^(?:process|host)_(?:local_)?batch")
_PER_DEVICE = regex(r"(?i)per_?(?:device|core|chip|gpu|tpu|replica)")
_FEEDING = regex(r"(?i)local|host|data|loader|input|feed|shard|pmap|split|replicate|reshape|iterator")
# What maps over the devices of a process, or prepares what is mapped.
_MAPPING = ("pmap", "jax_utils", "common_utils")


@dataclass(frozen=True)
class _Product:
    """A number of examples: the whole expression, what is multiplied, and the name that it gets."""

    node: ast.expr
    factors: tuple[ast.expr, ...]
    name: str


class LocalAndGlobalCounts(Rule):
    """The devices of all processes are counted where those of one are meant, or the other way round.

    ## What it does
    Reports, in programs for several processes,

    - a batch of one process (`host_batch_size`, `local_batch_size`) that is multiplied by `jax.device_count()`;
    - a global batch (`global_batch_size`) that is multiplied by `jax.local_device_count()`, and not by the processes;
    - what is said to be that of one process (`per_process`) and is divided by a count of devices;
    - a global batch (`global_batch`) that is divided by `jax.local_device_count()`, and by no count of processes;
    - rows for `pmap` whose number is `jax.local_device_count()`, each with `x.shape[0] // jax.device_count()` examples;
    - `assert jax.device_count() == 8`, which fails on the second host;
    - `jax.random.split(key, jax.device_count())`, `x.reshape((jax.device_count(), ...))`, `dataset.batch(...)` and the
      like in a file that maps with `pmap`, or feeds one;
    - a count of all devices, or of those of one process, in a function that takes `devices` and works with them;
    - the part of a process told by a number of devices: `ds.shard(jax.device_count(), jax.process_index())`,
      `files[jax.process_index() :: jax.device_count()]`, `range(jax.process_index(), n, jax.device_count())`,
      `jax.process_index() * (total // jax.device_count())`;
    - a product with `local_device_count()` of what the program multiplies with `device_count()` elsewhere (likely).

    Each number of examples has a scale: it is of one device, of one process, or of all. Counts lead from one to the
    next, and names, divisions and checks say which one a number has. What says two things is reported:

    - a name for another quotient: `per_host_batch_size = batch_size // jax.device_count()`,
      `per_device_batch_size = batch_size // jax.process_count()`, `local_device_count = jax.device_count()`,
      `local_devices = jax.devices()`;
    - a batch that is divided by `jax.local_device_count()`, and by `jax.device_count()` or `jax.process_count()` in
      another place, or checked to be a multiple of it;
    - `per_host_batch_size % jax.device_count()`;
    - a batch that is checked to fit the processes and then is that of each (`host_batch_size = batch_size`), or is
      divided for training and not for evaluation; `host_batch_size=config.global_batch_size`, or by position where the
      parameter of a function or class of the project is named so; the part of a process
      (`dataset.shard(process_count(), process_index())`) in batches of `global_batch_size`;
    - `jax.process_count() * jax.device_count()`, also as the sizes of a shape, which counts the processes twice;
    - `jax.process_index() * jax.device_count()` as the place where the devices of a process begin;
    - the shape of a mesh that makes up as many devices as one process has, where those of all are put into it, or the
      other way round;
    - a count divided by itself or compared with itself: `jax.device_count() // len(jax.devices())`.

    These are possible where nothing in sight asks for processes. Possible, too: `device.id % jax.device_count()`.

    ## Why it hurts
    Each process loads the examples of all: the global batch is larger by the number of processes than the configuration
    says. Or the batch, the steps of an epoch and the reported throughput are smaller. With one process nothing shows.

    ## Fix safety
    Unsafe: numbers change where there are several processes.

    ## Evidence
    Two processes of four devices on jax 0.12 make a global batch of 32 where the configuration says 16. Recorded in
    maxdiffusion, dalle-mini and CommonLoopUtils.
    """

    code = "SL804"
    name = "local-and-global-counts"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = (
        *("named", "asserted", "leading", "given", "beside", "shares", "quotient", "rows"),
        *("itself", "twice", "offset", "checked", "uses", "whole", "mesh", "listed", "passed", "batched"),
    )
    triggers = (
        Calls(_ALL, _OWN, "jax.process_count"),
        Calls(*LISTS, function_says=("len(", *LISTS_SAY)),
        Lines(TAKES_ALL, saying=("batch",), on="any"),
        Lines(GIVES_ALL, saying=("global_", "overall_"), on="any"),
    )
    in_tests = False
    fixes = "unsafe"
    forms = ("call", "line")

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a count, or for a number that is passed on."""
        if site.form == "line":
            for passed in passed_on(site):
                yield self._against(site, passed)
            return
        if alone(site.program, Place(site.file, site.call)):
            return
        told = False
        if site.api != "jax.process_count":
            for found in self._told(site):
                told = True
                yield found
        if not told:
            yield from self._untold(site)

    def _untold(self, site: Site) -> Iterator[Finding]:
        """At most one finding in each function that a count is used in."""
        done: set[ast.AST | None] = set()
        lists = listed(site) if site.api in LISTS else ()
        for found in (*contradictions(site), *disagreements(site), *undivided(site), *grids(site), *lists):
            function = site.file.home(found.node).function()
            where = function.node if function is not None else None
            if where not in done:
                done.add(where)
                yield self._against(site, found)

    def _against(self, site: Site, found: Contradiction) -> Finding:
        """Two reasons that do not go together."""
        fix: Fix | None = None
        help_ = ""
        if found.instead:
            spelled, imports = site.spell(found.instead)
            help_ = f"write {spelled}()"
            same = (site.api in (_ALL, _OWN)) is found.instead.endswith("count")
            if found.node is site.call and same and not site.call.args and not site.call.keywords:
                edits = [site.replace(site.call, f"{spelled}()"), *imports]
                fix = site.fix(
                    Safety.UNSAFE, f"write {spelled}()", edits, why="numbers change with several processes"
                )
        # Where nothing asks for processes there is one, and nothing shows.
        # A mesh as large as this process has devices, beside jax.local_devices(), is all there is on one host.
        asks = bool(several(site.program, site.file)) if found.form == "mesh" else _asks(site)
        form = found.form if found.form == "itself" or asks else f"{found.form}-alone"
        return site.finding(
            found.node, found.message, label=found.label, help=help_, fix=fix, form=form, why=found.why
        )

    def _told(self, site: Site) -> Iterator[Finding]:
        if site.wants("given"):
            yield from self._given(site)
        if site.api not in (_ALL, _OWN):
            return
        told = site.file.says("process_index") or site.file.says("host_id")
        part = share(site) if told and site.wants("shares") else None
        if part is not None:
            yield self._share(site, part)
            return
        if site.api == _ALL:
            yield from self._leading(site)
            yield from self._divided(site)
            yield from self._lost(site)
        if not asks_itself(site.file) and several(site.program, site.file) != "initialized":
            return
        asserted = _asserted(site)
        if asserted is not None:
            yield self._found(
                site,
                f"`{site.text(asserted)}` counts the devices of all processes, and fails where there are more hosts.",
                "asserted",
                "this file asks which process it is"
                if asks_itself(site.file)
                else "the program is for several processes",
            )
            return
        if site.api == _OWN and site.wants("quotient"):
            yield from self._quotient(site)
        product = _product(site.file, site.call)
        if product is None or self._shared_out(site, product):
            return
        if site.api == _ALL and _LOCAL.search(product.name) and not _GLOBAL.search(product.name):
            text = (
                f"`{product.name}` is that of one process, and jax.device_count() counts the devices of all: "
            )
            yield self._found(
                site, text + "each process takes the share of all of them.", "named", self._why(product)
            )
        elif site.api == _OWN and _GLOBAL.search(product.name) and not _LOCAL.search(product.name):
            text = f"`{product.name}` is that of all processes, and jax.local_device_count() counts those of one: "
            yield self._found(site, text + "it is too small with several.", "named", self._why(product))
        elif site.api == _OWN:
            yield from self._beside(site, product)

    def _share(self, site: Site, part: Share) -> Finding:
        """A process's part of data, told by a number of devices."""
        return site.finding(
            site.call,
            f"With several devices in each process {part.told}.",
            label="a number of devices, where that of processes is meant",
            help="write jax.process_count() and jax.process_index()",
            form="shares",
            why="which part it is is told by the index of the process",
        )

    def _given(self, site: Site) -> Iterator[Finding]:
        """A count of others than the devices that the function is given."""
        name = given_devices(site)
        if name is None:
            return
        whose = "all processes" if site.api in (_ALL, "jax.devices") else "this process"
        yield site.finding(
            site.call,
            f"Where `{name}` are not all of these, this is not their number.",
            label=f"counts the devices of {whose}, and not `{name}`",
            help=f"write len({name})",
            form="given",
            why=f"`{name}` is a parameter of the function around it, which works with them",
        )

    def _divided(self, site: Site) -> Iterator[Finding]:
        """`per_process = total // jax.device_count()`: the share of a device."""
        parent = site.file.parent(site.call)
        if not isinstance(parent, ast.BinOp) or parent.right is not site.call:
            return
        if not isinstance(parent.op, ast.FloorDiv | ast.Div) or "process_count" in site.text(parent):
            return
        outer = site.file.parent(parent)
        if isinstance(outer, ast.BinOp) and outer.left is parent:  # `... * jax.local_device_count()`
            return
        name = name_of(site.file, parent)
        if not _PROCESS.search(name) or _PER_DEVICE.search(name):
            return
        yield site.finding(
            site.call,
            f"`{name}` is divided by the devices of all processes: this is the share of one device.",
            label="the devices of all processes, not the processes",
            help="divide by jax.process_count()",
            form="named",
            why=f"the name `{name}`",
        )

    def _quotient(self, site: Site) -> Iterator[Finding]:
        """`global_batch // jax.local_device_count()`: the share of a device is too large with several processes."""
        divided = shared_by_one(site)
        name = key(divided.left) if divided is not None else ""
        if not _GLOBAL.search(name) or _LOCAL.search(name) or _PER_DEVICE.search(name):
            return
        yield self._found(
            site,
            f"`{name}` is that of all processes, and jax.local_device_count() counts the devices of one: a share of "
            "it is too large with several processes.",
            "quotient",
            f"the name `{name}`",
            fixed=_inside(site, divided),
        )

    def _lost(self, site: Site) -> Iterator[Finding]:
        """`x.reshape(jax.local_device_count(), x.shape[0] // jax.device_count(), ...)`."""
        lost = rows_lost(site) if site.wants("rows") else None
        if lost is None:
            return
        what = site.shown(lost.left)
        yield self._found(
            site,
            f"`{what}` is divided by the devices of all processes, and there are as many rows as one has devices: with "
            "several processes a part of the examples is left over.",
            "rows",
            "the array gets a row for each of jax.local_device_count()",
            fixed=_inside(site, lost),
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
        if _takes_own_rows(site):
            return
        if guard(site.program, site.file, site.call) is None:
            message = (
                f"`{made.by}` makes a row for each device of all processes, and pmap maps over the "
                "devices of one: with several processes there are more rows than it takes."
            )
            who = "the file maps" if maps else "code that runs with it maps"
            form = "leading" if _asks(site) else "leading-alone"
            yield self._found(site, message, form, f"{who} with pmap, or feeds one")

    def _why(self, product: _Product) -> str:
        return f"the name `{product.name}`"

    def _found(self, site: Site, message: str, form: str, why: str, fixed: bool = True) -> Finding:
        other = _OWN if site.api == _ALL else _ALL
        spelled, imports = site.spell(other)
        edits = [site.replace(site.call, f"{spelled}()"), *imports]
        fix: Fix | None = None
        if fixed and not site.call.args and not site.call.keywords:
            fix = site.fix(
                Safety.UNSAFE, f"write {spelled}()", edits, why="numbers change with several processes"
            )
        label = "the devices of all processes" if site.api == _ALL else "the devices of one process"
        return site.finding(
            site.call, message, label=label, help=f"write {spelled}()", fix=fix, form=form, why=why
        )

    def _shared_out(self, site: Site, product: _Product) -> bool:
        """Whether the number of processes is one of the factors, or what the product is divided by."""
        text = site.text(product.node)
        parent = site.file.parent(product.node)
        around = site.text(parent) if isinstance(parent, ast.expr) else text
        if "process_count" in around or "num_hosts" in around or "host_count" in around:
            return True
        return any(
            isinstance(one, CallResult) and one.api in ("jax.process_count", "jax.host_count")
            for factor in product.factors
            for one in options(site.value(factor))
        )

    def _beside(self, site: Site, product: _Product) -> Iterator[Finding]:
        """The same factor is multiplied by all devices elsewhere in the program."""
        for factor in product.factors:
            name = last_name(factor)
            if not _PER_DEVICE.search(name) or _FEEDING.search(self._around(site, product)):
                continue
            pattern = rf"(?:){re.escape(name)}\s*\*\s*(?:jax\.)?device_count\(\)"
            others = site.program.project.holding(site.file.path, (pattern,))
            found = next((one for one in others if one is not None and one is not site.file), None)
            if found is not None:
                yield self._found(
                    site,
                    f"`{name}` is multiplied by the devices of one process here, and by those of all elsewhere.",
                    "beside",
                    f"{found.path.name} multiplies it by jax.device_count()",
                )
                return

    def _around(self, site: Site, product: _Product) -> str:
        """The names of the function, and of what takes the product."""
        function = site.scope.function()
        parent = site.file.parent(product.node)
        takers = [site.text(parent.func)] if isinstance(parent, ast.Call) else []
        for mention in site.file.mentions_in(site.scope, product.name) if product.name else ():
            owner = site.file.parent(mention)
            call = site.file.parent(owner) if isinstance(owner, ast.keyword) else owner
            takers += [site.text(call.func)] if isinstance(call, ast.Call) else []
        names = [taker.rpartition(".")[2] for taker in takers]
        return " ".join([function.name if function is not None else "", product.name, *names])


def _asks(site: Site) -> bool:
    """Whether anything in sight asks for processes: where nothing does there is one, and nothing shows."""
    return asks_itself(site.file) or bool(several(site.program, site.file))


def _inside(site: Site, node: ast.expr | None) -> bool:
    """Whether the count stands in an expression itself: a name for it may be meant as it is elsewhere."""
    return node is not None and any(one is site.call for one in walk(node))


def _takes_own_rows(site: Site) -> bool:
    """Whether the function around indexes something by the process: each takes its own rows of what is for all."""
    function = site.scope.function()
    return function is not None and any(
        isinstance(part, ast.Subscript) and "process_index" in site.text(part.slice)
        for part in walk(function.node)
    )


def _asserted(site: Site) -> ast.expr | None:
    """`assert jax.device_count() == 8`."""
    parent = site.file.parent(site.call)
    if site.api != _ALL or not isinstance(parent, ast.Compare) or len(parent.ops) != 1:
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


def _product(file: FileFacts, call: ast.Call) -> _Product | None:
    """The product that a count is a factor of; None where it is none."""
    node: ast.expr = call
    factors: list[ast.expr] = []
    while True:
        parent = file.parent(node)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            factors += _factors(parent.right if parent.left is node else parent.left)
            node = parent
        elif (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Name)
            and parent.func.id in ("int", "round", "max", "float")
        ):
            node = parent
        else:
            break
    return _Product(node, tuple(factors), name_of(file, node)) if factors else None


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]

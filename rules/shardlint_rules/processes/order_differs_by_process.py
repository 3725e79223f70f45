"""SL818."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import INDEX, guard
from shardlint.model.process.whole_program import COLLECTIVES
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, Scope, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._own_order import DRAWS, KEYED, own_order
from shardlint_rules.processes._unordered import seeded, unordered
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.sharded_datasets import shuffled_before
from shardlint_rules.processes.starting import at, short

_SHUFFLES = ("random.shuffle", "numpy.random.shuffle")
_SPLITTING = ("array_split", "islice", "split")
_SETS = "collections.defaultdict"
_NEAR = ("process_index", "host_id()")
_TOLD = ("process_index", "host_id", "process", "rank", "host", "worker")
_ITSELF = regex(r"process_(?:index|count)|host_(?:id|count)")


class OrderDiffersByProcess(Rule):
    """Processes share out a list, or go through one together, whose order need not be the same in each of them.

    ## What it does
    Reports, where each process takes its part by its index (`files[process_index()::process_count()]`,
    `np.array_split(files, n)[process_index()]`, `itertools.islice`, `if k % n == process_index()` in a loop over
    `enumerate(files)`), that the list is a set, the listing of a folder that nobody sorted (`os.listdir`, `glob.glob`,
    `Path.glob`), or shuffled without a seed, also where a call in sight gives it; and loops over such a list that make
    a call which all processes must make together (`sync_global_devices(name)`). Likely: an order that is drawn with a
    seed of the process' own, and then shared out by its index; and `dataset.shuffle(n).shard(count, index)` without a
    seed, or of `list_files`, which shuffles. Possible: sets that devices are
    collected in, in a function that asks them for their process.

    ## Why it hurts
    Each process takes its part of another order: some files are read twice and others never, and nothing says so. In a
    loop the processes exchange different things, or stop because the names differ. On one host, or a shared folder
    that lists its files alike, nothing shows.

    ## Use instead
    `sorted(...)` before it is shared out; a seed that all processes have for what is shuffled.

    ## Evidence
    Two processes share out a set of four names, each with a hash seed of its own as Python draws one: some are read
    twice and others never. Recorded in t5x.
    """

    code = "SL818"
    name = "order-differs-by-process"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("devices", "own-order", "shuffled")
    triggers = (
        Calls(*INDEX, *COLLECTIVES),
        Calls(*_SHUFFLES, _SETS, file_says=_NEAR),
        Calls(*KEYED, file_says=_TOLD),
        Methods(*DRAWS, file_says=_TOLD),
        Methods("shard", file_says=_NEAR),
    )
    in_tests = False
    fixes = "none"
    forms = ("call", "method")

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if self._of_one(site):
            return
        if site.form == "method" and last_name(site.call.func) == "shard":
            yield from self._sharded(site)
        elif site.form == "method" or site.api in KEYED:
            yield from self._own_order(site)
        elif site.api in INDEX:
            yield from self._shared_out(site)
        elif site.api in _SHUFFLES:
            yield from self._shuffled(site)
        elif site.api == _SETS:
            yield from self._devices(site)
        else:
            yield from self._together(site)

    def _of_one(self, site: Site) -> bool:
        place = Place(site.file, site.call)
        return guard(site.program, site.file, site.call) is not None or alone(site.program, place)

    def _own_order(self, site: Site) -> Iterator[Finding]:
        """An order that each process draws with a seed of its own."""
        found = own_order(site) if site.wants("own-order") else None
        if found is None:
            return
        taken = site.shown(found.taken)
        yield site.finding(
            found.seed,
            f"Each process draws an order of its own (`{short(found.own.place)}`"
            f"{at(found.own.place, site.file, found.seed)} is {found.own.what}), and takes its part of that, `{taken}` "
            f"at line {found.taken.lineno}: some rows are taken twice and others never.",
            label="another seed in each process, another order",
            help="draw the order with a seed that all processes have, or take the part first and shuffle that",
            form="own-order",
            why="what it is drawn with is made of the index of the process",
        )

    def _sharded(self, site: Site) -> Iterator[Finding]:
        """A dataset that each process shuffles for itself, and then takes its part of."""
        found = shuffled_before(site) if site.wants("shuffled") and not seeded(site.file) else None
        if found is None:
            return
        shuffled, index = found
        what = last_name(shuffled.func)
        yield site.finding(
            index,
            f"`{what}` has no seed, so each process takes its part of an order of its own: some examples are read "
            "twice and others never.",
            label=f"its part of what {what} at line {shuffled.end_lineno} has in another order in each process",
            help="take the part first (.shard), then shuffle"
            if what == "shuffle"
            else "write list_files(pattern, shuffle=False), take the part, then shuffle",
            form="shuffled",
            why="nothing in the file sets a seed",
        )

    def _shared_out(self, site: Site) -> Iterator[Finding]:
        for node in _readings(site.file, site.call):
            listed = _listed(site.file, node)
            what = unordered(site.program, Place(site.file, listed)) if listed is not None else None
            if listed is not None and what is not None:
                yield self._parts(site, listed, what)
                return

    def _shuffled(self, site: Site) -> Iterator[Finding]:
        given = site.call.args[0] if site.call.args else None
        if not isinstance(given, ast.Name) or seeded(site.file):
            return
        for mention in site.file.mentions_in(site.scope, given.id):
            subscript = site.file.parent(mention)
            if (
                not isinstance(subscript, ast.Subscript | ast.Call)
                or getattr(mention, "lineno", 0) < given.lineno
            ):
                continue
            text = site.text(subscript)
            if isinstance(subscript, ast.Call) and last_name(subscript.func) not in _SPLITTING:
                continue
            if _ITSELF.search(text) or any(_is_index(site, one) for one in walk(subscript)):
                yield self._parts(site, given, "what was shuffled without a seed")
                return

    def _parts(self, site: Site, listed: ast.expr, what: str) -> Finding:
        text = site.shown(listed)
        return site.finding(
            listed,
            f"Each process takes its part of `{text}` by its index, and this is {what}, whose order need not be the "
            "same in each of them: some parts are taken twice and others never.",
            label="in another order in each process",
            help=f"share out sorted({text})"
            if "shuffled" not in what
            else "shuffle with a seed that all processes have",
            form="shared-out",
            why="its order is that of the machine or of the run",
        )

    def _together(self, site: Site) -> Iterator[Finding]:
        inner: ast.AST = site.call
        for outer in site.file.ancestors(site.call):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return
            iterated = outer.iter if isinstance(outer, ast.For) and inner in outer.body else None
            if isinstance(outer, ast.ListComp | ast.DictComp) and inner is not outer.generators[0]:
                iterated = outer.generators[0].iter
            what = unordered(site.program, Place(site.file, iterated)) if iterated is not None else None
            if iterated is not None and what is not None:
                text = site.shown(iterated)
                yield site.finding(
                    iterated,
                    f"All processes must make this call of {site.api.rpartition('.')[2]} for the same thing, and "
                    f"`{text}` is {what}, whose order need not be the same in each of them.",
                    label="in another order in each process",
                    help=f"go through sorted({text})",
                    form="together",
                    why="its order is that of the machine or of the run",
                )
                return
            inner = outer

    def _devices(self, site: Site) -> Iterator[Finding]:
        """`defaultdict(set)` to which devices are added, in a function that asks them for their process."""
        given = site.call.args[0] if site.call.args else None
        function = site.scope.function()
        target = site.file.parent(site.call)
        if not isinstance(given, ast.Name) or given.id != "set" or function is None:
            return
        if not isinstance(target, ast.Assign) or not isinstance(target.targets[0], ast.Name):
            return
        name = target.targets[0].id
        if not _collects(site, function, name) or f"sorted({name}" in site.text(function.node):
            return
        yield site.finding(
            site.call,
            f"`{name}` collects devices, or what is on them, in sets: whoever goes through them has them in another "
            "order in each process.",
            label="sets have no order",
            help="collect them in lists, or go through them sorted",
            form="devices",
            why=f"`{function.name}` goes through devices and asks for their process, and gives it away",
        )


def _collects(site: Site, function: Scope, name: str) -> bool:
    """Whether a loop over devices that asks for their process adds to an entry, and the function returns the whole."""
    returned = any(
        isinstance(part, ast.Name) and part.id == name
        for one in site.file.walked(function).returns
        if one.value is not None
        for part in (one.value.elts if isinstance(one.value, ast.Tuple) else [one.value])
    )
    if not returned:
        return False
    for loop in (one for one in function.statements if isinstance(one, ast.For)):
        text = site.text(loop)
        if ".process_index" in text and f"{name}[" in text and ".add(" in text:
            return True
    return False


def _readings(file: FileFacts, call: ast.Call) -> Iterator[ast.expr]:
    """The call itself, and the reads of the name that it is bound to."""
    yield call
    parent = file.parent(call)
    targets: list[ast.expr] = []
    match parent:
        case ast.Assign(targets=[target]):
            targets = [target]
        case ast.Tuple(elts=elements):
            statement = file.parent(parent)
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
                if len(statement.targets[0].elts) == len(elements):
                    targets = [statement.targets[0].elts[elements.index(call)]]
    for target in targets:
        if isinstance(target, ast.Name):
            for mention in file.mentions_in(file.home(target), target.id)[:20]:
                if isinstance(mention, ast.Name) and isinstance(mention.ctx, ast.Load):
                    yield mention


def _listed(file: FileFacts, node: ast.expr) -> ast.expr | None:
    """The list of which an index takes a part: `x[i::n]`, `x[i * n:]`, `array_split(x, n)[i]`, `islice(x, i)`."""
    inner: ast.expr = node
    parent = file.parent(node)
    while isinstance(parent, ast.BinOp):
        inner, parent = parent, file.parent(parent)
    if isinstance(parent, ast.Slice):
        owner = file.parent(parent)
        return owner.value if isinstance(owner, ast.Subscript) else None
    if isinstance(parent, ast.Subscript) and parent.slice is inner and isinstance(parent.value, ast.Call):
        split = parent.value
        return split.args[0] if last_name(split.func) in _SPLITTING and split.args else None
    if isinstance(parent, ast.Call) and last_name(parent.func) == "islice" and parent.args[0] is not inner:
        return parent.args[0]
    if isinstance(parent, ast.Compare) and len(parent.ops) == 1 and isinstance(parent.ops[0], ast.Eq):
        return _counted(file, parent)
    return None


def _counted(file: FileFacts, test: ast.Compare) -> ast.expr | None:
    """The list of `enumerate` of which those are taken whose number is, modulo the count, that of the process."""
    for side in (test.left, test.comparators[0]):
        match side:
            case ast.BinOp(op=ast.Mod(), left=ast.Name(id=number)):
                pass
            case _:
                continue
        for outer in file.ancestors(test):
            loops = [outer] if isinstance(outer, ast.For | ast.comprehension) else []
            loops += getattr(outer, "generators", [])
            for loop in loops:
                match loop.target, loop.iter:
                    case (
                        ast.Tuple(elts=[ast.Name(id=name), _]),
                        ast.Call(func=ast.Name(id="enumerate"), args=[listed, *_]),
                    ) if name == number:
                        return listed
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
                break
    return None


def _is_index(site: Site, node: ast.AST) -> bool:
    """Whether a name is bound to the index of this process."""
    if not isinstance(node, ast.Name):
        return False
    bindings, _ = lookup(site.file, node, node.id)
    return any(
        isinstance(one.value, ast.Call)
        and any(isinstance(kind, Api) and kind.name in INDEX for kind in options(site.value(one.value.func)))
        for one in bindings
    )

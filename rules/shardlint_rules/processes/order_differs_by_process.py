"""SL818."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.process.processes import INDEX, guard
from shardlint.model.process.whole_program import COLLECTIVES
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._own_order import DRAWS, KEYED, own_order
from shardlint_rules.processes._unordered import seeded, unordered
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.sharded_datasets import shuffled_before
from shardlint_rules.processes.starting import at

_SHUFFLES = ("random.shuffle", "numpy.random.shuffle")
_SPLITTING = ("array_split", "islice", "split")
_NEAR = ("process_index", "host_id()")
_OWN_SEED = ("process_index", "host_id", "process", "rank", "host", "worker")
_ITSELF = regex(r"process_(?:index|count)|host_(?:id|count)")


class OrderDiffersByProcess(Rule):
    """Processes divide or loop over a list whose order can differ between them.

    Each process takes its part from a different order, so some files are read twice and others never. In a loop with a
    collective the processes exchange different things, or stop because the names differ.

    ## Reports
    - `shared-out` (likely): `files[process_index()::process_count()]`, `np.array_split(files, n)[process_index()]`,
      `itertools.islice` or `if k % n == process_index()`, if `files` is a set, an unsorted listing of a folder
      (`os.listdir`, `glob.glob`, `Path.glob`) or shuffled without a seed.
    - `together` (likely): a loop over such a list with a call that all processes must make together.
    - `own-order` (likely): an order drawn with a seed of the process index and then divided by that index.
    - `shuffled` (likely): `dataset.shuffle(n).shard(count, index)` without a seed, or the same after `list_files`,
      which shuffles.

    ## Write instead
    Sort the list before you divide it, or shuffle it with the same seed in all processes.
    """

    code = "SL818"
    name = "order-differs-by-process"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("shared-out", "together", "shuffled", "own-order")
    assumptions: ClassVar[Mapping[str, str]] = {
        "shared-out": "The order differs: hosts list folders differently, and PYTHONHASHSEED is not set.",
        "together": "The order differs: hosts list folders differently, and PYTHONHASHSEED is not set.",
        "shuffled": "No seed of tensorflow is set elsewhere.",
        "own-order": "The program runs on more than one process.",
    }
    triggers = (
        Calls(*INDEX, *COLLECTIVES),
        Calls(*_SHUFFLES, file_says=_NEAR),
        Calls(*KEYED, file_says=_OWN_SEED),
        Methods(*DRAWS, file_says=_OWN_SEED),
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
        else:
            yield from self._together(site)

    def _of_one(self, site: Site) -> bool:
        place = Place(site.file, site.call)
        return guard(site.program, site.file, site.call) is not None or alone(site.program, place)

    def _own_order(self, site: Site) -> Iterator[Finding]:
        """An order that each process draws with its own seed and then divides by its index."""
        found = own_order(site) if site.wants("own-order") else None
        if found is not None:
            own = found.own
            yield site.finding(
                found.seed,
                "Some rows are taken twice and others never: each process draws its own order.",
                help="draw the order with the same seed in all processes, or take the part first and shuffle that",
                form="own-order",
                why=f"the seed is made of {own.what}{at(own.place, site.file, found.seed)}, and line "
                f"{found.taken.lineno} takes the part of this process: `{site.shown(found.taken)}`",
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
            "Some examples are read twice and others never: `shuffle` has no seed and comes before `shard`."
            if what == "shuffle"
            else "Some files are read twice and others never: `list_files` shuffles differently in each process.",
            label=f"takes a part of what line {shuffled.end_lineno} shuffles",
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
            f"Some parts are taken twice and others never: the order of `{text}` differs between processes.",
            label=what,
            help=f"divide sorted({text})" if "shuffled" not in what else "shuffle with the same seed in all processes",
            form="shared-out",
            why=f"each process takes its part by its index, and this is {what}",
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
                name = site.api.rpartition(".")[2]
                yield site.finding(
                    iterated,
                    f"`{name}` hangs or mixes up values: the order of `{text}` differs between processes.",
                    label=what,
                    help=f"loop over sorted({text})",
                    form="together",
                    why=f"all processes must make each call of {name} for the same item, and this is {what}",
                )
                return
            inner = outer

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

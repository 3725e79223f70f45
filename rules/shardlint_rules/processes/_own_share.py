"""Loops that take as many turns as a process has parts of its own, and what all processes must do together in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.model import Program
from shardlint.model.held import read_in_class
from shardlint.model.process.processes import guard
from shardlint.model.process.whole_program import Together, joined
from shardlint.model.reach import lookup, readers
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.alone import alone, branches

_RANGES = ("arange", "range")
_NUMBERS = ("ceil", "floor", "int", "max", "float", "cdiv", "round")
_ITERATING = ("enumerate", "iter", "list", "tuple", "sorted", "reversed", "tqdm", "trange", "zip", "map", "batched")
_COUNT = r"(?:process_count|host_count|num_processes|num_hosts|world_size|processes|hosts|n_proc)"
_EVEN = regex(rf"%\s*\(?[\w.]*{_COUNT}|//\s*\(?[\w.]*{_COUNT}|assert_equal|drop_remainder|\bpad")
_DEPTH = 7


@dataclass(frozen=True)
class Uneven:
    """The share of a process, the loop that takes a turn for each, and what waits for all processes in it."""

    share: ast.expr
    loop: Place
    waits: Together


def uneven(site: Site) -> Uneven | None:
    """The loop over what a site's index shares out, if all processes must take the same number of turns in it."""
    for share in _shares(site):
        if _evened(site, share):
            continue
        for loop, body in _loops(site.program, Place(site.file, share), False, 0):
            if guard(site.program, loop.file, loop.node) is not None or alone(site.program, loop):
                continue
            for found in joined(site.program, loop.file, body):
                if (found.sure or found.computes) and branches(site.program, found) == []:
                    return Uneven(share, loop, found)
    return None


def _evened(site: Site, share: ast.expr) -> bool:
    """Whether the text around says that the parts are made alike: the rest is left out, or added, or there is none."""
    around = next((one for one in site.file.ancestors(share) if isinstance(one, ast.ClassDef | ast.FunctionDef)), None)
    if around is not None and _EVEN.search(site.text(around)):
        return True
    names = (one for one in walk(share) if isinstance(one, ast.Name))
    made = (one.value for name in names for one in lookup(site.file, name, name.id)[0] if one.value is not None)
    sums = (part.op for one in made for part in walk(one) if isinstance(part, ast.BinOp))
    return any(isinstance(one, ast.FloorDiv | ast.Mod) for one in sums)


def _shares(site: Site) -> Iterator[ast.expr]:
    """What a process takes by its index, every n-th of a list: `x[i::n]`, `range(i, m, n)`, `array_split(x, n)[i]`."""
    file = site.file
    for node in _readings(file, site.call):
        parent = file.parent(node)
        match parent:
            case ast.Slice(lower=lower, step=ast.expr()) if lower is node:
                outer = file.parent(parent)
                if isinstance(outer, ast.Subscript):
                    yield outer
            case ast.Call(args=[first, _, _]) if first is node and last_name(parent.func) in _RANGES:
                yield parent
            case ast.Call(args=[_, first, _, _]) if first is node and last_name(parent.func) == "islice":
                yield parent
            case ast.Subscript(value=ast.Call(func=func), slice=index) if index is node:
                if last_name(func) == "array_split":
                    yield parent


def _readings(file: FileFacts, call: ast.Call) -> Iterator[ast.expr]:
    """The index itself, and where a name or an attribute is read that it is bound to."""
    yield call
    statement = file.parent(call)
    pairs: list[tuple[ast.expr, ast.expr]] = []
    match statement:
        case ast.Assign(targets=[target]):
            pairs = [(target, call)]
        case ast.Tuple(elts=values):
            outer = file.parent(statement)
            if isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Tuple):
                pairs = list(zip(outer.targets[0].elts, values, strict=False))
    for target, value in pairs:
        if value is call:
            yield from _reads(file, target)


def _reads(file: FileFacts, target: ast.expr) -> Iterator[ast.expr]:
    match target:
        case ast.Name():
            yield from (one for one, _ in readers(file, target))
        case ast.Attribute(value=ast.Name(id="self")):
            yield from read_in_class(file, target)


def _loops(program: Program, place: Place, counts: bool, depth: int) -> Iterator[tuple[Place, Sequence[ast.AST]]]:
    """The loops that take a turn for each of a share, or as many as it `counts`, each with what runs in it."""
    file, node = place.file, place.node
    if depth > _DEPTH or not isinstance(node, ast.expr):
        return
    parent = file.parent(node)
    match parent:
        case ast.Assign(targets=[target]):
            for read in _reads(file, target):
                yield from _loops(program, Place(file, read), counts, depth + 1)
        case ast.BinOp() | ast.UnaryOp() if counts:
            yield from _loops(program, Place(file, parent), True, depth)
        case ast.Attribute(attr="size") if not counts:
            yield from _loops(program, Place(file, parent), True, depth)
        case ast.Call(func=func) if node is not func:
            name = last_name(func)
            if name == "len" and not counts:
                yield from _loops(program, Place(file, parent), True, depth)
            elif name in (_NUMBERS if counts else _ITERATING):
                yield from _loops(program, Place(file, parent), counts, depth)
            elif name in _RANGES and counts:
                yield from _loops(program, Place(file, parent), False, depth)
        case ast.For(iter=over) if over is node and not counts:
            yield Place(file, parent), parent.body
            if any(isinstance(one, ast.Yield | ast.YieldFrom) for part in parent.body for one in walk(part)):
                yield from _handed_out(program, file, parent, depth)
        case ast.comprehension(iter=over) if over is node and not counts:
            whole = file.parent(parent)
            if isinstance(whole, ast.ListComp | ast.SetComp | ast.GeneratorExp):
                yield Place(file, whole), [whole.elt]
            if isinstance(whole, ast.GeneratorExp):
                yield from _loops(program, Place(file, whole), False, depth + 1)


def _handed_out(
    program: Program, file: FileFacts, loop: ast.For, depth: int
) -> Iterator[tuple[Place, Sequence[ast.AST]]]:
    """The loops over what the function around hands out one by one."""
    function = file.home(loop).function()
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return
    for place in program.flow.in_sight(file, function.node).called(8):
        yield from _loops(program, place, False, depth + 1)

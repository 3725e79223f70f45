"""Loops whose batches come to a jitted function from the host, where a loop elsewhere puts its own. For SL235."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.elsewhere import defined_around
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Function,
    Parameter,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.batch_loops import PLACING, Loop, loop_of
from shardlint_rules.jit.leaf import given_in_sight, origins

_PUTS = ("device_put", "make_array_from_process_local_data")
_BATCHES = regex(r"(?i)batch|data|input|rows|example")
_PLACING = regex("(?i)" + "|".join(PLACING))
_WRAPS = ("enumerate", "zip", "islice", "iter", "tqdm", "list", "tuple", "reversed", "trange", "cycle")
_LOADERS = ("tensorflow_datasets.", "grain.", "torch.utils.data.", "datasets.", "tensorflow.data.")
_HOST = regex(r"\bnp\.|\bnumpy\b|\brng\.|default_rng")
_DEPTH = 4


@dataclass(frozen=True)
class PlacingLoop:
    """A loop whose batches are put over a mesh: where it is, the sharding, and the file and class of what puts them."""

    path: str
    line: int
    text: str
    put_in: tuple[str, str]


def placing_loop(site: Site) -> PlacingLoop | None:
    """A loop of the program that puts its batches over a mesh."""
    return site.program.once(site.file, "SL235 elsewhere", lambda: next(_placing(site), None))


def _placing(site: Site) -> Iterator[PlacingLoop]:
    for file in site.program.project.calling(site.file.path, _PUTS):
        if file is None:
            return
        for name in _PUTS:
            for mention in file.mentions(name):
                call = file.parent(mention)
                if isinstance(call, ast.Call) and call.func is mention and len(call.args) > 1:
                    yield from _of_put(site, file, call, name)


def _of_put(site: Site, file: FileFacts, call: ast.Call, name: str) -> Iterator[PlacingLoop]:
    """The loop around a placement, or around the calls of the function that it stands in."""
    given, where = (call.args[0], call.args[1]) if name == _PUTS[0] else (call.args[1], call.args[0])
    if file.home(call).function() is None or not splits(site, Place(file, where)):
        return
    text = " ".join(file.text(where).split())
    put_in = str(file.path), class_around(file, call)
    placed = _roots(file, given)
    loop = _loop_around(file, call, placed)
    if loop is not None and not _makes_batches(file, call):
        yield PlacingLoop(str(file.path), loop.line, text, put_in)
        return
    function = defined_around(Place(file, call))
    if not isinstance(function, ast.FunctionDef):
        return
    for end in site.program.flow.in_sight(file, function).found:
        outer = end.place.node
        if end.kind != "called" or not isinstance(outer, ast.Call):
            continue
        passed = frozenset[str]().union(*(_roots(end.place.file, one) for one in outer.args))
        loop = _loop_around(end.place.file, outer, passed)
        if loop is None and _makes_batches(file, call):
            loop = _loop_over(end.place.file, outer)
        if loop is not None:
            by = f"{' '.join(end.place.file.text(outer.func).split())}(...)"
            yield PlacingLoop(str(end.place.file.path), loop.line, by, put_in)


def class_around(file: FileFacts, node: ast.AST) -> str:
    """The name of the class around a node, empty where there is none."""
    return next((one.name for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), "")


def splits(site: Site, where: Place) -> bool:
    """Whether a sharding splits what is placed, as far as that is told: by what it is, or by what it is called."""
    values = list(origins(site.program, where))
    if any(site.shardings.shards(one) for one in values):
        return True
    texts = [where.text()]
    for one in options(site.program.value(where.file, where.node)):
        if isinstance(one, Parameter):
            function = one.place.file.home(one.place.node).node
            if isinstance(function, ast.FunctionDef):
                calls = given_in_sight(site.program, one.place.file, function, one.name)
                texts += [given.text() for _, _, given in calls]
    return any(_BATCHES.search(text) for text in texts)


def _roots(file: FileFacts, node: ast.expr) -> frozenset[str]:
    return frozenset(one.id for one in walk(node) if isinstance(one, ast.Name))


def _loop_around(file: FileFacts, node: ast.AST, names: frozenset[str]) -> Loop | None:
    """The loop around a node, in its function, that goes over one of the names."""
    for outer in file.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return None
        loop = loop_of(outer)
        if loop is not None and not names.isdisjoint(loop.names):
            return loop
    return None


def _loop_over(file: FileFacts, call: ast.Call) -> Loop | None:
    """The loop that goes over what a call gives."""
    for outer in file.ancestors(call):
        if isinstance(outer, ast.stmt | ast.comprehension):
            return loop_of(outer) if isinstance(outer, ast.For) and _within(outer.iter, call) else None
    return None


def _within(whole: ast.AST, node: ast.AST) -> bool:
    return any(one is node for one in walk(whole))


def _makes_batches(file: FileFacts, call: ast.Call) -> bool:
    """Whether a placement stands in a generator."""
    function = file.home(call).function()
    return function is not None and any(isinstance(one, ast.Yield) for one in file.walked(function).returns)


def comes_from_the_host(site: Site, place: Place, depth: int = 0) -> bool:
    """Whether what a loop goes over surely gives arrays of numpy, by the code of the project that makes it."""
    node, file = place.node, place.file
    if depth > _DEPTH or _PLACING.search(place.text()):
        return False
    match node:
        case ast.Call(func=func, args=args) if last_name(func) in _WRAPS:
            inner = [one for one in args if isinstance(one, ast.Name | ast.Call | ast.Attribute)]
            inner = [
                one for one in inner if not (isinstance(one, ast.Call) and last_name(one.func) == "range")
            ]
            known = [comes_from_the_host(site, Place(file, one), depth + 1) for one in inner[:2]]
            return any(known)
        case ast.Call(func=func):
            found = options(site.program.value(file, func))
            return bool(found) and all(_host(one) for one in found)
        case ast.Name(id=name):
            value = site.program.value(file, node)
            if any(isinstance(one, Parameter) for one in options(value)):
                return _given(site, value, depth)
            bound = file.bindings(file.home(node), name)
            made = [one.value for one in bound if one.value is not None]
            if len(made) == len(bound) == 1:
                return comes_from_the_host(site, Place(file, made[0]), depth + 1)
        case ast.Attribute():
            found = options(site.program.followed(site.program.value(file, node)))
            return all(isinstance(one, CallResult) and _host(one.by) for one in found)
    return False


def _given(site: Site, value: Value, depth: int) -> bool:
    """The same of a parameter, by what all calls in sight give it."""
    found: list[bool] = []
    for one in options(value):
        if not isinstance(one, Parameter):
            return False
        function = one.place.file.home(one.place.node).node
        if not isinstance(function, ast.FunctionDef):
            return False
        for _, _, given in given_in_sight(site.program, one.place.file, function, one.name):
            found.append(comes_from_the_host(site, given, depth + 1))
    return bool(found) and all(found)


def _host(value: Value) -> bool:
    """Whether a function, or the class of an object, makes its arrays with numpy and places nothing."""
    while isinstance(value, Transformed):
        value = value.inner
    if isinstance(value, Api):
        return value.name.startswith(_LOADERS)
    if not isinstance(value, Function | ClassValue):
        return False
    text = value.place.text()
    return bool(_HOST.search(text)) and not _PLACING.search(text)

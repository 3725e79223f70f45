"""Expressions that are another in each process: times, random numbers, ids of processes."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardlint.model import Program
from shardlint.model.held import assigned
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, options
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes.given import given

_DEPTH = 5
_TIMES = ("time.time", "time.time_ns", "time.perf_counter", "time.monotonic", "time.strftime", "time.ctime")
_SOURCES = {
    **dict.fromkeys(_TIMES, "the time"),
    "datetime.datetime.now": "the time",
    "datetime.datetime.utcnow": "the time",
    "datetime.datetime.today": "the time",
    "uuid.uuid4": "a random id",
    "uuid.uuid1": "a random id",
    "os.urandom": "random bytes",
    "os.getpid": "the id of the process",
    "socket.gethostname": "the name of the host",
    "secrets.randbits": "a random number",
    "secrets.token_hex": "a random text",
}
_RANDOM = ("random.", "numpy.random.")
_DRAWN = (
    "random",
    "randint",
    "randrange",
    "choice",
    "getrandbits",
    "uniform",
    "rand",
    "randn",
    "normal",
    "integers",
)
# What passes on what it is given.
_PASSING = (
    "int",
    "str",
    "float",
    "abs",
    "hash",
    "round",
    "hex",
    "repr",
    "join",
    "Path",
    "format",
    "isoformat",
)
_METHODS = (
    "strftime",
    "timestamp",
    "isoformat",
    "format",
    "replace",
    "lower",
    "split",
    "joinpath",
    "total_seconds",
)
_SEEDING = ("random.seed(", "seed_everything", "set_seed")


@dataclass(frozen=True)
class Differing:
    """The call that gives each process another value, and what it gives, in words."""

    place: Place
    what: str


def differing(program: Program, place: Place, depth: int = 0) -> Differing | None:
    """What makes an expression differ by process; None where nothing in sight does."""
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    match node:
        case ast.Call():
            return _call(program, file, node, depth)
        case ast.Name(id=name):
            bindings, scope = lookup(file, node, name)
            if scope is not None and [one.kind for one in bindings] == ["param"]:
                told = (differing(program, one, depth + 1) for one in given(program, file, scope, name))
                return next((one for one in told if one is not None), None)
            if (
                len(bindings) == 1
                and bindings[0].kind in ("assign", "walrus")
                and bindings[0].value is not None
            ):
                return differing(program, Place(file, bindings[0].value), depth + 1)
            return None
        case ast.Attribute(value=ast.Name(id="self")):
            return _stored(program, file, node, depth) or _field(program, file, node, depth)
        case ast.Attribute(value=inner, attr="hex" | "int" | "name" | "year" | "microsecond"):
            return differing(program, Place(file, inner), depth)
        case ast.Attribute():
            return _field(program, file, node, depth)
        case ast.JoinedStr(values=parts):
            inner_parts = [one.value for one in parts if isinstance(one, ast.FormattedValue)]
            return _any(program, file, inner_parts, depth)
        case ast.BinOp(left=left, right=right):
            return _any(program, file, [left, right], depth)
        case ast.Subscript(value=inner):
            return differing(program, Place(file, inner), depth)
    return None


def _any(program: Program, file: FileFacts, nodes: list[ast.expr], depth: int) -> Differing | None:
    found = (differing(program, Place(file, node), depth) for node in nodes)
    return next((one for one in found if one is not None), None)


def _call(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Differing | None:
    func = call.func
    for option in options(program.value(file, func)):
        if isinstance(option, Api):
            what = _drawn(file, option.name)
            if what is not None:
                return Differing(Place(file, call), what)
        if isinstance(option, Function) and not isinstance(option.node, ast.Lambda):
            inside = option.place.file
            returns = inside.walked(inside.scope(option.node)).returns
            if len(returns) == 1 and returns[0].value is not None:
                return differing(program, Place(inside, returns[0].value), depth + 1)
            return None
    name = last_name(func)
    if isinstance(func, ast.Attribute) and name in _METHODS:
        found = differing(program, Place(file, func.value), depth)
        if found is not None:
            return found
    return _any(program, file, call.args, depth) if name in _PASSING else None


def _drawn(file: FileFacts, name: str) -> str | None:
    """What a function of a library gives, where it gives each process another."""
    if name in _SOURCES:
        return _SOURCES[name]
    if name.startswith(_RANDOM) and name.rpartition(".")[2] in _DRAWN:
        return "a random number" if not any(file.says(text) for text in _SEEDING) else None
    return None


def _stored(program: Program, file: FileFacts, node: ast.Attribute, depth: int) -> Differing | None:
    """An attribute of the object that one value is assigned to."""
    cls = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    values = list(assigned(file, cls, node.attr)) if cls is not None else []
    return differing(program, Place(file, values[0]), depth + 1) if len(values) == 1 else None


def _field(program: Program, file: FileFacts, node: ast.Attribute, depth: int) -> Differing | None:
    """A field of an object whose making is in sight: what it is given, or its default."""
    for option in options(program.followed(program.value(file, node.value))):
        if not isinstance(option, CallResult) or not isinstance(option.by, ClassValue) or option.call is None:
            continue
        cls = option.by.place
        fields = {
            one.target.id: one.value
            for one in getattr(cls.node, "body", ())
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        if node.attr not in fields or option.call.open_keywords:
            continue
        place = option.call.get(node.attr, tuple(fields))
        if place is not None:
            return differing(program, place, depth + 1)
        default = fields[node.attr]
        return _default(program, cls.file, default, depth) if default is not None else None
    return None


def _default(program: Program, file: FileFacts, default: ast.expr, depth: int) -> Differing | None:
    """The default of a field, which `default_factory` may make."""
    made = default.keywords if isinstance(default, ast.Call) else []
    factory = next((one.value for one in made if one.arg == "default_factory"), None)
    if factory is None:
        return differing(program, Place(file, default), depth + 1)
    if isinstance(factory, ast.Lambda):
        return differing(program, Place(file, factory.body), depth + 1)
    for option in options(program.value(file, factory)):
        what = _drawn(file, option.name) if isinstance(option, Api) else None
        if what is not None:
            return Differing(Place(file, factory), what)
        if isinstance(option, Function) and not isinstance(option.node, ast.Lambda):
            returns = option.place.file.walked(option.place.file.scope(option.node)).returns
            if len(returns) == 1 and returns[0].value is not None:
                return differing(program, Place(option.place.file, returns[0].value), depth + 1)
    return None

"""Expressions that are another in each process: times, random numbers, ids of processes."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.held import assigned, classes, member
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, options
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes.given import given, given_field

_DEPTH = 8
_TIMES = (
    "time.time",
    "time.time_ns",
    "time.perf_counter",
    "time.monotonic",
    "time.strftime",
    "time.ctime",
    "time.gmtime",
    "time.localtime",
    "time.asctime",
)
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
    "secrets.randbelow": "a random number",
    "secrets.token_hex": "a random text",
}
# What makes something else of a time that it is given, by which argument; without it most take the time of now.
_TURNING = {
    "time.strftime": 1,
    "time.ctime": 0,
    "time.gmtime": 0,
    "time.localtime": 0,
    "time.asctime": 0,
    "datetime.datetime.fromtimestamp": 0,
    "datetime.datetime.utcfromtimestamp": 0,
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
    "from_bytes",
    "join",
    "Path",
    "format",
    "isoformat",
    "abspath",
    "realpath",
    "expanduser",
    "normpath",
    "epath",
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
    "resolve",
    "absolute",
    "expanduser",
    "as_posix",
    "total_seconds",
)
_TOLD_APART = regex(r"(?i)process|broadcast|multihost|host|rank")
_SEEDING = ("random.seed(", "seed_everything", "set_seed")


@dataclass(frozen=True)
class Differing:
    """The call that gives each process another value, and what it gives, in words."""

    place: Place
    what: str


@dataclass(frozen=True)
class Way:
    """How far the way to an expression went, and what was looked at."""

    depth: int
    seen: set[ast.AST]

    @property
    def deeper(self) -> Way:
        """One step on."""
        return Way(self.depth + 1, self.seen)


def differing(program: Program, place: Place, way: Way | None = None) -> Differing | None:
    """What makes an expression differ by process; None where nothing in sight does."""
    node, file = place.node, place.file
    way = way or Way(0, set())
    if way.depth > _DEPTH or node in way.seen:
        return None
    way.seen.add(node)
    match node:
        case ast.Call():
            return _call(program, file, node, way)
        case ast.Name(id=name):
            bindings, scope = lookup(file, node, name)
            places: list[Place] = []
            for one in bindings:
                if one.kind in ("assign", "walrus") and one.value is not None:
                    places.append(Place(file, one.value))
                elif one.kind == "param" and scope is not None:
                    places += given(program, file, scope, name)
            told = (differing(program, one, way.deeper) for one in places)
            return next((one for one in told if one is not None), None)
        case ast.Attribute(value=ast.Name(id="self")):
            return (
                _stored(program, file, node, way)
                or _field(program, file, node, way)
                or _given(program, file, node, way)
                or _property(program, file, node, way)
            )
        case ast.Attribute(value=inner, attr="hex" | "int" | "name" | "year" | "microsecond"):
            return differing(program, Place(file, inner), way)
        case ast.Attribute():
            return _field(program, file, node, way) or _property(program, file, node, way)
        case ast.JoinedStr(values=parts):
            inner_parts = [one.value for one in parts if isinstance(one, ast.FormattedValue)]
            return _any(program, file, inner_parts, way)
        case ast.IfExp(body=left, orelse=right) | ast.BinOp(left=left, right=right):
            return _any(program, file, [left, right], way)
        case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
            return _any(program, file, values, way)
        case ast.Subscript(value=inner):
            return differing(program, Place(file, inner), way)
    return None


def _any(program: Program, file: FileFacts, nodes: list[ast.expr], way: Way) -> Differing | None:
    found = (differing(program, Place(file, node), way) for node in nodes)
    return next((one for one in found if one is not None), None)


def _call(program: Program, file: FileFacts, call: ast.Call, way: Way) -> Differing | None:
    func = call.func
    for option in member(program, Place(file, func)):
        if isinstance(option, Api):
            at = _TURNING.get(option.name)
            if at is not None and len(call.args) > at:
                return differing(program, Place(file, call.args[at]), way)
            what = _drawn(file, option.name)
            if what is not None:
                return Differing(Place(file, call), what)
        if isinstance(option, Function) and not isinstance(option.node, ast.Lambda):
            inside = option.place.file
            returns = [one.value for one in inside.walked(inside.scope(option.node)).returns if one.value is not None]
            if len(returns) > 1 and _TOLD_APART.search(inside.text(option.node)):
                return None  # it may be that each way is taken by another number of processes
            told = (differing(program, Place(inside, one), way.deeper) for one in returns)
            return next((one for one in told if one is not None), None)
    name = last_name(func)
    if isinstance(func, ast.Attribute) and name in _METHODS:
        found = differing(program, Place(file, func.value), way)
        if found is not None:
            return found
    given = [*call.args, *(one.value for one in call.keywords)]
    return _any(program, file, given, way) if name in _PASSING else None


def _drawn(file: FileFacts, name: str) -> str | None:
    """What a function of a library gives, where it gives each process another."""
    if name in _SOURCES:
        return _SOURCES[name]
    if name.startswith(_RANDOM) and name.rpartition(".")[2] in _DRAWN:
        return "a random number" if not any(file.says(text) for text in _SEEDING) else None
    return None


def _stored(program: Program, file: FileFacts, node: ast.Attribute, way: Way) -> Differing | None:
    """An attribute of the object that one value is assigned to."""
    cls = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    values = list(assigned(file, cls, node.attr)) if cls is not None else []
    return differing(program, Place(file, values[0]), way.deeper) if len(values) == 1 else None


def _given(program: Program, file: FileFacts, node: ast.Attribute, way: Way) -> Differing | None:
    """What the calls that make an object of the class around give the attribute."""
    told = (differing(program, one, way.deeper) for one in given_field(program, file, node))
    return next((one for one in told if one is not None), None)


def _field(program: Program, file: FileFacts, node: ast.Attribute, way: Way) -> Differing | None:
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
            return differing(program, place, way.deeper)
        default = fields[node.attr]
        return _default(program, cls.file, default, way) if default is not None else None
    return None


def _property(program: Program, file: FileFacts, node: ast.Attribute, way: Way) -> Differing | None:
    """A property of an object of the project: what it returns."""
    for cls in classes(program, Place(file, node.value)):
        inside = cls.place.file
        for method in getattr(cls.node, "body", ()):
            if not isinstance(method, ast.FunctionDef) or method.name != node.attr:
                continue
            returns = inside.walked(inside.scope(method)).returns
            asked = any("property" in inside.text(one) for one in method.decorator_list)
            if asked and len(returns) == 1 and returns[0].value is not None:
                return differing(program, Place(inside, returns[0].value), way.deeper)
    return None


def _default(program: Program, file: FileFacts, default: ast.expr, way: Way) -> Differing | None:
    """The default of a field, which `default_factory` may make."""
    made = default.keywords if isinstance(default, ast.Call) else []
    factory = next((one.value for one in made if one.arg == "default_factory"), None)
    if factory is None:
        return differing(program, Place(file, default), way.deeper)
    if isinstance(factory, ast.Lambda):
        return differing(program, Place(file, factory.body), way.deeper)
    for option in options(program.value(file, factory)):
        what = _drawn(file, option.name) if isinstance(option, Api) else None
        if what is not None:
            return Differing(Place(file, factory), what)
        if isinstance(option, Function) and not isinstance(option.node, ast.Lambda):
            returns = option.place.file.walked(option.place.file.scope(option.node)).returns
            if len(returns) == 1 and returns[0].value is not None:
                return differing(program, Place(option.place.file, returns[0].value), way.deeper)
    return None

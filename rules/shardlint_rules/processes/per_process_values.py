"""Values that are another in each process: times, random numbers without a seed, its index, or its part of the data."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from shardlint.facts.processes.conditions import INDEX as ASKING
from shardlint.facts.project_objects import (
    evaluate_held_member,
    find_classes,
    find_project_objects,
    stored_values,
)
from shardlint.model import Program
from shardlint.model.values import Api, ClassValue, Function, Place
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings, sole_returned_value
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.passed_values import argument_values as calls_give
from shardlint_rules.processes.passed_values import given_field

INDEX = "the index of the process"
_DEPTH = 14
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
_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random")
# Of a generator or an id.
_PARTS = ("bit_generator", "state", "hex", "int")
# Of these what comes out is made of what goes in. `broadcast_one_to_all` is none of them.
_PASSING = (
    "jax.random.",
    "jax.numpy.",
    "numpy.",
    "jax.device_put",
    "jax.nn.",
    "builtins.",
    "os.path.",
    "pathlib.",
    "etils.epath.",
    "json.dumps",
    "pickle.dumps",
    "yaml.dump",
    "dataclasses.asdict",
    "copy.",
    "flax.serialization.",
)
# Of these no number comes out that went in.
_SHAPES = ("zeros_like", "ones_like", "empty_like", "full_like", "shape", "ndim", "size", "len", "isinstance", "type")
_SEEDING = ("random.seed(", "seed_everything", "set_seed")


@dataclass(frozen=True)
class ProcessDifference:
    """The call that gives each process another value, and what it gives, in words."""

    place: Place
    what: str


Given = Mapping[str, ProcessDifference | None]
NOTHING: Given = MappingProxyType({})


def find_process_difference(
    program: Program, place: Place, depth: int = 0, given: Given = NOTHING
) -> ProcessDifference | None:
    """Return the source of a value's difference between processes; None if none is visible.

    `given` holds what the parameters of the function around are given, by the call that the question came through.
    """
    node, file = place.node, place.file
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name(id=name):
            return _difference_in_name(program, file, node, depth, given) if name not in given else given[name]
        case ast.Call():
            return _difference_in_call(program, file, node, depth, given)
        case ast.Attribute(value=inner, attr="T"):
            return find_process_difference(program, Place(file, inner), depth + 1, given)
        case ast.Attribute(value=inner, attr=name):
            found = _difference_in_attribute(program, file, node, depth)
            if found is None and name in _PARTS:
                return find_process_difference(program, Place(file, inner), depth + 1, given)
            return found
    return _find_any_difference(program, file, list(_parts_of_value(node)), depth, given)


def _parts_of_value(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a value is made of."""
    match node:
        case ast.Subscript(value=one, slice=other) | ast.BinOp(left=one, right=other):
            yield from (one, other)
        case ast.IfExp(body=one, orelse=other):
            yield from (one, other)
        case ast.Slice(lower=lower, upper=upper):
            yield from (one for one in (lower, upper) if one is not None)
        case ast.ListComp(elt=element) | ast.DictComp(value=element) | ast.Lambda(body=element):
            yield element
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts) | ast.BoolOp(values=parts):
            yield from parts
        case ast.JoinedStr(values=parts):
            yield from (one.value for one in parts if isinstance(one, ast.FormattedValue))


def _find_any_difference(
    program: Program, file: FileFacts, nodes: list[ast.expr], depth: int, given: Given = NOTHING
) -> ProcessDifference | None:
    found = (find_process_difference(program, Place(file, node), depth + 1, given) for node in nodes)
    return next((one for one in found if one is not None), None)


def _difference_in_name(
    program: Program, file: FileFacts, node: ast.Name, depth: int, given: Given
) -> ProcessDifference | None:
    bindings, scope = lookup_bindings(file, node, node.id)
    if len(bindings) != 1:
        return None
    value = bindings[0].value
    if bindings[0].kind in ("assign", "walrus") and value is not None:
        return find_process_difference(program, Place(file, value), depth + 1, given)
    if bindings[0].kind in ("for", "comprehension") and value is not None:
        return find_process_difference(program, Place(file, value), depth + 1, given)
    if bindings[0].kind != "param" or scope is None:
        return None
    if isinstance(scope.node, ast.Lambda):
        tree = _find_mapped_tree(file, scope.node, node.id)
        return find_process_difference(program, Place(file, tree), depth + 1) if tree is not None else None
    answers = [find_process_difference(program, one, depth + 2) for one in calls_give(program, file, scope, node.id)]
    return answers[0] if answers and None not in answers else None


def _find_mapped_tree(file: FileFacts, function: ast.Lambda, name: str) -> ast.expr | None:
    """The tree whose leaves `tree.map(lambda x: ..., tree)` gives a parameter."""
    call = file.parent(function)
    names = [one.arg for one in function.args.args]
    if not isinstance(call, ast.Call) or last_name(call.func) not in ("map", "tree_map") or name not in names:
        return None
    at = names.index(name) + 1
    return call.args[at] if call.args and call.args[0] is function and at < len(call.args) else None


def _difference_in_attribute(
    program: Program, file: FileFacts, node: ast.Attribute, depth: int
) -> ProcessDifference | None:
    """A property of an object of the project, or what its class assigns to the attribute."""
    for cls in find_classes(program, Place(file, node.value)):
        inside = cls.place.file
        body = getattr(cls.place.node, "body", ())
        for method in body:
            if isinstance(method, ast.FunctionDef) and method.name == node.attr:
                is_value = any("property" in inside.source_text(one) for one in method.decorator_list)
                return _difference_in_result(program, Function(Place(inside, method)), depth) if is_value else None
        values = (
            list(stored_values(inside, cls.place.node, node.attr))
            if isinstance(cls.place.node, ast.ClassDef)
            else []
        )
        values = [one for one in values if not any(part is node for part in walk_nodes(one))]  # `self.x = put(self.x)`
        if len(values) > 1:
            values = [one for one in values if not _stores_its_argument(inside, one)]
        if values:
            return find_process_difference(program, Place(inside, values[0]), depth + 1) if len(values) == 1 else None
    fields = [*given_field(program, file, node), *_field_values(program, file, node)]
    answers = [find_process_difference(program, one, depth + 2) for one in fields]
    return answers[0] if answers and None not in answers else None


def _field_values(program: Program, file: FileFacts, node: ast.Attribute) -> Iterator[Place]:
    """Yield the values of a field in the calls that make the object."""
    for one in find_project_objects(program, Place(file, node.value)):
        names = tuple(program.evaluator.classes.objects.list_fields(one.by)) if isinstance(one.by, ClassValue) else ()
        place = one.call.argument_for(node.attr, names) if one.call is not None and node.attr in names else None
        if place is not None:
            yield place


def _stores_its_argument(file: FileFacts, node: ast.expr) -> bool:
    """Return whether a method stores its argument: the object replaces another one that was equal."""
    function = file.evaluation_scope(node).enclosing_function()
    arguments = getattr(getattr(function, "node", None), "args", None)
    if arguments is None or getattr(getattr(function, "node", None), "name", "__init__") == "__init__":
        return False
    names = {one.arg for one in (*arguments.args, *arguments.kwonlyargs)} - {"self"}
    read = any(isinstance(one, ast.Name) and one.id in names for one in walk_nodes(node))
    return read and "broadcast" not in file.source_text(node)


def _difference_in_call(
    program: Program, file: FileFacts, call: ast.Call, depth: int, given: Given
) -> ProcessDifference | None:
    arguments = [*call.args, *(one.value for one in call.keywords)]
    for option in evaluate_held_member(program, Place(file, call.func)):
        if isinstance(option, Function):
            return _difference_in_result(
                program, option, depth, _differences_by_parameter(program, file, call, option, depth, given)
            )
        if isinstance(option, Api):
            if option.name in ASKING:
                return ProcessDifference(Place(file, call), INDEX)
            at = _TURNING.get(option.name)
            if at is not None and len(call.args) > at:
                return find_process_difference(program, Place(file, call.args[at]), depth + 1, given)
            what = _describe_draw(program, file, option.name)
            if what is not None:
                return ProcessDifference(Place(file, call), what)
            if option.name in _GENERATORS:
                return _difference_in_generator(program, file, call, depth, given)
            passing = option.name.startswith(_PASSING) and last_name(call.func) not in _SHAPES
            return _find_any_difference(program, file, arguments, depth, given) if passing else None
    if isinstance(call.func, ast.Attribute):
        # `rng.normal(...)`, `x.astype(...)`, `"{}-{}".format(...)`
        formatted = arguments if call.func.attr in ("format", "join", "joinpath") else []
        return _find_any_difference(program, file, [call.func.value, *formatted], depth, given)
    return None


def _differences_by_parameter(
    program: Program, file: FileFacts, call: ast.Call, function: Function, depth: int, given: Given
) -> dict[str, ProcessDifference | None]:
    """For each parameter of a function that a call gives, what makes it another in each process."""
    written = {one.arg: one.value for one in call.keywords if one.arg is not None}
    if not any(isinstance(one, ast.Starred) for one in call.args):
        written |= dict(zip(function.positional_parameters, call.args, strict=False))
    return {name: find_process_difference(program, Place(file, one), depth + 1, given) for name, one in written.items()}


def _difference_in_generator(
    program: Program, file: FileFacts, call: ast.Call, depth: int, given: Given
) -> ProcessDifference | None:
    seeds = [*call.args, *(one.value for one in call.keywords)]
    if not seeds or (isinstance(seeds[0], ast.Constant) and seeds[0].value is None):
        return ProcessDifference(Place(file, call), "drawn without a seed")
    return _find_any_difference(program, file, seeds, depth, given)


def _difference_in_result(
    program: Program, function: Function, depth: int, given: Given = NOTHING
) -> ProcessDifference | None:
    file = function.place.file
    value = sole_returned_value(file, function.node)
    return find_process_difference(program, Place(file, value), depth + 1, given) if value is not None else None


def _describe_draw(program: Program, file: FileFacts, name: str) -> str | None:
    """Return a description of the result of a library function that differs between processes; None if the program
    seeds it.
    """
    if name in _SOURCES:
        return _SOURCES[name]
    if not name.startswith(_RANDOM) or name.rpartition(".")[2] not in _DRAWN:
        return None
    seeded = any(one.contains_text(text) for one in (file, *program.together(file)) for text in _SEEDING)
    return "a random number" if not seeded else None

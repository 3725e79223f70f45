"""What is done with one device that was taken from a list of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.held import assigned
from shardlint.model.reach import lookup
from shardlint.model.signatures import parameters_of
from shardlint.model.values import Api, ClassValue, Function, Place, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

_DEPTH = 5
_MOST = 40
# Where the functions of jax take the device that a value goes to.
_TARGETS = {
    "jax.device_put": (1, "device"),
    "jax.default_device": (0, "new_val"),
    "jax.sharding.SingleDeviceSharding": (0, "device"),
    "jax.config.update": (1, "val"),
}
_CREATORS = ("jax.numpy.", "jax.jit", "jax.random.")
_OWN = ("memory_stats", "live_buffers")
_BY_DEFAULT = "An array computed with it as the default device"


@dataclass(frozen=True)
class Use:
    """A use that needs the device to be one of this process: `what` it is for, in words, and the kind of it."""

    place: Place
    what: str
    kind: str


def uses(program: Program, place: Place, depth: int = 0) -> Iterator[Use]:
    """What becomes of an expression that is a device, nearest first; through names, attributes and calls."""
    if depth > _DEPTH:
        return
    file, node = place.file, place.node
    parent = file.parent(node)
    match parent:
        case ast.BoolOp() | ast.IfExp() if not (isinstance(parent, ast.IfExp) and parent.test is node):
            yield from uses(program, Place(file, parent), depth)
        case ast.Tuple() if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from _named(program, file, node, depth)
        case ast.NamedExpr():
            yield from _named(program, file, parent.target, depth)
            yield from uses(program, Place(file, parent), depth)
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _stored(program, file, target, depth)
        case ast.AnnAssign():
            yield from _stored(program, file, parent.target, depth)
        case ast.Return():
            yield from _returned(program, file, parent, depth)
        case ast.Lambda():
            yield from _called(program, file, parent, depth)
        case ast.Attribute(attr=attr) if attr in _OWN:
            yield Use(Place(file, parent), f"`{attr}()`", "own")
        case ast.For() | ast.comprehension() if parent.iter is node or parent.target is node:
            for name in each_of(file, parent):
                yield from _named(program, file, name, depth)
        case ast.Call(func=ast.Name(id="enumerate" | "list" | "sorted" | "reversed")):
            yield from uses(program, Place(file, parent), depth)
        case ast.Call():
            yield from _argument(program, file, parent, node, depth)
        case ast.keyword():
            call = file.parent(parent)
            if isinstance(call, ast.Call):
                yield from _argument(program, file, call, parent, depth)


def each_of(file: FileFacts, loop: ast.For | ast.comprehension) -> Iterator[ast.Name]:
    """The names that a loop over devices gives them one by one, where nothing asks whose they are."""
    whole = loop if isinstance(loop, ast.For) else file.parent(loop)
    text = file.text(whole) if whole is not None else "addressable"
    for name in loop.target.elts[1:] if isinstance(loop.target, ast.Tuple) else [loop.target]:
        if isinstance(name, ast.Name) and f"{name.id}.process_index" not in text:
            if "addressable" not in text and "local_" not in text:
                yield name


def _stored(program: Program, file: FileFacts, target: ast.expr, depth: int) -> Iterator[Use]:
    if isinstance(target, ast.Name):
        yield from _named(program, file, target, depth)
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        if target.value.id == "self":
            cls = next((one for one in file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
            if cls is not None:
                yield from _members(program, file, cls, target.attr, depth)


def _named(program: Program, file: FileFacts, target: ast.Name, depth: int) -> Iterator[Use]:
    """The reads of a name that this binding may reach."""
    home = file.home(target)
    for mention in file.mentions_in(home, target.id)[:_MOST]:
        if not isinstance(mention, ast.Name) or not isinstance(mention.ctx, ast.Load):
            continue
        bindings, _ = lookup(file, mention, target.id)
        if any(one.node is target for one in bindings):
            yield from uses(program, Place(file, mention), depth + 1)


def _members(program: Program, file: FileFacts, cls: ast.ClassDef, name: str, depth: int) -> Iterator[Use]:
    """The reads of an attribute that only one value is assigned to, in its class."""
    if len(list(assigned(file, cls, name))) > 1:
        return
    for mention in file.mentions_in(file.scope(cls), name)[:_MOST]:
        if isinstance(mention, ast.Attribute) and isinstance(mention.ctx, ast.Load):
            if isinstance(mention.value, ast.Name) and mention.value.id == "self":
                yield from uses(program, Place(file, mention), depth + 1)


def _returned(program: Program, file: FileFacts, statement: ast.Return, depth: int) -> Iterator[Use]:
    function = file.home(statement).function()
    if function is None or isinstance(function.node, ast.Lambda):
        return
    node = function.node
    decorated = [file.text(one) for one in getattr(node, "decorator_list", ())]
    if any("property" in one for one in decorated):
        if function.parent is not None and isinstance(function.parent.node, ast.ClassDef):
            yield from _members(program, file, function.parent.node, function.name, depth)
        return
    yield from _called(program, file, node, depth)


def _called(program: Program, file: FileFacts, node: ast.AST, depth: int) -> Iterator[Use]:
    """The calls of a function that returns the device."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for place in program.flow.ends(file, node).called(_MOST):
        yield from uses(program, place, depth + 1)


def _argument(program: Program, file: FileFacts, call: ast.Call, given: ast.AST, depth: int) -> Iterator[Use]:
    for option in options(program.value(file, call.func)):
        if isinstance(option, Api):
            name = option.name
            if name == "functools.partial" and isinstance(given, ast.keyword) and call.args:
                name = next(
                    (one.name for one in options(program.value(file, call.args[0])) if isinstance(one, Api)),
                    "",
                )
            found = _target(file, name, call, given)
            if found is not None:
                yield Use(Place(file, call), found, "placed")
            elif option.name == "jax.sharding.SingleDeviceSharding":
                yield from uses(program, Place(file, call), depth + 1)
        elif isinstance(option, Function):
            yield from _parameter(program, file, call, given, option, depth)
        elif isinstance(option, ClassValue):
            made = _init(program, option)
            if made is not None:
                yield from _parameter(program, file, call, given, made, depth)


def _target(file: FileFacts, name: str, call: ast.Call, given: ast.AST) -> str | None:
    """What a library function does with a device that is given to it."""
    keyword = given.arg if isinstance(given, ast.keyword) else None
    if name in _TARGETS:
        here = _is_given(call, given, *_TARGETS[name])
        if name == "jax.config.update":
            first = call.args[0] if call.args else None
            here = here and isinstance(first, ast.Constant) and first.value == "jax_default_device"
        is_default = name in ("jax.default_device", "jax.config.update")
        return (_BY_DEFAULT if is_default else "An array placed on it") if here else None
    if keyword == "device" and name.startswith(_CREATORS):
        return "An array made on it"
    return None


def _init(program: Program, cls: ClassValue) -> Function | None:
    """The `__init__` that a class or one of its bases has."""
    for one in program.evaluator.lineage(cls):
        inside = one.place.file
        bound = inside.bindings(inside.scope(one.node), "__init__")
        if bound and isinstance(bound[0].node, ast.FunctionDef):
            return Function(Place(inside, bound[0].node), True, one)
    return None


def _is_given(call: ast.Call, given: ast.AST, at: int, parameter: str) -> bool:
    """Whether an argument is the one for a parameter of a library function."""
    if isinstance(given, ast.keyword):
        return given.arg == parameter
    return at < len(call.args) and call.args[at] is given


def _parameter(
    program: Program, file: FileFacts, call: ast.Call, given: ast.AST, function: Function, depth: int
) -> Iterator[Use]:
    """The reads of the parameter that the device is given for."""
    definition = function.node
    if isinstance(definition, ast.Lambda) or depth >= _DEPTH:
        return
    taken = parameters_of(function, program.evaluator)
    bound = (taken.bind(program.evaluator.arguments(Place(file, call))) or {}) if taken is not None else {}
    value = given.value if isinstance(given, ast.keyword) else given
    inside = function.place.file
    for name, place in bound.items():
        if place.node is value:
            for mention in inside.mentions_in(inside.scope(definition), name)[:_MOST]:
                if isinstance(mention, ast.Name) and isinstance(mention.ctx, ast.Load):
                    bindings, _ = lookup(inside, mention, name)
                    if any(one.kind == "param" for one in bindings):
                        yield from uses(program, Place(inside, mention), depth + 1)

"""Uses of one device that was taken from a list of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.values import Api, Place, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint_rules.processes.value_uses import find_reads, next_reads_of_value

_DEPTH = 5
# Where the functions of jax take the device that a value goes to.
_TARGETS = {
    "jax.device_put": (1, "device"),
    "jax.default_device": (0, "new_val"),
    "jax.sharding.SingleDeviceSharding": (0, "device"),
    "jax.config.update": (1, "val"),
}
_CREATORS = ("jax.numpy.", "jax.jit", "jax.random.")
_OWN = ("memory_stats", "live_buffers")
_BY_DEFAULT = "an array that is computed with this default device"


@dataclass(frozen=True)
class Use:
    """A use that needs the device to be one of this process: `what` it is for, in words, and the kind of it."""

    place: Place
    what: str
    kind: str


def find_device_uses(program: Program, place: Place, depth: int = 0) -> Iterator[Use]:
    """Yield the uses of an expression that is a device, nearest first, through names, attributes and calls."""
    if depth > _DEPTH:
        return
    file, node = place.file, place.node
    parent = file.parent(node)
    match parent:
        case ast.BoolOp() | ast.IfExp() if not (isinstance(parent, ast.IfExp) and parent.test is node):
            yield from find_device_uses(program, Place(file, parent), depth)
        case ast.Tuple() if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from _follow_each(program, file, find_reads(file, node), depth)
        case ast.Attribute(attr=attr) if attr in _OWN:
            yield Use(Place(file, parent), f"`{attr}()`", "memory-stats")
        case ast.For() | ast.comprehension() if parent.iter is node or parent.target is node:
            for name in names_of_loop_devices(file, parent):
                yield from _follow_each(program, file, find_reads(file, name), depth)
        case ast.Call(func=ast.Name(id="enumerate" | "list" | "sorted" | "reversed")):
            yield from find_device_uses(program, Place(file, parent), depth)
        case _:
            if isinstance(parent, ast.NamedExpr):
                yield from find_device_uses(program, Place(file, parent), depth)
            given, call = (parent, file.parent(parent)) if isinstance(parent, ast.keyword) else (node, parent)
            if isinstance(call, ast.Call):
                yield from _find_placements(program, file, call, given, depth)
            for one in next_reads_of_value(program, place):
                yield from find_device_uses(program, one, depth + 1)


def _follow_each(program: Program, file: FileFacts, names: Iterator[ast.expr], depth: int) -> Iterator[Use]:
    for name in names:
        yield from find_device_uses(program, Place(file, name), depth + 1)


def names_of_loop_devices(file: FileFacts, loop: ast.For | ast.comprehension) -> Iterator[ast.Name]:
    """The names that a loop over devices gives them one by one, where nothing asks whose they are."""
    whole = loop if isinstance(loop, ast.For) else file.parent(loop)
    text = file.source_text(whole) if whole is not None else "addressable"
    for name in loop.target.elts[1:] if isinstance(loop.target, ast.Tuple) else [loop.target]:
        if isinstance(name, ast.Name) and f"{name.id}.process_index" not in text:
            if "addressable" not in text and "local_" not in text:
                yield name


def _find_placements(program: Program, file: FileFacts, call: ast.Call, node: ast.AST, depth: int) -> Iterator[Use]:
    """Yield the uses of a device by a call of a library function."""
    for option in options(program.value(file, call.func)):
        name = option.name if isinstance(option, Api) else ""
        if name == "functools.partial" and isinstance(node, ast.keyword) and call.args:
            inner = options(program.value(file, call.args[0]))
            name = next((one.name for one in inner if isinstance(one, Api)), "")
        found = _use_by_library(name, call, node)
        if found is not None:
            yield Use(Place(file, call), found, "placed")
        elif name == "jax.sharding.SingleDeviceSharding":
            yield from find_device_uses(program, Place(file, call), depth + 1)


def _use_by_library(name: str, call: ast.Call, node: ast.AST) -> str | None:
    """Return the use that a library function makes of a device passed to it."""
    keyword = node.arg if isinstance(node, ast.keyword) else None
    if name in _TARGETS:
        here = _is_given(call, node, *_TARGETS[name])
        if name == "jax.config.update":
            first = call.args[0] if call.args else None
            here = here and isinstance(first, ast.Constant) and first.value == "jax_default_device"
        is_default = name in ("jax.default_device", "jax.config.update")
        return (_BY_DEFAULT if is_default else "an array placed on this device") if here else None
    if keyword == "device" and name.startswith(_CREATORS):
        return "an array made on this device"
    return None


def _is_given(call: ast.Call, node: ast.AST, at: int, parameter: str) -> bool:
    """Return whether an argument is the one for a parameter of a library function."""
    if isinstance(node, ast.keyword):
        return node.arg == parameter
    return at < len(call.args) and call.args[at] is node

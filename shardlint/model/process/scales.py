"""Whose a number is: of one device, of one process or of all. Counts lead from one to the next.

A scale says how often a number has been multiplied by the processes there are, and by the devices of one process. So
`jax.device_count()` is both once, and a batch of one process divided by it is no batch of anybody.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.reach import assigned_once
from shardlint.model.values import CallResult, options
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, last_name

if TYPE_CHECKING:
    from shardlint.model import Program

Scale = tuple[int, int]
"""Powers of the number of processes, and of the number of devices of one."""
DEVICE, PROCESS, ALL, PROCESSES = (0, 0), (0, 1), (1, 1), (1, 0)
ANY = frozenset((DEVICE, PROCESS, ALL))
WORDS = {DEVICE: "of one device", PROCESS: "of one process", ALL: "of all processes"}
COUNTS: dict[str, Scale] = {
    "jax.device_count": ALL,
    "jax.local_device_count": PROCESS,
    "jax.process_count": PROCESSES,
    "jax.host_count": PROCESSES,
}
"""What jax tells of how many there are."""
LISTS: dict[str, Scale] = {"jax.devices": ALL, "jax.local_devices": PROCESS}
"""And what it lists."""
_DEPTH = 6
CASTS = ("int", "round", "float", "ceil", "floor")
"""What leaves a number one of the same."""

_EXAMPLES = r"(?:batch(?:_?size)?|bsz?|examples|prompts)"
IS_BATCH = regex(rf"(?i)(?:^|_){_EXAMPLES}(?:$|_per_|_global$|_local$|_size|_to_)")
"""Names of numbers of examples."""
_PER_DEVICE = regex(rf"(?i)per_?(?:device|core|chip|gpu|tpu)(?:$|_)|(?:^|_)device_{_EXAMPLES}(?:$|_size)")
_PER_PROCESS = regex(rf"(?i)per_?(?:host|process|proc)(?:$|_)|(?:^|_)(?:host|process)(?:_\w+)?_{_EXAMPLES}$")
_OF_ALL = regex(r"(?i)(?:^|_)(?:global|overall)(?:$|_)")
_LOCAL = regex(r"(?i)(?:^|_)local(?:$|_)")
_THINGS = r"(?:devices|cores|chips|gpus|tpus)"
_OWN_DEVICES = regex(
    rf"(?i)^(?:n|num|nr)_?local_?{_THINGS}$|^local_(?:num_)?{_THINGS}(?:_count|_to_use)?$|^local_device_count$"
    rf"|(?:^|_){_THINGS}_per_(?:host|process)$"
)
_ALL_DEVICES = regex(rf"(?i)^(?:n|num|nr)_?global_?{_THINGS}$|^global_(?:num_)?{_THINGS}$|^global_device_count$")
OWN_SHARDS = regex(r"(?i)^(?:(?:n|num|nr)_?local_?|local_(?:num_)?)(?:shards|replicas|devices)$")
"""Names of numbers of what a process has of something."""
# What a number of examples is multiplied with, or divided by, that is of nobody.
_OF_NOBODY = regex(r"(?i)accum|micro|epoch|step|seq|len|repeat|factor|unroll|scale")


@dataclass(frozen=True)
class Amount:
    """The scales that a number may be of. `plain`: it is a number of nothing; `counted`: made of counts alone."""

    scales: frozenset[Scale]
    plain: bool = False
    counted: bool = False


_PLAIN = Amount(frozenset((DEVICE,)), plain=True)


def named(name: str) -> frozenset[Scale]:
    """The scales that a name leaves a number, all three for a batch of somebody; empty where it says nothing."""
    if _OWN_DEVICES.search(name):
        return frozenset((PROCESS,))
    if _ALL_DEVICES.search(name):
        return frozenset((ALL,))
    if not IS_BATCH.search(name):
        return frozenset()
    device, process, everybody = (bool(one.search(name)) for one in (_PER_DEVICE, _PER_PROCESS, _OF_ALL))
    if device + process + everybody > 1:
        return frozenset()
    if device or process or everybody:
        return frozenset((DEVICE if device else PROCESS if process else ALL,))
    return frozenset((PROCESS, DEVICE)) if _LOCAL.search(name) else ANY


def key(node: ast.expr) -> str:
    """The name of a variable, an attribute or a setting: `config["batch"]`, `config.get("batch")`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
        case ast.Call():
            return ""
    return last_name(node)


def count(program: Program, file: FileFacts, node: ast.expr) -> Scale | None:
    """The scale of a number of devices or processes that jax tells."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return _of(program, file, node.args[0], LISTS)
    return _of(program, file, node, COUNTS)


def _of(program: Program, file: FileFacts, node: ast.expr, table: dict[str, Scale]) -> Scale | None:
    if not isinstance(node, ast.Call | ast.Name | ast.Attribute):
        return None
    found = {
        table.get(one.api) if isinstance(one, CallResult) and one.api is not None else None
        for one in options(program.value(file, node))
    }
    return found.pop() if len(found) == 1 else None


def amount(program: Program, file: FileFacts, node: ast.expr, depth: int = 0) -> Amount | None:
    """Whose a number is, by the counts it is made of and by names; None where that is not known."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Constant(value=int() | float()):
            return _PLAIN
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
            told = count(program, file, node)
            if told is not None:
                return Amount(frozenset((told,)), counted=True)
            return _read(program, file, node, depth)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant()):
            return amount(program, file, left, depth + 1)
        case ast.BinOp(left=left, op=ast.Mult() | ast.FloorDiv() | ast.Div() as op, right=right):
            one, other = amount(program, file, left, depth + 1), amount(program, file, right, depth + 1)
            return _combined(one, other, 1 if isinstance(op, ast.Mult) else -1)
        case ast.IfExp(body=body, orelse=ast.Constant()):
            return amount(program, file, body, depth + 1)
    return None


def _read(program: Program, file: FileFacts, node: ast.expr, depth: int) -> Amount | None:
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in CASTS and len(node.args) == 1:
            return amount(program, file, node.args[0], depth + 1)
        if name in ("max", "min") and len(node.args) == 2:
            left = [one for one in node.args if not isinstance(one, ast.Constant)]
            return amount(program, file, left[0], depth + 1) if len(left) == 1 else None
    if isinstance(node, ast.Name):
        bound = assigned_once(file, node)
        found = amount(program, file, bound, depth + 1) if bound is not None else None
        if found is not None and not found.plain:
            both = found.scales & named(node.id)
            return Amount(both) if both else found
    name = key(node)
    scales = named(name)
    if scales:
        return Amount(scales)
    return _PLAIN if name and _OF_NOBODY.search(name) and not IS_BATCH.search(name) else None


def _combined(one: Amount | None, other: Amount | None, sign: int) -> Amount | None:
    if one is None or other is None:
        return None
    if other.plain:
        return with_number(one) if sign > 0 else one
    if one.plain:
        return with_number(other) if sign > 0 else None
    scales = frozenset((a + sign * c, b + sign * d) for a, b in one.scales for c, d in other.scales)
    return Amount(scales, counted=one.counted and other.counted)


def with_number(of: Amount) -> Amount:
    """`8 * jax.device_count()`: whose eight are is not said. A batch is of the same after it."""
    if not of.counted:
        return of
    return Amount(frozenset((a + c, b + d) for a, b in of.scales for c, d in ANY))

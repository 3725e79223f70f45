"""Counts of devices or processes in arithmetic that cannot be right."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import settled_expression
from shardlint.facts.processes.conditions import is_index
from shardlint.facts.processes.count_scales import ALL, PROCESS, PROCESSES, Scale, count_scale
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.processes.value_uses import reads_of_same_value

_CAST = ("int", "round", "float", "ceil", "floor", "max", "min")
_SHAPING = ("reshape", "empty", "zeros", "ones", "full", "create_device_mesh", "make_mesh", "broadcast_to")
_SEED = compile_lazily(r"(?i)seed|rng")
_SEEDING = compile_lazily(r"(?i)^(?:fold_in|prng_?key|key|seed|default_rng|set_seed|split)$")


@dataclass(frozen=True)
class CountConflict:
    """A count that does not fit its use. `instead` is the count to write, if there is one; else `help` says it."""

    node: ast.expr
    message: str
    form: str
    why: str
    instead: str = ""
    help: str = ""


def find_count_conflicts(site: Site) -> Iterator[CountConflict]:
    """The uses of a site's count that cannot be right."""
    file, program = site.file, site.program
    counted = counting_expression(site)
    scale = count_scale(program, file, counted)
    if scale is None:
        return
    for use in uses_of(site, counted):
        found = (
            _find_self_comparison(site, use, scale)
            or _find_double_count(site, use, scale)
            or _find_device_offset(site, use, scale)
        )
        if found is not None:
            yield found


def uses_of(site: Site, counted: ast.expr) -> Iterator[ast.expr]:
    """A count, what stands for it, and the calls of a function of the file that returns it."""
    file = site.file
    yield from reads_of_same_value(file, counted)
    function = file.evaluation_scope(counted).enclosing_function()
    if function is None or not isinstance(file.parent(counted), ast.Return):
        return
    scale = count_scale(site.program, file, counted)
    for one in file.find_mentions(function.name):
        parent = file.parent(one)
        read = parent if isinstance(parent, ast.Call) and parent.func is one else one
        if isinstance(read, ast.Call | ast.Attribute) and count_scale(site.program, file, read) == scale:
            yield from reads_of_same_value(file, read)


def counting_expression(site: Site) -> ast.expr:
    """The expression that is the number: the call, or `len` of it."""
    assert isinstance(site.call, ast.Call)
    parent = site.file.parent(site.call)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len":
        return parent
    return site.call


def enclosing_product(file: FileFacts, node: ast.expr) -> tuple[ast.expr, int]:
    """The whole product that a number is a factor of, and -1 where it is divided by."""
    sign = 1
    while True:
        parent = file.parent(node)
        match parent:
            case ast.BinOp(op=ast.Mult()):
                pass
            case ast.BinOp(op=ast.FloorDiv() | ast.Div(), right=right):
                sign = -sign if right is node else sign
            case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant()):
                pass
            case ast.Call(func=func) if last_name(func) in _CAST and node in parent.args:
                pass
            case ast.IfExp(body=body, orelse=ast.Constant()) if body is node:
                pass
            case _:
                return node, sign
        assert isinstance(parent, ast.expr)
        node = parent


def _find_self_comparison(site: Site, use: ast.expr, scale: Scale) -> CountConflict | None:
    """`jax.device_count() // len(jax.devices())`, `jax.device_count() == jax.device_count()`."""
    parent = site.file.parent(use)
    match parent:
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Div() | ast.Mod() as op, right=right):
            gives = "0" if isinstance(op, ast.Mod) else "1"
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() | ast.Gt() | ast.Lt() as op], comparators=[right]
        ):
            gives = "true" if isinstance(op, ast.Eq) else "false"
        case _:
            return None
    if right is not use:
        return None  # told at the right one
    if isinstance(site.file.parent(parent), ast.Assert) or not (
        _counts_all_platforms(site, left) and _counts_all_platforms(site, use)
    ):
        return None
    if count_scale(site.program, site.file, left) != scale:
        return None
    return CountConflict(
        use,
        f"`{site.shown(parent)}` is always {gives}: both sides count {_describe_counts(scale)}.",
        "count-by-itself",
        "the two calls return the same number on every process",
        help="write `jax.process_count()` or `jax.local_device_count()` on one side, whichever you mean",
    )


def _counts_all_platforms(site: Site, node: ast.expr) -> bool:
    """Return whether a count is that of all platforms."""
    node = settled_expression(site.file, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
        node = settled_expression(site.file, node.args[0])
    return isinstance(node, ast.Call) and not node.args and not node.keywords


def _find_double_count(site: Site, use: ast.expr, scale: Scale) -> CountConflict | None:
    """`jax.process_count() * jax.device_count()`, and a shape of both."""
    file, parent = site.file, site.file.parent(use)
    if scale == PROCESSES and isinstance(parent, ast.BinOp) and parent.right is use:
        if isinstance(parent.op, ast.FloorDiv) and count_scale(site.program, file, parent.left) == PROCESS:
            return CountConflict(
                parent.left,
                f"`{site.shown(parent)}` is too small: it divides a per-process count by the number of processes.",
                "twice",
                "jax.local_device_count() counts the devices of one process only",
                help="remove the division, or divide the global count `jax.device_count()`",
            )
    if scale != ALL:
        return None
    others: list[ast.expr] = []
    match parent:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            others = _factors_of_product(left if right is use else right)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            call = file.parent(parent)
            if isinstance(call, ast.Call) and last_name(call.func) in _SHAPING:
                others = elts
        case ast.Call(args=args) if last_name(parent.func) == "reshape":
            others = args
    beside = any(count_scale(site.program, file, one) == PROCESSES for one in others if one is not use)
    if parent is None or not beside:
        return None
    return CountConflict(
        use,
        f"`{site.shown(parent)}` is too large: it multiplies a global count by the number of processes.",
        "twice",
        "jax.device_count() is already the number of devices of all processes",
        "jax.local_device_count",
    )


def _factors_of_product(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors_of_product(node.left), *_factors_of_product(node.right)]
    return [node]


def _find_device_offset(site: Site, use: ast.expr, scale: Scale) -> CountConflict | None:
    """`jax.process_index() * jax.device_count() + i`: where the devices of a process begin."""
    file, parent = site.file, site.file.parent(use)
    if scale != ALL or not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Mult):
        return None
    other = parent.left if parent.right is use else parent.right
    if not is_index(site.program, Place(file, other)):
        return None
    told = [last_name(one.func) for one in file.ancestors(parent) if isinstance(one, ast.Call)]
    if any(_SEEDING.search(one) for one in told) or _SEED.search(file.source_text(file.statement(parent))):
        return None  # other numbers for each process and device all the same
    return CountConflict(
        use,
        f"`{site.shown(parent)}` exceeds the device count on processes 1 and up: it multiplies by the global count.",
        "offset",
        "the first device of process i has the number i * jax.local_device_count()",
        "jax.local_device_count",
    )


def _describe_counts(scale: Scale) -> str:
    return {
        ALL: "the devices of all processes",
        PROCESS: "the devices of one process",
        PROCESSES: "the processes",
    }.get(scale, "a count")

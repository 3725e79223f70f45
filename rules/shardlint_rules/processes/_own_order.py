"""Orders that each process draws for itself, and of which it then takes its part by its index."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import find_binding_reads
from shardlint.model import Program
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.per_process_values import INDEX, ProcessDifference, find_process_difference

KEYED = ("jax.random.permutation", "jax.random.choice")
DRAWS = ("permutation", "permuted", "shuffle", "sample")
_SPLITTING = ("array_split", "split", "hsplit")
_PASSING = ("reshape", "array", "asarray", "tolist", "list", "tuple", "astype", "int32", "int64", "device_get", "copy")
_DEPTH = 6


@dataclass(frozen=True)
class OwnOrder:
    """A random order with a seed that differs between processes, and the place where parts are taken by it."""

    seed: ast.expr
    own: ProcessDifference
    taken: ast.expr


def find_differing_order(site: Site) -> OwnOrder | None:
    """The order that a site draws, if each process draws another one and takes its part of it by its index."""
    call = site.call
    if site.api in KEYED:
        drawn_with = call.args[0] if call.args else None
    else:
        drawn_with = call.func.value if isinstance(call.func, ast.Attribute) else None
    if drawn_with is None:
        return None
    taken = next(_find_process_parts(site.program, site.file, call, 0), None)
    if taken is None:
        return None
    own = find_process_difference(site.program, Place(site.file, drawn_with))
    if own is None or own.what != INDEX:
        return None
    return OwnOrder(_find_generator_creation(site, drawn_with), own, taken)


def _find_generator_creation(site: Site, drawn_with: ast.expr) -> ast.expr:
    """Where the generator or the key is made, in the function that draws."""
    while isinstance(drawn_with, ast.Name):
        bindings, scope = lookup_bindings(site.file, drawn_with, drawn_with.id)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        if value is None or scope is None or scope.enclosing_function() is not site.scope.enclosing_function():
            break
        drawn_with = value
    return drawn_with


def _find_process_parts(program: Program, file: FileFacts, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """Where a process takes its part of an order by its index."""
    if depth > _DEPTH:
        return
    parent = file.parent(node)
    match parent:
        case ast.Subscript(value=value, slice=index) if value is node:
            if _is_offset_by_process(program, file, index):
                yield parent
            elif isinstance(index, ast.Slice) and index.step is None and index.lower is None:
                yield from _find_process_parts(program, file, parent, depth + 1)
        case ast.Call(func=func, args=[first, *rest]) if first is node:
            name = last_name(func)
            if name == "islice" and any(_is_offset_by_process(program, file, one) for one in rest):
                yield parent
            elif name in _SPLITTING or name in _PASSING:
                yield from _find_process_parts(program, file, parent, depth + 1)
        case ast.Attribute(attr=attr) if attr in _PASSING or attr in _SPLITTING:
            outer = file.parent(parent)
            if isinstance(outer, ast.Call) and outer.func is parent:
                yield from _find_process_parts(program, file, outer, depth + 1)
        case ast.Assign(targets=[ast.Name() as target]):
            for read, _ in find_binding_reads(file, target):
                yield from _find_process_parts(program, file, read, depth + 1)
        case ast.Expr() if isinstance(node, ast.Call) and last_name(node.func) == "shuffle":
            yield from _find_parts_after_shuffle(program, file, node, depth)


def _find_parts_after_shuffle(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Iterator[ast.expr]:
    """The parts that are taken of a list after it was shuffled in place."""
    given = call.args[0] if call.args else None
    if not isinstance(given, ast.Name | ast.Attribute):
        return
    written = file.source_text(given)
    function = file.evaluation_scope(call).enclosing_function()
    for one in walk_nodes(function.node) if function is not None else ():
        if isinstance(one, ast.Name | ast.Attribute) and one.lineno > call.lineno and file.source_text(one) == written:
            yield from _find_process_parts(program, file, one, depth + 1)


def _is_offset_by_process(program: Program, file: FileFacts, index: ast.expr) -> bool:
    """Return whether an index or a slice begins at an offset computed from the process index."""
    first = index.lower if isinstance(index, ast.Slice) else index
    if isinstance(first, ast.Tuple) and first.elts:
        first = first.elts[0]
        first = first.lower if isinstance(first, ast.Slice) else first
    found = find_process_difference(program, Place(file, first)) if first is not None else None
    return found is not None and found.what == INDEX

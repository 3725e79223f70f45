"""Per-process rows of an array that the first process alone writes as if they were the whole array."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import find_binding_reads
from shardlint.facts.controlled_code import find_result_uses
from shardlint.facts.processes.conditions import multi_process_evidence
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint_rules.processes.single_process_code import left_to_one

_WRITES = compile_lazily(
    r"(?i)^(?:np|numpy|jnp|json|pickle|cv2|imageio|torch)?\.?_?(?:save\w*|dump|mimsave|imwrite|mimwrite|to_csv|tofile"
    r"|write(?:_\w+|row|rows|lines)?|export\w*)$"
)
# Where the array may lie whole on this process, or comes from all of them.
_WHOLE = compile_lazily(
    r"allgather|all_gather|fully_addressable|fully_replicated|local_devices|local_mesh|process_count|replicate"
)
_KEEPING = frozenset(
    "asarray array reshape astype transpose squeeze copy device_get list tolist enumerate".split()
)
_DEPTH = 6


def written_by_first(site: Site, joined: ast.Call) -> Place | None:
    """The call by which one process alone writes what is made of its own shards, where nothing else reads them."""
    function = site.file.evaluation_scope(joined).enclosing_function()
    if (
        function is None
        or _WHOLE.search(site.text(function.node))
        or not multi_process_evidence(site.program, site.file)
    ):
        return None
    uses = list(_find_row_uses(site, Place(site.file, joined), 0))
    written = [_find_writing_call(one) for one in uses]
    if not uses or None in written or not all(left_to_one(site.program, one) for one in uses):
        return None
    return written[0]


def _find_row_uses(site: Site, place: Place, depth: int) -> Iterator[Place]:
    """Where the rows are read, through names, what keeps them, and what a function returns."""
    file, node = place.file, place.node
    parent = file.parent(node)
    if depth > _DEPTH:
        yield place
        return
    match parent:
        case ast.Call() if node in parent.args[:1] and last_name(parent.func) in _KEEPING:
            yield from _find_row_uses(site, Place(file, parent), depth + 1)
        case ast.Attribute(attr=name) if name in _KEEPING:
            outer = file.parent(parent)
            yield from _find_row_uses(site, Place(file, outer if isinstance(outer, ast.Call) else parent), depth + 1)
        case ast.BinOp():
            yield from _find_row_uses(site, Place(file, parent), depth + 1)
        case ast.Assign(targets=[ast.Name() as target]):
            for read, _ in find_binding_reads(file, target):
                yield from _find_row_uses(site, Place(file, read), depth + 1)
        case ast.For(iter=inner) if inner is node:
            last = parent.target.elts[-1] if isinstance(parent.target, ast.Tuple) else parent.target
            for read, _ in find_binding_reads(file, last) if isinstance(last, ast.Name) else ():
                yield from _find_row_uses(site, Place(file, read), depth + 1)
        case ast.Return():
            for use in find_result_uses(site.program, file, parent):
                yield from _find_row_uses(site, use, depth + 1)
        case _:
            yield place


def _find_writing_call(place: Place) -> Place | None:
    """The call that writes what stands at a place."""
    for outer in place.file.ancestors(place.node):
        if isinstance(outer, ast.Call) and _WRITES.search(place.file.source_text(outer.func).rpartition(".")[2]):
            return Place(place.file, outer)
        if isinstance(outer, ast.stmt):
            return None
    return None

"""`dataset.shard(count, index)` at the end of a chain of methods, and what stands before it. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.processes.conditions import is_index
from shardlint.model.values import CallResult, Constant, Place, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.enclosing import enclosing_block

_COUNTS = ("jax.process_count", "jax.host_count")
# By what tf.data shows at the beginning of a chain.
_TENSORFLOW = ("tf.data.", "tensorflow.data.", "tfds.")
_DEPTH = 20


def find_unseeded_shuffle(site: Site) -> tuple[ast.Call, ast.expr] | None:
    """The shuffle without a seed after which a process takes its part, and the index by which it does."""
    index = next((one for one in _all_arguments(site) if is_index(site.program, Place(site.file, one))), None)
    if index is None:
        return None
    for call in _earlier_method_calls(site.file, site.call):
        name = last_name(call.func)
        if name == "shard":
            return None  # the part was taken before
        if name == "shuffle" and isinstance(call.func, ast.Attribute):
            return None if _may_have_seed(call) else (call, index)
        if name == "list_files" and not _may_have_seed(call):
            return None if _passes_argument(site, call, "shuffle", False) else (call, index)
    return None


def find_swapped_arguments(site: Site) -> ast.expr | None:
    """The index of the process where the number of parts must stand, with the number where the index must."""
    named = {one.arg: one.value for one in site.call.keywords}
    given = site.call.args
    count = named.get("num_shards") or (given[0] if given else None)
    index = named.get("index") or (given[1] if len(given) > 1 else None)
    if count is None or index is None or not is_index(site.program, Place(site.file, count)):
        return None
    found = options(site.value(index))
    if not all(isinstance(one, CallResult) and one.api in _COUNTS for one in found):
        return None
    if "num_shards" in named:
        return count
    # The datasets of others may take the index first.
    known = any(
        site.file.source_text(one.func).startswith(_TENSORFLOW)
        for one in _earlier_method_calls(site.file, site.call)
    )
    return count if known else None


def _all_arguments(site: Site) -> list[ast.expr]:
    return [*site.call.args, *(one.value for one in site.call.keywords)]


def _may_have_seed(call: ast.Call) -> bool:
    """Return whether a shuffle may have a seed."""
    return len(call.args) > 1 or any(one.arg in (None, "seed") for one in call.keywords)


def _passes_argument(site: Site, call: ast.Call, name: str, value: object) -> bool:
    return any(one.arg == name and site.value(one.value) == Constant(value) for one in call.keywords)


def _earlier_method_calls(file: FileFacts, call: ast.Call) -> Iterator[ast.Call]:
    """The calls of methods before one in a chain, the last one first, through names that were bound just before."""
    node: ast.expr = call.func
    for _ in range(_DEPTH):
        match node:
            case ast.Attribute(value=inner):
                node = inner
            case ast.Call():
                yield node
                node = node.func
            case ast.Name():
                before = _last_value_before(file, node)
                if before is None:
                    return
                node = before
            case _:
                return


def _last_value_before(file: FileFacts, name: ast.Name) -> ast.expr | None:
    """Return the last value bound to a name before, in the same block."""
    statement = file.statement(name)
    block = enclosing_block(file, statement) if isinstance(statement, ast.stmt) else []
    at = next((index for index, one in enumerate(block) if one is statement), 0)
    for one in reversed(block[:at]):
        match one:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name.id:
                return value
        if any(isinstance(inner, ast.Name) and inner.id == name.id and isinstance(inner.ctx, ast.Store)
               for inner in ast.walk(one)):
            return None
    return None

"""SL411."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.bound_names import find_binding_reads
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

# What asks whether a value is an array at all.
_KINDS = compile_lazily(r"isinstance|hasattr|callable|is_(?:\w+_)?(?:array|tracer|leaf|number|scalar)(?:_like)?$")
# What puts back the dimension that an untiled psum_scatter takes.
_ARRANGES = ("reshape", "rearrange", "expand_dims", "collapse", "concatenate", "broadcast_to")


class UntiledGather(Rule):
    """An untiled `all_gather` or `psum_scatter` changes the rank of the array.

    Without `tiled=True`, eight shards of shape (4, 16) become (8, 4, 16) instead of (32, 16). Later code often runs
    without an error: a mean over dimension 0 averages over the devices, and shapes broadcast. Untiled `psum_scatter`
    removes the scattered dimension, and raises ValueError if this dimension is longer than the axis.

    ## Reports
    - proven: `all_gather` of an array in a function that returns the array without the gather on another branch.
    - proven: a product with the gathered array that raises: a matrix product whose sizes do not fit, or an `einsum`
      whose letters name only the dimensions of a shard.
    - `reshaped` (likely): a gathered array that is reshaped to the first dimension of a shard, as in
      `jax.lax.all_gather(w, axis).reshape(w.shape[0], -1)`. The shape is right, but the numbers are permuted.
    - `scatter` (likely): untiled `psum_scatter` of an array that has no dimension for the devices.

    ## Limits
    Not reported: other code that indexes, reduces or reshapes along the new dimension, and products of arrays whose
    shapes the code does not show.
    """

    code = "SL411"
    name = "untiled-gather"
    harm = Harm.SILENT
    likely = ("scatter", "reshaped")
    assumptions: ClassVar[Mapping[str, str]] = {
        "scatter": "The dimension is longer than the axis.",
        "reshaped": "The array is sharded along a dimension other than the first.",
    }
    triggers = (Calls("jax.lax.all_gather", "jax.lax.psum_scatter"), Violates("stack.product", "stack.reshaped"))
    fixes = "none"

    @detector("call", of="jax.lax.psum_scatter", finds="scatter")
    def report_scatter(self, site: Site) -> Finding | None:
        """A scatter without `tiled` of what has no dimension for the devices."""
        node = _find_untiled(site)
        if node is None or _is_arranged_by_device(site, node) or _is_arranged_later(site):
            return None
        return site.finding(
            site.call,
            f"`psum_scatter` of `{site.shown(node)}` raises or removes a dimension: `tiled=True` is missing.",
            label="not tiled",
            help="write `tiled=True`, which keeps the dimension",
            harm=Harm.CRASH,
            why="without tiled=True, the scattered dimension must have the size of the mesh axis, and is removed",
        )

    @detector("call", of="jax.lax.all_gather")
    def report_gather(self, site: Site) -> Finding | None:
        """A gather without `tiled` whose result is used as one with it."""
        node = _find_untiled(site)
        if node is None or not _may_return_unchanged(site, node):
            return None
        return site.finding(
            site.call,
            f"`all_gather` adds a dimension to `{site.shown(node)}`; the other branch returns the array without it.",
            label="not tiled",
            help="write `tiled=True`",
            why="without tiled=True, the shards are stacked along a new dimension",
        )

    @detector("violation", of="stack.reshaped", finds="reshaped")
    def report_reshape(self, site: Site) -> Finding:
        """A stack that is reshaped as if the devices were not its first dimension."""
        return site.report_violation(
            "The reshape puts entries in the wrong order: `all_gather` stacks the shards along a new dimension 0.",
            help="remove the reshape and write `all_gather(..., axis=n, tiled=True)`, where n is the sharded dimension",
            why="a reshape does not move dimension 0 next to the sharded dimension, as a transpose does",
        )

    @detector("violation", of="stack.product")
    def report_product(self, site: Site) -> Finding:
        """A product that cannot be taken with a stack."""
        said = site.violation.said
        return site.report_violation(
            f"The product at line {said['line']} raises: `all_gather` stacks the shards along a new dimension.",
            help="write `all_gather(..., axis=n, tiled=True)`, where n is the sharded dimension",
            why=said["reason"],
            harm=Harm.CRASH,
        )


def _find_untiled(site: Site) -> ast.expr | None:
    """The array of a call that is surely given no `tiled`."""
    if site.arguments.open_keywords or site.keyword("tiled") is not None or not site.call.args:
        return None
    return site.call.args[0]


def _is_arranged_by_device(site: Site, node: ast.expr) -> bool:
    """Return whether the scattered array got a dimension for the devices: it was reshaped to many, or counts them."""
    shown: list[ast.expr] = [node]
    if isinstance(node, ast.Name):
        bindings, _ = lookup_bindings(site.file, node, node.id)
        shown += [one.value for one in bindings if one.value is not None]
    for one in shown:
        for call in walk_nodes(one):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in ("arange", "expand_dims", "stack"):
                return True
            if call.func.attr == "reshape" and (
                len(call.args) > 2 or any(isinstance(part, ast.Starred | ast.Tuple) for part in call.args)
            ):
                return True
    return False


def _may_return_unchanged(site: Site, node: ast.expr) -> bool:
    """Return whether the gathered array is returned unchanged on another path to the same place."""
    parent, written = site.file.parent(site.call), site.text(node)
    if isinstance(parent, ast.IfExp):
        other = parent.orelse if parent.body is site.call else parent.body
        return site.text(other) == written and not _is_type_test(parent.test, written)
    scope = site.scope.enclosing_function()
    if not isinstance(parent, ast.Return) or scope is None or not isinstance(node, ast.Name):
        return False
    if len(site.file.bindings(scope, node.id)) != 1:
        return False
    returns = [one for one in site.file.walk_scope(scope).returns if isinstance(one, ast.Return)]
    itself = [one for one in returns if isinstance(one.value, ast.Name) and one.value.id == node.id]
    return bool(itself) and not any(_is_under_type_test(site, one, node.id) for one in (*itself, parent))


def _is_under_type_test(site: Site, statement: ast.Return, name: str) -> bool:
    """Return whether a `return` is under a test of a value's type. On the other path the value is no array."""
    return any(isinstance(one, ast.If) and _is_type_test(one.test, name) for one in site.file.ancestors(statement))


def _is_type_test(test: ast.expr, name: str) -> bool:
    calls = [one for one in walk_nodes(test) if isinstance(one, ast.Call) and one.args]
    return any(_KINDS.match(last_name(one.func)) and ast.unparse(one.args[0]) == name for one in calls)


def _is_arranged_later(site: Site) -> bool:
    """Return whether the function restores the removed dimension, or passes the result to code that may."""
    parent = site.file.parent(site.call)
    if parent is None or isinstance(parent, ast.Subscript | ast.Attribute) or site.scope.enclosing_function() is None:
        return True
    names = walk_nodes(parent) if isinstance(parent, ast.Assign) else ()
    targets = [one for one in names if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    outer = [site.file.parent(use) for target in targets for use, _ in find_binding_reads(site.file, target)]
    return any(
        isinstance(one, ast.Subscript)
        or (isinstance(one, ast.Attribute) and one.attr in _ARRANGES)
        or (isinstance(one, ast.Call) and last_name(one.func) in _ARRANGES)
        for one in outer
    )

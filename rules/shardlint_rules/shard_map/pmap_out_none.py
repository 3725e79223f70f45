"""SL414."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.varying import Leaf, Local, Tree, leaves
from shardlint.model.values import Constant, Items, Value
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import function_name, runs


class PmapOutNone(Rule):
    """`pmap` with `out_axes=None` returns one device's value of a result that differs on each device.

    `None` promises that all devices return the same value. jax returns the first device's value without a check, so
    a loss or metric is that of one shard.

    ## Reports
    - proven: a result with the out axis `None` that varies over the devices, without a collective.

    ## Limits
    Not reported: results of replicated state (`replicate`), and results of code that is not in sight.
    """

    code = "SL414"
    name = "pmap-out-none"
    harm = Harm.SILENT
    assumes = True
    triggers = (Calls("jax.pmap", function_says=("out_axes",)),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        for ran in runs(site):
            keyword = site.keyword("out_axes")
            if ran.mapped.out_specs is None or keyword is None:
                continue
            if any(_differs(leaf) for leaf in _unmapped(ran.result, ran.mapped.out_specs)):
                yield site.finding(
                    _none(keyword.value),
                    f"`out_axes=None` keeps one device's value, but {function_name(ran)} differs on each device.",
                    help="reduce it in the function (jax.lax.pmean), or use the out axis 0",
                    why="no collective in the function makes it equal on all devices",
                )
                return


def _unmapped(result: Local, axes: Value) -> Iterator[Leaf]:
    if axes == Constant(None):
        yield from leaves(result)
    elif isinstance(axes, Items) and isinstance(result, Tree) and len(axes.items) == len(result.items):
        for one, axis in zip(result.items, axes.items, strict=True):
            yield from _unmapped(one, axis)


def _differs(leaf: Leaf) -> bool:
    return any(axis not in leaf.reduced for axis in leaf.sure)


def _none(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Tuple | ast.List):
        return next((one for one in node.elts if isinstance(one, ast.Constant) and one.value is None), node)
    return node

"""SL414."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.varying import Leaf, Local, Tree, leaves
from shardlint.model.values import Constant, Function, Items, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import names_in
from shardlint_rules.shard_map.runs import runs

_HELP = "reduce it in the function (`jax.lax.pmean`), or give it the out axis 0"
_REDUCES = regex(r"pmean|psum|pmax|pmin|all_gather|all_?reduce|axis_name")


class PmapOutNone(Rule):
    """`pmap` with `out_axes=None` returns one device's value of a result that differs.

    ## What it does
    Follows the values of the body of a `jax.pmap` and reports a result with the out axis `None` that varies from
    device to device and meets no collective on its way: a loss of one shard, metrics of one shard. Possible: one of
    several results, of a function that has no collective itself and goes through code that is not seen.

    ## Why it hurts
    `None` promises that all devices return the same; jax takes the first device's and says nothing. What is
    logged or returned is that of one shard.

    ## Evidence
    Run on jax 0.4.30 to 0.12: 1.0 where the devices hold 1 to 57. Results that come only of arguments that look like
    replicated state or are given as copies (`replicate`), or go through code that is not seen, are left alone.
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
                    f"On {site.release('jax')} the value of the first device is returned for all: no collective makes "
                    "the result the same on each.",
                    label="this result differs from device to device",
                    help=_HELP,
                )
                return
        yield from self._not_here(site)

    def _not_here(self, site: Site) -> Iterator[Finding]:
        """One of several results with the out axis None, of a function that has no collective itself."""
        keyword = site.keyword("out_axes")
        inner = site.value(site.call.args[0]) if site.form == "call" and site.call.args else None
        if keyword is None or not isinstance(keyword.value, ast.Tuple) or not isinstance(inner, Function):
            return
        axes = [one.value if isinstance(one, ast.Constant) else "" for one in keyword.value.elts]
        file, node = inner.place.file, inner.node
        if None not in axes or 0 not in axes or not isinstance(node, ast.FunctionDef):
            return
        returns = file.walked(file.scope(node)).returns
        if (
            len(returns) != 1
            or not isinstance(returns[0].value, ast.Tuple)
            or _REDUCES.search(file.text(node))
        ):
            return
        results = returns[0].value.elts
        if len(results) != len(axes):
            return
        for result, axis in zip(results, axes, strict=True):
            if axis is None and not isinstance(result, ast.Constant) and _worked_out(result, node):
                yield site.finding(
                    _none(keyword.value),
                    f"On {site.release('jax')} the value of the first device is returned for all, also where it "
                    f"differs.",
                    label=f"nothing in `{node.name}` reduces `{file.text(result)}`",
                    help=_HELP,
                    certainty=Certainty.POSSIBLE,
                    form="not-reduced-here",
                    why="the function has no collective itself",
                )
                return


def _worked_out(node: ast.expr, function: ast.FunctionDef) -> bool:
    """Whether a result is made in the function: what is only handed through came the same to all devices."""
    names = names_in(node)
    args = function.args
    return not names <= {one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)}


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

"""SL323."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.config.certainty import Certainty
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name

# An index of a dimension, counted from 0; `ndim` and the like are counts.
_INDEX = regex(r"(^|_)(axis|dim|dimension|axis_index|axis_idx|dim_index|dim_idx|batch_dim|position)$")
_COUNT = regex(r"(^|_)(n|num|number|count|total|last|max)_?(of_)?(axis|dim|dimension)s?$|ndim|rank")


class AxisOffByOne(Rule):
    """A spec puts its entry one dimension before the one that the index says.

    ## What it does
    Reports `PartitionSpec(*[None] * (axis - 1), "data")`, and the same with a comprehension or `(None,)`, where `axis`
    is the index of a dimension.

    ## Why it hurts
    Dimension `axis` has `axis` dimensions before it. With one `None` less the entry falls on the dimension before it:
    for `axis = 1` the first one is sharded. For `axis = 0` it is right by accident, so nobody sees it.

    ## Evidence
    The proof runs it. `*[None] * (x.ndim - 1), "data"` is the last dimension, and right.
    """

    code = "SL323"
    name = "spec-axis-off-by-one"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("index",)
    triggers = (Calls("jax.sharding.PartitionSpec"),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a spec."""
        if not site.call.args:
            return
        first, *rest = site.call.args
        if not isinstance(first, ast.Starred):
            return
        repeated: ast.expr | None = first.value
        if isinstance(repeated, ast.BinOp) and isinstance(repeated.op, ast.Add):
            rest = [repeated.right, *rest]
            repeated = repeated.left
        count = _count(repeated) if repeated is not None and rest else None
        index = _one_less(count) if count is not None else None
        if count is None or index is None:
            return
        name = last_name(index)
        if not _INDEX.search(name) or _COUNT.search(name):
            return
        yield site.finding(
            count,
            f"one None too few before dimension `{name}`",
            f"On {site.release('jax')} the entry falls on dimension `{name} - 1`, for every `{name}` but 0.",
            help=f"write `{site.text(index)}` Nones",
            certainty=Certainty.POSSIBLE,
            form="index",
            why=f"`{name}` is called as an index, which counts from 0",
        )


def _count(node: ast.expr) -> ast.expr | None:
    """How many Nones an expression makes: `[None] * n`, `[None for _ in range(n)]`, `repeat(None, n)`."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=ast.List() | ast.Tuple() as one, right=count):
            return count if _only_none(one.elts) else None
        case ast.BinOp(op=ast.Mult(), left=count, right=ast.List() | ast.Tuple() as one):
            return count if _only_none(one.elts) else None
        case ast.ListComp() | ast.GeneratorExp():
            over = node.generators[0].iter
            if _only_none([node.elt]) and isinstance(over, ast.Call) and len(over.args) == 1:
                return over.args[0]
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[inner]):
            return _count(inner)
        case ast.Call(func=ast.Name(id="repeat") | ast.Attribute(attr="repeat"), args=[nothing, count]):
            return count if _only_none([nothing]) else None
    return None


def _only_none(nodes: list[ast.expr]) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], ast.Constant) and nodes[0].value is None


def _one_less(node: ast.expr) -> ast.expr | None:
    """What `n - 1` and `max(n - 1, 0)` take one from."""
    match node:
        case ast.BinOp(op=ast.Sub(), left=ast.Name() | ast.Attribute() as index, right=ast.Constant(value=1)):
            return index
        case ast.Call(func=ast.Name(id="max"), args=[first, second]):
            return _one_less(first) or _one_less(second)
    return None

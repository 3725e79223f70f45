"""SL411."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import lookup, readers
from shardlint.model.values import Constant
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map._stacks import mixed_up
from shardlint_rules.shard_map.runs import elsewhere, events

# What is done with a stack of shards on purpose.
_UNSTACKS = (
    "reshape",
    "concatenate",
    "rearrange",
    "moveaxis",
    "transpose",
    "swapaxes",
    "flatten",
    "ravel",
    "unstack",
    "collapse",
    "squeeze",
    "take",
    "sum",
    "mean",
    "max",
    "min",
    "stack",
    "repeat",
    "einsum",
    "vmap",
)
_GATHER = ("jax.lax.all_gather",)
# What asks whether a value is an array at all.
_KINDS = regex(r"isinstance|hasattr|callable|is_(?:\w+_)?(?:array|tracer|leaf|number|scalar)(?:_like)?$")
# What puts back the dimension that an untiled psum_scatter takes.
_ARRANGES = ("reshape", "rearrange", "expand_dims", "collapse", "concatenate", "broadcast_to")


class UntiledGather(Rule):
    """`all_gather` stacks the shards along a new dimension where they are meant to be put together.

    ## What it does
    Reports `jax.lax.all_gather` without `tiled=True` in a function that gives back the array itself on the other way
    (`return x` where there is no axis, `return jax.lax.all_gather(x, axis)` where there is one): there the result
    has one dimension more. Likely: a stack that is reshaped to the first dimension of a shard and others
    (`jax.lax.all_gather(w, axis).reshape(w.shape[0], -1)`). An `einsum` whose letters are those of the shard alone
    raises. Likely, too: a product (`x @ jax.lax.all_gather(w, axis)`) with a shard that the in spec splits; one with
    `jax.lax.all_gather(z, axis).T`, which turns three dimensions around; a gather with `axis=1` or another inner
    dimension whose result is not reshaped; and `psum_scatter` without `tiled=True` of what has no dimension for the
    devices.

    ## Why it hurts
    Untiled, eight shards of shape (4, 16) become (8, 4, 16), tiled (32, 16). What comes after it often runs: a mean
    over dimension 0 is then one over the devices, and broadcasts. Untiled `psum_scatter` needs a dimension of exactly
    the size of the axis, and takes it away. Shards of columns, stacked and reshaped, have the right shape, and
    their numbers stand in the wrong places.

    ## Evidence
    Run on jax 0.12. A stack that is reshaped, indexed or reduced over its new dimension is left alone, and so is what
    is given back otherwise because it is no array (`isinstance(x, jax.Array)`).
    """

    code = "SL411"
    name = "untiled-gather"
    harm = Harm.SILENT
    likely = ("inner-axis", "scatter", "reshaped", "product", "turned")
    triggers = (
        Calls("jax.lax.all_gather", "jax.lax.psum_scatter"), *MAPPING, Mapped(calling=(("all_gather",),))
    )  # fmt: skip
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        if site.api not in ("jax.lax.all_gather", "jax.lax.psum_scatter"):
            yield from self._multiplied(site)
            return
        if site.form != "call" or site.arguments.open_keywords or site.keyword("tiled") is not None:
            return
        node = site.call.args[0] if site.call.args else None
        if node is None:
            return
        if site.api == "jax.lax.psum_scatter":
            if _arranged(site, node) or _unstacked(site, _ARRANGES):
                return
            yield site.finding(
                site.call,
                f"On {site.release('jax')} the dimension must be exactly as long as the axis has devices, and is gone "
                "after it; with tiled=True it is split.",
                label="takes the dimension away",
                help="write tiled=True",
                certainty=Certainty.POSSIBLE,
                form="scatter",
            )
        elif _or_itself(site, node):
            yield site.finding(
                site.call,
                f"On {site.release('jax')} the shards are stacked along a new dimension, and not put together along "
                "the one they are split over.",
                label=f"one dimension more than `{site.text(node)}`, which is given back otherwise",
                help="write tiled=True",
            )
        elif (arranged := mixed_up(site, node)) is not None:
            yield site.finding(
                arranged,
                f"On {site.release('jax')} the stack has the devices as its first dimension. A reshape keeps the order "
                "of the numbers and moves no dimension: rows of different shards come to stand in one row.",
                label="the shards were stacked in front, and this takes them for columns",
                help="gather with tiled=True and the axis that the array is split along",
                certainty=Certainty.POSSIBLE,
                form="reshaped",
                why=f"its first dimension is that of the shard `{site.text(node)}`",
            )
        elif _inner_axis(site) and not _unstacked(site):
            yield site.finding(
                site.call,
                f"On {site.release('jax')} the result has one dimension more; tiled=True puts the shards together "
                "along the dimension named.",
                label="stacks the shards along a new dimension",
                help="write tiled=True",
                certainty=Certainty.POSSIBLE,
                form="inner-axis",
            )

    def _multiplied(self, site: Site) -> Iterator[Finding]:
        """Stacks of matrices in the body of a `shard_map` of which a product is taken."""
        done: set[ast.AST] = set()
        for _, event, node in events(site, "stack in a product", inside=_GATHER):
            if node in done:
                continue
            done.add(node)
            turned = event.note == ".T"
            raises = bool(event.note) and not turned
            yield site.finding(
                node,
                f"On {site.release('jax')} the shards are stacked along a new dimension, and "
                + (
                    f'"{event.note}" has a letter for each dimension of the shard only: it raises ValueError.'
                    if raises
                    else "a product is taken of each by itself: it raises where the sizes do not meet, and gives a "
                    "stack of products where they do."
                ),
                label=f"a stack with one matrix for each device{elsewhere(site, event)}",
                help="write tiled=True, and the axis that the array is split along",
                harm=Harm.CRASH if raises else Harm.SILENT,
                certainty=Certainty.PROVEN if raises else Certainty.POSSIBLE,
                form="" if raises else "turned" if turned else "product",
                why=""
                if raises
                else "`.T` turns all dimensions of the stack around"
                if turned
                else "its in spec splits it, so that it is a shard of the whole",
            )


def _arranged(site: Site, node: ast.expr) -> bool:
    """Whether what is scattered was given a dimension for the devices: it was reshaped to many, or counts them."""
    shown: list[ast.expr] = [node]
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        shown += [one.value for one in bindings if one.value is not None]
    for one in shown:
        for call in walk(one):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in ("arange", "expand_dims", "stack"):
                return True
            if call.func.attr == "reshape" and (
                len(call.args) > 2 or any(isinstance(part, ast.Starred | ast.Tuple) for part in call.args)
            ):
                return True
    return False


def _or_itself(site: Site, node: ast.expr) -> bool:
    """Whether the gathered array is given back as it is on another way to the same place."""
    parent, written = site.file.parent(site.call), site.text(node)
    if isinstance(parent, ast.IfExp):
        other = parent.orelse if parent.body is site.call else parent.body
        return site.text(other) == written and not _of_kind(parent.test, written)
    scope = site.scope.function()
    if not isinstance(parent, ast.Return) or scope is None or not isinstance(node, ast.Name):
        return False
    if len(site.file.bindings(scope, node.id)) != 1:
        return False
    returns = [one for one in site.file.walked(scope).returns if isinstance(one, ast.Return)]
    itself = [one for one in returns if isinstance(one.value, ast.Name) and one.value.id == node.id]
    return bool(itself) and not any(_asks_kind(site, one, node.id) for one in (*itself, parent))


def _asks_kind(site: Site, statement: ast.Return, name: str) -> bool:
    """Whether a `return` stands under a test of what a value is: on the other way it is no array."""
    return any(isinstance(one, ast.If) and _of_kind(one.test, name) for one in site.file.ancestors(statement))


def _of_kind(test: ast.expr, name: str) -> bool:
    calls = [one for one in walk(test) if isinstance(one, ast.Call) and one.args]
    return any(_KINDS.match(last_name(one.func)) and ast.unparse(one.args[0]) == name for one in calls)


def _inner_axis(site: Site) -> bool:
    axis = site.keyword("axis")
    value = site.value(axis.value) if axis is not None else None
    return isinstance(value, Constant) and isinstance(value.value, int) and value.value != 0


def _unstacked(site: Site, words: tuple[str, ...] = _UNSTACKS) -> bool:
    """Whether the function does something with the stack that a tiled result would not need."""
    parent = site.file.parent(site.call)
    if parent is None or isinstance(parent, ast.Subscript | ast.Attribute):
        return True
    if site.scope.function() is None:
        return True
    targets = [one for one in walk(parent) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    known = targets if isinstance(parent, ast.Assign) else []
    uses = [use for target in known for use, _ in readers(site.file, target)]
    for use in uses:
        outer = site.file.parent(use)
        if isinstance(outer, ast.Subscript) or (isinstance(outer, ast.Attribute) and outer.attr in words):
            return True
        if isinstance(outer, ast.Call) and site.text(outer.func).rpartition(".")[2] in words:
            return True
    return False

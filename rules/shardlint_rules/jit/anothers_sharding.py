"""SL225."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.rule import Attributes, Certainty, Finding, Harm, Rule
from shardlint.site import Site

_SMALL = re.compile(r"(^|_)(scales?|bias|zero_points?|zeros|offset|norm|gamma|beta)$")
_LARGE = re.compile(r"(^|_)(q?weights?|kernel|qvalue|q?values?|w|embedding|qarray)\d*$")
_OUTER = ("value", "sharding", "data", "array", "raw_value")


class AnothersSharding(Rule):
    """A scale or bias is placed with the sharding of the weight beside it.

    ## What it does
    Reports `layer.scale = jax.device_put(x, layer.weight.sharding)` and the same of a bias, with any function that is
    given the sharding, where both are attributes, keys or fields of one object.

    ## Why it hurts
    A scale or bias has fewer dimensions than its weight, or another meaning for each. A spec that is longer than the
    array raises; a shorter one splits the wrong dimension, or none, and nothing is raised.

    ## Use instead
    The sharding of the array that is replaced: `layer.scale.sharding`.

    ## Evidence
    Read off names alone. The proof shows the bias split as the weight's rows are.
    """

    code = "SL225"
    name = "anothers-sharding"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("weight-for-small",)
    wakes = (Attributes("sharding"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a sharding that is that of another array."""
        node = site.syntax
        if not isinstance(node, ast.Attribute):
            return
        source = _path(node.value)
        call = _given_to(site, node)
        for target in _targets(site, call) if call is not None and len(source) > 1 else ():
            if len(target) < 2 or target[:-1] != source[:-1]:
                continue
            if _SMALL.search(target[-1]) and _LARGE.search(source[-1]) and not _SMALL.search(source[-1]):
                text = " ".join(site.text(node).split())
                yield site.finding(
                    node,
                    f"`{target[-1]}` gets the sharding of `{source[-1]}`",
                    f"`{text}` says how the dimensions of `{source[-1]}` are split, and `{target[-1]}` has others: it "
                    "raises where the spec is longer than the array, and splits another dimension where it is not.",
                    help=f"give it the sharding of {'.'.join(target)}",
                    form="weight-for-small",
                    why="by their names",
                )
                return


def _given_to(site: Site, node: ast.AST) -> ast.Call | None:
    """The call that a sharding is an argument of, by itself."""
    parent = site.file.parent(node)
    if isinstance(parent, ast.keyword):
        parent = site.file.parent(parent)
    return parent if isinstance(parent, ast.Call) and parent.func is not node else None


def _targets(site: Site, call: ast.Call) -> Iterator[tuple[str, ...]]:
    """What the result of a call becomes: the target of an assignment, or a field of the object it is taken from."""
    inner: ast.AST = call
    for outer in site.file.ancestors(call):
        if isinstance(outer, ast.Assign):
            yield from (_path(target) for target in outer.targets)
            return
        if isinstance(outer, ast.keyword) and outer.arg:
            owner = site.file.parent(outer)
            of = owner.args[0] if isinstance(owner, ast.Call) and owner.args else None
            if (
                isinstance(owner, ast.Call)
                and isinstance(owner.func, ast.Attribute)
                and "replace" in owner.func.attr
            ):
                base = of if of is not None else owner.func.value
                yield (*_path(base), outer.arg)
            return
        if not isinstance(outer, ast.Call) or inner is outer.func:
            return
        inner = outer


def _path(node: ast.AST) -> tuple[str, ...]:
    """The names that lead to a part, without what every array has (`.value`): ("layer", "weight")."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Attribute(value=inner, attr=name):
                if name not in _OUTER or parts:
                    parts.append(name)
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                parts.append(str(key))
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=None) | ast.Slice()):
                node = inner
            case ast.Name(id=name):
                parts.append(name)
                return tuple(reversed(parts))
            case _:
                return ()

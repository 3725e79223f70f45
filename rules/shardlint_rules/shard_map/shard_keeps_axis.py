"""SL424."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import readers
from shardlint.rules_api.rule import Attributes, Certainty, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint_rules.shard_map.per_device import per_device

_NEAR = ("pmap", "replicat")
# What people call a function that takes one of the copies.
_SAYS = regex(r"unreplicat|un_?pmap|de_?replicat|first_replica|first_device", re.I)
# What looks at the array before, or takes the dimension away after.
_KNOWS = regex(
    r"is_fully_replicated|squeeze|\.shape|\.ndim|reshape|(?<!devices)(?<!devices\(\))\[0\](?!\.data)"
    r"|jax_pmap_shmap_merge|\[0, ?\.\.\."
)
_FIRST = regex(r"[\[(]0[\])]")
_SAME = ("asarray", "array", "device_get", "block_until_ready")


class ShardKeepsAxis(Rule):
    """A shard of a `pmap` result keeps the mapped dimension, of size 1.

    Since jax 0.8.1 `pmap` is built on `jax.shard_map`: weights of shape (4, 8) come as (1, 4, 8). Broadcasting
    continues with the wrong rank, and a checkpoint keeps it. Earlier, the shard had the rank of one copy.

    ## Reports
    - `kept` (likely): `x.addressable_data(i)` and `x.addressable_shards[i].data` of a result of a pmapped function or
      `replicate`, or of the first shard in a function called `unreplicate` or similar, if nothing removes the first
      dimension.

    ## Write instead
    `x.addressable_data(0)[0]`, or `x.addressable_shards[0].data.squeeze(0)`.

    ## Limits
    Functions that ask for the shape, or for `is_fully_replicated`, are not reported.
    """

    code = "SL424"
    name = "shard-keeps-axis"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("kept",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.1"}
    triggers = (
        Methods("addressable_data", file_says=_NEAR),
        Attributes("addressable_shards", file_says=_NEAR),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each shard that is taken."""
        taken = _taken(site)
        if taken is None or not site.anywhere("pmap"):
            return
        whole, array = taken
        function = next((one for one in site.file.ancestors(whole) if isinstance(one, ast.FunctionDef)), None)
        if _reduced(site, whole) or (function is not None and _KNOWS.search(site.text(function))):
            return
        why = _why(site, whole, array, function)
        if why:
            yield site.finding(
                whole,
                f"The shard of `{site.shown(array)}` keeps the mapped dimension, of size 1.",
                label="one dimension too many",
                help=f"write {site.shown(whole)}[0]",
                form="kept",
                why=f"since jax 0.8.1 a shard of a pmap result has the mapped dimension; {why}",
            )


def _taken(site: Site) -> tuple[ast.expr, ast.expr] | None:
    """The shard that is taken, and the array it is of."""
    node = site.syntax
    if isinstance(node, ast.Call):
        match node:
            case ast.Call(func=ast.Attribute(value=array), args=[_], keywords=[]):
                return node, array
        return None
    first = site.file.parent(node)
    data = site.file.parent(first) if first is not None else None
    match first, data:
        case ast.Subscript(slice=index), ast.Attribute(attr="data") if isinstance(node, ast.Attribute):
            return (data, node.value) if not isinstance(index, ast.Slice) else None
    return None


def _reduced(site: Site, whole: ast.expr) -> bool:
    """Whether the dimension may be taken away, or is of no matter: the shard is computed with."""
    node: ast.AST = whole
    for outer in site.file.ancestors(whole):
        match outer:
            case ast.Call(func=func) if last_name(func) in _SAME and node is not func:
                node = outer
            case ast.IfExp():
                node = outer
            case ast.Lambda() | ast.Return():
                return False
            case ast.Assign(targets=[ast.Name() as target]):
                uses = [use for use, _ in readers(site.file, target)]
                return any(not _handed_on(site, use) for use in uses)
            case _:
                return True
    return True


def _handed_on(site: Site, use: ast.Name) -> bool:
    """Whether a use gives it to a call, or returns it, alone or among others."""
    outer = site.file.parent(use)
    if isinstance(outer, ast.Tuple | ast.Dict):
        outer = site.file.parent(outer)
        return isinstance(outer, ast.Return | ast.Yield)
    return isinstance(outer, ast.Return | ast.Yield | ast.Call)


def _why(site: Site, whole: ast.expr, array: ast.expr, function: ast.FunctionDef | None) -> str:
    """What tells that the array has an entry for each device."""
    tree: ast.expr | None = array
    for outer in site.file.ancestors(array):
        if isinstance(outer, ast.Lambda):
            call = site.file.parent(outer)
            given = isinstance(call, ast.Call) and len(call.args) == 2 and call.args[0] is outer
            own = isinstance(array, ast.Name) and [one.arg for one in outer.args.args] == [array.id]
            tree = call.args[1] if given and own and isinstance(call, ast.Call) else None
            break
        if isinstance(outer, ast.stmt):
            break
    trees = tree.elts if isinstance(tree, ast.Tuple | ast.List) else [tree] if tree is not None else []
    made = next(
        (one for one in (per_device(site.program, site.file, part) for part in trees) if one is not None),
        None,
    )
    if made is not None:
        return f"{made.by} at line {made.call.lineno} of {made.file.path.name} made it"
    if function is not None and _SAYS.search(function.name) and _FIRST.search(site.text(whole)):
        return f"`{function.name}` takes one copy"
    return ""

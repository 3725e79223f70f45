"""SL424."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Attributes, Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name

_NEAR = ("pmap", "replicat")
# What people call a function that takes one of the copies.
_SAYS = compile_lazily(r"unreplicat|un_?pmap|de_?replicat|first_replica|first_device", re.I)
# What looks at the array before, or takes the dimension away after.
_KNOWS = compile_lazily(
    r"is_fully_replicated|squeeze|\.shape|\.ndim|reshape|(?<!devices)(?<!devices\(\))\[0\](?!\.data)"
    r"|jax_pmap_shmap_merge|\[0, ?\.\.\."
)
_FIRST = compile_lazily(r"[\[(]0[\])]")
_SAME = ("asarray", "array", "device_get", "block_until_ready")


class ShardKeepsAxis(Rule):
    """A shard of a `pmap` result keeps the mapped dimension, of size 1.

    From jax 0.8.1 the shard of weights of shape (4, 8) has shape (1, 4, 8). Code that broadcasts runs with the wrong
    rank, and a checkpoint saves the wrong shape.

    ## Reports
    - `leading-axis` (likely): `x.addressable_data(i)` or `x.addressable_shards[i].data` of a result of a pmapped
      function or of `replicate`, if nothing removes its first dimension. Also shard 0 of any `x` in a function with a
      name such as `unreplicate`.

    ## Write instead
    Index the first dimension: `x.addressable_data(0)[0]`, or `x.addressable_shards[0].data.squeeze(0)`.

    ## Limits
    Not reported: functions that read the shape or `is_fully_replicated`.
    """

    code = "SL424"
    name = "shard-keeps-axis"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("leading-axis",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.34"}
    triggers = (
        Methods("addressable_data", file_says=_NEAR),
        Attributes("addressable_shards", file_says=_NEAR),
    )
    fixes = "none"

    @detector("method", "attribute", finds="leading-axis")
    def report_shard(self, site: Site) -> Finding | None:
        """A shard that is handed on."""
        shard = _find_shard(site)
        if shard is None or not site.is_named_anywhere("pmap") or not _is_handed_on(site, shard):
            return None
        scope = site.scope.enclosing_function()
        function = scope.node if scope is not None else None
        if function is not None and _KNOWS.search(site.text(function)):
            return None
        found = (one for one in site.violations if one.kind == "rows.shard" and one.place.node is site.syntax)
        made = next(found, None)
        if made is not None:
            why = f"the call at line {made.said['line']} of {made.said['file']} made the array"
        elif isinstance(function, ast.FunctionDef) and _SAYS.search(function.name) and _FIRST.search(site.text(shard)):
            why = f"`{function.name}` takes one copy"
        else:
            return None
        return site.finding(
            shard,
            f"The shard `{site.shown(shard)}` keeps the mapped dimension, of size 1.",
            label="one dimension too many",
            help=f"write {site.shown(shard)}[0]",
            why=f"a shard of a pmap result has the mapped dimension; {why}",
        )


def _find_shard(site: Site) -> ast.expr | None:
    """`x.addressable_data(i)` or `x.addressable_shards[i].data`."""
    if isinstance(site.syntax, ast.Call):
        return site.call if len(site.call.args) == 1 else None
    first = site.file.parent(site.syntax)
    data = site.file.parent(first) if first is not None else None
    match first, data:
        case ast.Subscript(slice=index), ast.Attribute(attr="data") if not isinstance(index, ast.Slice):
            return data
    return None


def _is_handed_on(site: Site, shard: ast.expr) -> bool:
    """Return whether a shard is returned, or has a name, so that nothing removes the dimension at once."""
    node: ast.AST = shard
    for outer in site.file.ancestors(shard):
        if not isinstance(outer, ast.IfExp) and not (isinstance(outer, ast.Call) and last_name(outer.func) in _SAME):
            return isinstance(outer, ast.Lambda | ast.Return) or (isinstance(outer, ast.Assign) and outer.value is node)
        node = outer
    return False

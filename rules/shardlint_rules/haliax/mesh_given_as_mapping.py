"""SL605."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Table, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site

_PARAMETERS = (
    "mapping",
    "axis_resources",
    "in_axis_resources",
    "out_axis_resources",
    "parameter_mapping",
    "compute_mapping",
)


class MeshGivenAsMapping(Rule):
    """A mesh is passed to haliax as the axis mapping.

    `hax.shard(x, mesh)` raises `AttributeError` if a mesh is in context, and otherwise does nothing. With the mapping
    as the third argument it raises `AssertionError` without a message. `with hax.axis_mapping(mesh):` raises TypeError
    when it is entered. The functions that `named_jit` and `fsdp` return raise when they are called.

    ## Reports
    - proven: a mesh as `mapping` of `hax.shard`, `hax.shard_with_axis_mapping`, `hax.axis_mapping` or `hax.fsdp`.
    - proven: a mesh as `axis_resources`, `in_axis_resources` or `out_axis_resources` of `hax.named_jit`.

    ## Write instead
    Write `hax.shard(x, mapping, mesh)`. Under `with hax.axis_mapping(mapping):` write `hax.shard(x, mesh=mesh)`.

    ## Fix
    Swaps the mesh and the mapping. Safe, because the code raised before. If the call has no mapping, the fix writes
    `mesh=`. Unsafe, because the mapping in context then shards the array. There is no fix for `axis_mapping`,
    `named_jit` and `fsdp`: shardlint does not know which mapping you want.
    """

    code = "SL605"
    name = "mesh-given-as-mapping"
    harm = Harm.SILENT
    triggers = (Calls("haliax.shard", "haliax.axis_mapping", "haliax.named_jit", "haliax.fsdp"),)
    closed = ("positional", "keywords")
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    fixes = "both"
    assumes = True

    @detector("call", "partial", of="haliax.shard")
    def report_shard(self, site: Site) -> Finding | None:
        """A mesh as the mapping of `hax.shard`, which takes the mesh behind it."""
        given = site.argument("mapping")
        if given is None or not _is_mesh(site, given):
            return None
        mesh = site.argument("mesh")
        if mesh is not None and _is_mapping(site, mesh):
            effect, harm = "raises AssertionError without a message", Harm.CRASH
        elif mesh is not None and _is_mesh(site, mesh):
            effect, harm = "raises AttributeError", Harm.CRASH
        else:
            effect, harm = "raises AttributeError under a mesh and does nothing without one", Harm.SILENT
        return site.finding(
            given,
            f"`hax.shard` {effect}: `{site.shown(given)}` is a mesh, not an axis mapping.",
            why=f"{site.release('haliax')} looks axis names up in the mapping",
            help="write `hax.shard(x, mapping, mesh)`, or `mesh=` under `with hax.axis_mapping(mapping):`",
            harm=harm,
            fix=_swap_mapping_for_mesh(site, given, mesh),
        )

    @detector("call", "partial")
    def find_mappings(self, site: Site) -> Iterator[Finding]:
        """Each mapping of a context or of a compiled function that is a mesh, whatever callers give."""
        entered = site.api == "haliax.axis_mapping"
        raises = "Entering this context raises TypeError" if entered else "Every call of the returned function raises"
        for given in _find_mappings(site):
            if _is_mesh(site, given):
                yield site.finding(
                    given,
                    f"{raises}: `{site.shown(given)}` is a mesh, not an axis mapping.",
                    why=f"{site.release('haliax')} looks axis names up in the mapping",
                    help="pass a dict from axis names to mesh axes in place of the mesh",
                    harm=Harm.CRASH,
                )


def _find_mappings(site: Site) -> Iterator[ast.expr]:
    """Yield the arguments that are mappings. `hax.fsdp` takes two, with or without the function in front of them."""
    if site.api == "haliax.fsdp":
        yield from site.call.args
    for name in _PARAMETERS:
        given = site.argument(name)
        if given is not None:
            yield given


def _swap_mapping_for_mesh(site: Site, expression: ast.expr, mesh: ast.expr | None) -> Fix | None:
    """The mesh as `mesh=`, or in the place of the mapping that stands there."""
    call = site.call
    here = {id(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))}
    if id(expression) not in here or (mesh is not None and id(mesh) not in here):
        return None
    text = site.text(expression)
    if mesh is None:
        keyword = site.keyword("mapping")
        node = expression if keyword is None else keyword
        return site.fix(Safety.UNSAFE, f"write: `mesh={text}`", [site.replace(node, f"mesh={text}")])
    if _is_mesh(site, mesh):
        return site.fix(Safety.UNSAFE, "write: `None`, and the mesh once", [site.replace(expression, "None")])
    other = site.text(mesh)
    return site.fix(
        Safety.SAFE if _is_mapping(site, mesh) else Safety.UNSAFE,
        f"write: `{other}`, then `{text}`",
        [site.replace(expression, other), site.replace(mesh, text)],
    )


def _is_mesh(site: Site, expression: ast.expr) -> bool:
    """Return whether the value is a mesh in all calls."""
    return all(site.mesh_of(one) is not None for one in options(site.program.followed(site.value(expression))))


def _is_mapping(site: Site, expression: ast.expr) -> bool:
    """Return whether the value is a dict in all calls."""
    return all(isinstance(one, Table) for one in options(site.program.followed(site.value(expression))))

"""SL605."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Table, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site

PARAMETERS = (
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
    as the third argument it raises `AssertionError` without a message. A `with hax.axis_mapping(...)` raises when it is
    entered. The results of `named_jit` and `fsdp` raise when they are called.

    ## Reports
    - proven: a mesh as `mapping` of `hax.shard`, `hax.shard_with_axis_mapping`, `hax.axis_mapping` or `hax.fsdp`.
    - proven: a mesh as `axis_resources`, `in_axis_resources` or `out_axis_resources` of `hax.named_jit`.

    ## Write instead
    Pass the mesh as `mesh=`. The mapping is the second argument or comes from `hax.axis_mapping`.

    ## Fix
    Swaps mesh and mapping. Safe, because the original call raises. Unsafe if the fix passes the mesh as `mesh=`: the
    mapping in context then shards the array. `axis_mapping`, `named_jit` and `fsdp` get no fix: shardlint does not know
    which mapping you want.
    """

    code = "SL605"
    name = "mesh-given-as-mapping"
    harm = Harm.SILENT
    triggers = (Calls("haliax.shard", "haliax.axis_mapping", "haliax.named_jit", "haliax.fsdp"),)
    forms = ("call", "partial")
    closed = ("positional", "keywords")
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    fixes = "both"
    assumes = True

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each mapping that is a mesh, whatever callers give."""
        for given in mappings(site):
            if is_mesh(site, given):
                yield in_shard(site, given) if site.api == "haliax.shard" else elsewhere(site, given)


def mappings(site: Site) -> Iterator[ast.expr]:
    """Yield the arguments that are mappings. `hax.fsdp` takes two, with or without the function in front of them."""
    if site.api == "haliax.fsdp":
        yield from site.call.args
    for name in PARAMETERS:
        given = site.argument(name)
        if given is not None:
            yield given


def elsewhere(site: Site, given: ast.expr) -> Finding:
    """The mapping of a context, or of a compiled function."""
    entered = site.api == "haliax.axis_mapping"
    raises = "Entering this context raises TypeError" if entered else "Every call of the returned function raises"
    return site.finding(
        given,
        f"{raises}: `{site.shown(given)}` is a mesh, not an axis mapping.",
        why=f"{site.release('haliax')} looks axis names up in the mapping",
        help="pass a dict from axis names to mesh axes",
        harm=Harm.CRASH,
    )


def in_shard(site: Site, given: ast.expr) -> Finding:
    """The mapping of `hax.shard`, which takes the mesh behind it."""
    mesh = site.argument("mesh")
    if mesh is not None and is_mapping(site, mesh):
        effect, harm = "raises AssertionError without a message", Harm.CRASH
    elif mesh is not None and is_mesh(site, mesh):
        effect, harm = "raises AttributeError", Harm.CRASH
    else:
        effect, harm = "raises AttributeError under a mesh and does nothing without one", Harm.SILENT
    fix = rewritten(site, given, mesh)
    return site.finding(
        given,
        f"`hax.shard` {effect}: `{site.shown(given)}` is a mesh, not an axis mapping.",
        why=f"{site.release('haliax')} looks axis names up in the mapping",
        help="pass the mapping first, then the mesh",
        harm=harm,
        fix=fix,
    )


def rewritten(site: Site, given: ast.expr, mesh: ast.expr | None) -> Fix | None:
    """The mesh as `mesh=`, or in the place of the mapping that stands there."""
    call = site.call
    here = {id(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))}
    if id(given) not in here or (mesh is not None and id(mesh) not in here):
        return None
    text = site.text(given)
    if mesh is None:
        keyword = site.keyword("mapping")
        node = given if keyword is None else keyword
        return site.fix(Safety.UNSAFE, f"write: `mesh={text}`", [site.replace(node, f"mesh={text}")])
    if is_mesh(site, mesh):
        return site.fix(Safety.UNSAFE, "write: `None`, and the mesh once", [site.replace(given, "None")])
    other = site.text(mesh)
    return site.fix(
        Safety.SAFE if is_mapping(site, mesh) else Safety.UNSAFE,
        f"write: `{other}`, then `{text}`",
        [site.replace(given, other), site.replace(mesh, text)],
    )


def is_mesh(site: Site, given: ast.expr) -> bool:
    """Return whether the value is a mesh in all calls."""
    return all(site.mesh_of(one) is not None for one in options(site.program.followed(site.value(given))))


def is_mapping(site: Site, given: ast.expr) -> bool:
    """Return whether the value is a dict in all calls."""
    return all(isinstance(one, Table) for one in options(site.program.followed(site.value(given))))

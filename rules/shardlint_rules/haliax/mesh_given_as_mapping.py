"""SL605."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Table, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.haliax.meshes import is_mesh

PARAMETERS = (
    "mapping",
    "axis_resources",
    "in_axis_resources",
    "out_axis_resources",
    "parameter_mapping",
    "compute_mapping",
)
LABEL = "a mesh, where the axis mapping belongs"


class MeshGivenAsMapping(Rule):
    """A mesh is given to haliax where it takes an axis mapping.

    ## What it does
    Reports a mesh as the second argument (`mapping`) of `hax.shard` and `hax.shard_with_axis_mapping`, whose third is
    the mesh; as the mapping of `hax.axis_mapping` and `hax.fsdp`; and as `axis_resources`, `in_axis_resources` or
    `out_axis_resources` of `hax.named_jit`.

    ## Why it hurts
    `hax.shard(x, mesh)` raises `AttributeError: 'Mesh' object has no attribute 'get'` where a mesh is in context. Where
    none is, it does nothing, and `x` stays on one device. With the mapping in the third place it always raises
    `AssertionError`, without a message. `hax.axis_mapping` raises `TypeError` when it is entered, and a function of
    `hax.named_jit` or `hax.fsdp` when it is called.

    ## Fix safety
    Safe where mesh and mapping are exchanged, for that raised before. Unsafe where the mesh becomes `mesh=`: what was
    left where it was is sharded then, by the mapping that is in context. Which mapping is meant for a context or a
    compiled function, nobody but you can say.

    ## Evidence
    Run with haliax 1.3 on jax 0.4.30, and with 1.4.dev453 on jax 0.6.2 and 0.12.
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
    """What is given as a mapping. `hax.fsdp` takes two, with the function in front of them or without."""
    if site.api == "haliax.fsdp":
        yield from site.call.args
    for name in PARAMETERS:
        given = site.argument(name)
        if given is not None:
            yield given


def elsewhere(site: Site, given: ast.expr) -> Finding:
    """The mapping of a context, or of a compiled function."""
    entered = site.api == "haliax.axis_mapping"
    raises = "entering this raises TypeError" if entered else "every call of what this makes raises"
    return site.finding(
        given,
        f"On {site.release('haliax')} {raises}: mesh axes are looked up in it by axis names.",
        label=LABEL,
        help="give a dict from axis names to mesh axes",
        harm=Harm.CRASH,
    )


def in_shard(site: Site, given: ast.expr) -> Finding:
    """The mapping of `hax.shard`, which takes the mesh behind it."""
    release, mesh = site.release("haliax"), site.argument("mesh")
    if mesh is not None and is_mapping(site, mesh):
        what, harm = "raises AssertionError, without a message", Harm.CRASH
    elif mesh is not None and is_mesh(site, mesh):
        what, harm = "raises AttributeError: it looks axis names up in the mesh", Harm.CRASH
    else:
        what, harm = "raises AttributeError under a mesh, and does nothing without one", Harm.SILENT
    fix = rewritten(site, given, mesh)
    help = fix.message.removeprefix("write: ") if fix is not None else "give the mapping first, then the mesh"
    return site.finding(given, f"On {release} this {what}.", label=LABEL, help=help, harm=harm, fix=fix)


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


def is_mapping(site: Site, given: ast.expr) -> bool:
    """Whether it is a dict, whatever callers give."""
    return all(isinstance(one, Table) for one in options(site.program.followed(site.value(given))))

"""SL351."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from shardlint.model.mesh.meshes import Spec, spec_of
from shardlint.model.mesh.table import made_meshes, making_meshes
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.mesh._dropped_axis import DROPS, LOGICAL, dropped
from shardlint_rules.mesh._said_nowhere import (
    declared,
    given_to_a_taker,
    names_of_a_mesh,
    names_of_others,
    said_nowhere,
)
from shardlint_rules.mesh.given import Given, bound_by, named, where

_SPEC = "jax.sharding.PartitionSpec"
_MAKERS = ("jax.sharding.Mesh", "jax.make_mesh")
# What leaves axes out that a mesh does not have, or asks for them; and meshes that come from libraries.
_ASKS = (
    r"(?:)in(?<!\win)\s+(?:\w+(?:\(\))?\.)*(?:axis_names|axis_sizes|shape)\b",
    ".shape.get(",
    r"(?:)in(?<!\win)\s+\w*(?:mesh_axes|axis_names|mesh_shape)\b",
    "haliax",
    "levanter",
)
_MAPS = r"(?:[pv]map|shard_map)"
_NEAR = 0.7


class AxisOfNoMesh(Rule):
    """A spec names a mesh axis that no mesh of the program has.

    ## What it does
    Where the names of all meshes that a program makes are told by its text, reports an axis in a `PartitionSpec` that
    none of them has, beside one that they have: in the same spec, or in the same table of specs. Of a spec that stands
    alone, a finding is possible. Where meshes are not all told, reports an axis that nothing but specs says: no other
    text of the program, and no YAML or TOML file of the project, while another axis is said. Where the program leaves
    out the axes that a mesh does not have, reports the axis of a mesh that no spec names, while specs name one that no
    mesh has. SL301 says more where it is known which mesh the spec meets, and SL340 where the settings list the axes.

    ## Why it hurts
    A sharding with such a spec raises `ValueError: Resource axis: expert of PartitionSpec(...) is not found in mesh`
    when it is made: often in one configuration only, as the weight is not in all models. Where the axis is left out
    instead, nothing is raised, and what it was to split is whole on every device.

    ## Use instead
    An axis of the mesh, or None where the dimension is not to be split.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Left alone: programs with logical names, or which ask a mesh for its axes and leave
    others out; axes that anything else says, where a mesh comes from a configuration that is not read; tests; and the
    axes of `pmap` and `vmap`. In 71 public projects no spec outside of tests names an axis that nothing else says.
    """

    code = "SL351"
    name = "axis-of-no-mesh"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("beside", "dropped", "nowhere")
    behind = ("SL301", "SL340", "SL316")
    triggers = (Calls(_SPEC), Calls(*_MAKERS))
    forms = ("call",)
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each axis of a spec that is in no mesh; one for a mesh whose axis nothing else names."""
        if site.api != _SPEC:
            yield from self._dropped(site)
            return
        spec = spec_of(site.value(site.call), site.program.evaluator)
        if spec is None or site.program.own.axes:
            return
        axes = {axis for _, axis in named(spec) if axis.isidentifier()}
        if not axes:
            return
        made = site.program.once(site.file, "SL351", lambda: _axes_of_meshes(site))
        if not made:
            yield from self._nowhere(site, spec, axes)
        if not made or axes <= made:
            return
        form = "beside" if axes & made or _table_names(site, made) else "alone"
        if (
            form == "alone"
            and site.wants("nowhere")
            and all(said_nowhere(site, axis) for axis in axes - made)
        ):
            form = "nowhere" if not site.program.project.saying(site.file.path, (DROPS,)) else form
        for entry, axis in named(spec):
            if axis not in made and axis.isidentifier() and not bound_by(site, axis, _MAPS):
                near = difflib.get_close_matches(axis, sorted(made), n=1, cutoff=_NEAR)
                yield site.finding(
                    where(site, Given(spec, site.call, True), entry, axis),
                    f"On {site.release('jax')} a sharding of this spec raises ValueError over each of them.",
                    label=f'no mesh of the program has "{axis}"'
                    + (f': did you mean "{near[0]}"?' if near else ""),
                    help=f"name one of {', '.join(sorted(made))}, or None where nothing is to be split",
                    form=form,
                    why=f"the meshes that the program makes have the axes {', '.join(sorted(made))}",
                )

    def _nowhere(self, site: Site, spec: Spec, axes: set[str]) -> Iterator[Finding]:
        """Axes that nothing but specs names, where the meshes are not all known and others are named elsewhere too."""
        if not site.wants("nowhere") or names_of_a_mesh(site):
            return
        if not given_to_a_taker(site) and names_of_others(site, (*_ASKS, DROPS)):
            return
        lone = {axis for axis in axes if said_nowhere(site, axis)}
        other = declared(site, lone) if lone else ""
        for entry, axis in named(spec) if other else ():
            if axis in lone and not bound_by(site, axis, _MAPS):
                yield site.finding(
                    where(site, Given(spec, site.call, True), entry, axis),
                    f"On {site.release('jax')} a sharding of this spec raises ValueError over a mesh without it.",
                    label=f'no mesh or configuration of the program has "{axis}"',
                    help=f'name an axis that the meshes have, as "{other}", or None where nothing is to be split',
                    form="nowhere",
                    why=f'nothing in the program but specs says "{axis}"',
                )

    def _dropped(self, site: Site) -> Iterator[Finding]:
        """The axis of a mesh that nothing names, where specs lose one that no mesh has."""
        if not site.wants("dropped") or site.program.own.axes:
            return
        found = dropped(site)
        if found is None:
            return
        lost = " and ".join(f'"{axis}"' for axis in found.lost)
        yield site.finding(
            found.node,
            f"What leaves out the axes that a mesh does not have makes None of {lost}: all devices along "
            f'"{found.axis}" hold and compute the same, and nothing is raised.',
            label=f'no spec names "{found.axis}": they name {lost}, which no mesh of the program has',
            help=f"give the axis the name that the specs have: {lost}",
            harm=Harm.SILENT,
            form="dropped",
            why=f'nothing else in the program says "{found.axis}"',
        )


def _axes_of_meshes(site: Site) -> frozenset[str]:
    """The axes of all meshes that run with the file; none where those of one are not known, or axes are asked for."""
    if site.program.project.holds(site.file.path, *LOGICAL, *_ASKS):
        return frozenset()
    axes: set[str] = set()
    for file in making_meshes(site.program, site.file.path, tests=False):
        if file is None:
            return frozenset()
        for mesh in made_meshes(site.program, file):
            if mesh is None or mesh.axis_names is None:
                return frozenset()
            axes.update(mesh.axis_names)
    return frozenset(axes)


def _table(site: Site) -> ast.AST | None:
    """The dictionary or list of pairs around a spec, the outermost one."""
    found: ast.AST | None = None
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.stmt):
            break
        if isinstance(outer, ast.Dict) or (isinstance(outer, ast.Tuple | ast.List) and len(outer.elts) > 1):
            found = outer
    return found


def _table_names(site: Site, made: frozenset[str]) -> bool:
    """Whether other specs of the table name axes of the meshes."""
    table = _table(site)
    text = site.file.text(table) if table is not None else ""
    own = site.text(site.call)
    quoted = regex(r"""["'](\w+)["']""")
    return any(found[1] in made for found in quoted.finditer(text.replace(own, "")))

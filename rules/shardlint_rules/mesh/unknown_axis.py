"""SL301."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import Context
from shardlint.model.mesh.meshes import Mesh
from shardlint.model.signatures import JITS
from shardlint.model.values import Constant
from shardlint.rules_api.rule import Certainty, Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._configured_axes import configured_axes
from shardlint_rules.mesh.spec_arguments import (
    WAKES,
    SpecArgument,
    given_specs,
    is_written_axis,
    jitted_node,
    named_axes,
    node_of_axis,
)


class UnknownAxis(Rule):
    """A spec names an axis that its mesh does not have.

    The sharding raises `ValueError: Resource axis ... is not found in mesh`. The error can come late, such as when a
    step is traced after the data is loaded. SL406 reports collectives over an unknown axis.

    ## Reports
    - proven: a `PartitionSpec` with an axis that the mesh argument of the same call lacks. Without a mesh argument: an
      axis that every mesh in context lacks.
    - proven: a Variable of flax NNX with a name that is not an axis of the mesh in context. Flax shards a Variable when
      it creates the Variable.
    - `configured` (likely): an axis that no configuration of the project lists, if the mesh takes its axes from a YAML
      or TOML file or a flag (`cfg["mesh_axes"]`, `FLAGS.mesh_axes`).

    ## Fix
    Replaces a literal name by the only similar axis of the mesh.

    ## Limits
    Not reported: specs for a mesh that code outside the project passes, and logical names.
    """

    code = "SL301"
    name = "unknown-axis"
    harm = Harm.CRASH
    likely = ("configured",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "configured": "The axes come from a configuration of the project.",
    }
    assumes = True
    triggers = (*WAKES, Violates("axis.missing"))
    fixes = "safe"
    by_hand = "shardlint cannot tell which axis is meant"

    @detector("call", "partial")
    def compare_with_meshes(self, site: Site) -> Iterator[Finding]:
        """One finding for each axis that is in none of the meshes."""
        specs = [one for one in given_specs(site) if any(True for _ in named_axes(one.spec))]
        if not specs:
            return
        known = self._find_meshes(site) or []
        axes = _list_axes(known)
        for one in specs if known else ():
            for entry, axis in named_axes(one.spec):
                # SL306 reports strings that are not a name.
                if axis not in axes and axis.isidentifier():
                    yield self._make_finding(site, node_of_axis(site, one, entry, axis), axis, known, one)

    @detector("violation")
    def report_variable(self, site: Site) -> Finding:
        """A Variable of flax NNX that is placed when it is made."""
        said = site.violation.said
        return site.report_violation(
            f'This raises ValueError: the mesh ({said["mesh"]}) has no axis "{said["axis"]}".',
            help="write an axis of the mesh, or add a rule for the name to the logical axis rules",
            why=f"flax shards the Variable when it creates it, and the mesh is made at line {said['line']}",
        )

    @detector("call", "partial", of="jax.sharding.NamedSharding", finds="configured")
    def compare_with_configurations(self, site: Site) -> Iterator[Finding]:
        """Axes that no configuration of the project gives the mesh."""
        specs, mesh = list(given_specs(site)), site.argument("mesh")
        if (
            mesh is None
            or not any(True for one in specs for _ in named_axes(one.spec))
            or self._find_meshes(site)
        ):
            return
        asked = configured_axes(site, mesh)
        for one in specs if asked is not None else ():
            for entry, axis in named_axes(one.spec):
                if asked is not None and axis not in asked.axes and axis.isidentifier():
                    yield site.finding(
                        node_of_axis(site, one, entry, axis),
                        self._write_message(site, axis, "no configuration of the mesh has an"),
                        label="not in a configuration",
                        help=f"write one of {', '.join(sorted(asked.axes))}",
                        why=asked.said,
                    )

    def _find_meshes(self, site: Site) -> list[Mesh] | None:
        """Every mesh the specs of the call can meet; None when that is not known."""
        if site.api in ("jax.sharding.NamedSharding", "jax.shard_map"):
            argument = site.argument("mesh")
            if argument is not None:
                value = site.value(argument)
                if value != Constant(None):
                    return site.shardings.meshes(value)
            elif site.api != "jax.shard_map" or site.form == "partial" or site.arguments.open_keywords:
                return None
        if site.api not in (*JITS, "jax.shard_map"):
            # A mesh entered by `with mesh:` is not read where jax.set_mesh is in force: outer ones count.
            entered = any(one.kind == "with mesh" for one in site.context.contexts)
            return _meshes_in_context(
                site.program.surrounding_contexts(site.file, site.call) if entered else site.context
            )
        if site.form == "partial" and site.decorated is None:
            return None
        return _meshes_in_context(site.program.call_context(site.file, jitted_node(site)))

    def _make_finding(self, site: Site, node: ast.AST, axis: str, known: list[Mesh], argument: SpecArgument) -> Finding:
        axes = _list_axes(known)
        listed = ", ".join(f'"{name}"' for name in axes)
        near = difflib.get_close_matches(axis, axes, n=2, cutoff=0.7)
        fix: Fix | None = None
        if len(near) == 1 and is_written_axis(node, axis):
            quote = site.text(node)[0]
            if quote in "\"'":
                text = f"{quote}{near[0]}{quote}"
                fix = site.fix(Safety.SAFE, f"write {text}", [site.replace(node, text)])
        meshes = sorted({site.where(mesh.place) for mesh in known})
        return site.finding(
            node,
            self._write_message(site, axis, "its mesh has no" if len(known) == 1 else "none of its meshes has an"),
            label=f'did you mean "{near[0]}"?' if len(near) == 1 else "",
            help=f"write {'one of ' if len(axes) > 1 else ''}{listed}" if axes else "write a mesh with axes",
            fix=fix,
            certainty=Certainty.PROVEN if argument.certain else Certainty.POSSIBLE,
            why=f"the mesh made at {' or '.join(meshes[:3])} has {f'the axes {listed}' if axes else 'no axes'}; "
            f"checked on {site.release('jax')}",
        )

    def _write_message(self, site: Site, axis: str, meshes: str) -> str:
        if site.api == "jax.sharding.NamedSharding":
            raises = "`NamedSharding` raises ValueError"
        elif site.api == "jax.shard_map":
            raises = "Calling the mapped function raises ValueError"
        else:
            raises = "This raises ValueError"
        return f'{raises}: {meshes} axis "{axis}".'

def _list_axes(meshes: list[Mesh]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for mesh in meshes for name in mesh.axis_names or ()))


def _meshes_in_context(context: Context) -> list[Mesh] | None:
    if not context.complete or context.bare or not context.contexts:
        return None
    found = [one.mesh for one in context.contexts]
    known = [mesh for mesh in found if mesh is not None and mesh.axis_names is not None]
    return known if len(known) == len(found) else None

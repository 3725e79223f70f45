"""SL313."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.made_meshes import shared_meshes
from shardlint.facts.shardings import CONSTRAINTS
from shardlint.model.mesh.contexts import BRING_A_MESH, SET_KINDS
from shardlint.model.mesh.meshes import Mesh
from shardlint.rules_api.rule import (
    Calls,
    Edit,
    Finding,
    Fix,
    Harm,
    Rule,
    Safety,
    Violates,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint_rules.mesh.constraints import Target, sharding_targets

_RESHARD = "jax.reshard"
_OLD_RESHARD = "jax.sharding.reshard"  # until jax 0.8.2
_CONSTRAINT = "jax.lax.with_sharding_constraint"
_TO_RESHARD = "write `jax.sharding.reshard`, or make the mesh with `AxisType.Auto`"
_AUTO_ONLY = "on {} a constraint with a NamedSharding may name Auto axes only"
_ASSERTS = "on {} it raises ValueError; under `jax.set_mesh` it raises AssertionError if the array has another sharding"


class ConstraintOnExplicitMesh(Rule):
    """A constraint over Explicit axes raises. `reshard` over Auto axes raises as well.

    With Explicit axes the sharding is part of the array's type: `reshard` and `out_sharding=` change it. With Auto axes
    the compiler chooses the sharding, and a constraint tells the compiler which one to choose.

    ## Reports
    - proven: `with_sharding_constraint` or `eqx.filter_shard` with a sharding over a mesh with `AxisType.Explicit`.
    - proven: `jax.reshard` with a sharding over a mesh with Auto axes.
    - proven: a call with `out_sharding=` on a mesh with Auto axes.
    - `project-mesh` (likely): a constraint over a mesh from a parameter or field, if all meshes that the program makes
      and passes to other code have Explicit axes.

    ## Write instead
    For Explicit axes write `jax.reshard` (before jax 0.8.2 `jax.sharding.reshard`). For Auto axes write
    `jax.lax.with_sharding_constraint` inside jit and `jax.device_put` outside, in place of `reshard` and
    `out_sharding=`. Or make the mesh with the other axis type.

    ## Fix
    Replaces the constraint by `reshard`, or `reshard` by a constraint or `device_put`. Unsafe: you may want other axis
    types instead. No fix for `filter_shard`, because `reshard` takes only arrays.

    ## Limits
    Not reported: a mesh that mixes Auto and Explicit axes. Except for `project-mesh`, also not reported: a constraint
    that may run under `jax.set_mesh`. It raises AssertionError if the array does not have this sharding already. SL307
    reports a mesh without `axis_types`.
    """

    code = "SL313"
    name = "constraint-on-explicit-mesh"
    harm = Harm.CRASH
    likely = ("project-mesh",)
    assumptions: ClassVar[Mapping[str, str]] = {"project-mesh": "The program makes this mesh itself."}
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.7.2"}
    triggers = (Calls(*CONSTRAINTS, _RESHARD), Violates("output.auto"))
    in_version_checks = False
    fixes = "unsafe"

    @detector("call", of=tuple(CONSTRAINTS))
    def report_constraint(self, site: Site) -> Finding | None:
        """A constraint over Explicit axes."""
        argument = site.argument(CONSTRAINTS[site.api])
        for target in sharding_targets(site.program, site.file, argument) if argument is not None else ():
            if target.bare:
                finding = self._report_bare(site, target)
            elif target.meshes:
                finding = self._report_on_mesh(site, target)
            else:
                finding = self._report_on_any_mesh(site, target)
            if finding is not None:
                return finding
        return None

    @detector("call", of=_RESHARD)
    def report_reshard(self, site: Site) -> Finding | None:
        """A `reshard` over Auto axes."""
        argument = site.argument("out_shardings")
        found = sharding_targets(site.program, site.file, argument) if argument is not None else ()
        where = next(filter(None, (_find_auto_mesh(site, target) for target in found)), "")
        if not where:
            return None
        return site.finding(
            site.call.func,
            f"`reshard` raises ValueError: {where} has Auto axes.",
            label="Auto axes",
            help="write `jax.lax.with_sharding_constraint` inside jit, or `jax.device_put` outside",
            fix=self._fix_with_constraint(site),
            why=f"on {site.release('jax')} reshard is for Explicit axes only",
        )

    @detector("violation")
    def report_output(self, site: Site) -> Finding:
        """An `out_sharding` over Auto axes."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['operation']}` raises ValueError: its `out_sharding` names the Auto axis `{said['axes']}`.",
            help="remove `out_sharding=`, and write `jax.lax.with_sharding_constraint` around the call, "
            "or make the mesh with `AxisType.Explicit`",
            why=f"the mesh made at line {said['line']} has Auto axes, and `out_sharding` is for Explicit axes",
        )

    def _report_on_any_mesh(self, site: Site, target: Target) -> Finding | None:
        """The mesh is not followed, but whichever it is, its axes are Explicit."""
        if not site.is_named_anywhere("Explicit") or _handles_axis_types(site):
            return None
        made = shared_meshes(site.program, site.file, "explicit")
        if not made:
            return None
        first = made[0]
        where = _describe_place(site, first.path.name, first.line)
        every = "the mesh of the program" if len(made) == 1 else "every mesh that the program passes to other code"
        return site.finding(
            site.call.func,
            f"`{site.short_name}` raises: {every} has Explicit axes."
            if target.names_an_axis
            else f"In jit this constraint raises or has no effect: {every} has Explicit axes.",
            label="Explicit axes",
            help=_TO_RESHARD,
            fix=self._fix_with_reshard(site),
            form="project-mesh",
            why=f"see {where}; {_ASSERTS.format(site.release('jax'))}",
        )

    def _report_on_mesh(self, site: Site, target: Target) -> Finding | None:
        """A constraint over a mesh that is made with Explicit axes."""
        explicit = (
            way[0]
            for way in target.meshes
            if all(site.shardings.axis_types(one) == "explicit" and one.axis_types != "default" for one in way)
        )
        mesh = next(explicit, None)
        if not target.names_an_axis or mesh is None or _may_be_set(site):
            return None
        return self._report_explicit(site, _describe_mesh_creation(site, mesh), self._fix_with_reshard(site))

    def _report_bare(self, site: Site, target: Target) -> Finding | None:
        """A constraint by a spec under a mesh with Explicit axes."""
        if not target.names_an_axis or not site.context.only("with mesh") or _types_in_context(site) != {"explicit"}:
            return None
        return self._report_explicit(site, _describe_set(site))

    def _report_explicit(self, site: Site, where: str, fix: Fix | None = None) -> Finding:
        return site.finding(
            site.call.func,
            f"`{site.short_name}` raises ValueError: {where} has Explicit axes.",
            label="Explicit axes",
            help=_TO_RESHARD,
            fix=fix,
            why=_AUTO_ONLY.format(site.release("jax")),
        )

    def _fix_with_reshard(self, site: Site) -> Fix | None:
        if site.api != _CONSTRAINT:
            return None
        name, imports = site.spell(_RESHARD if site.allows("jax", ">=0.8.2") else _OLD_RESHARD)
        renamed = _rename_keywords(site, {"x": "xs", "shardings": "out_shardings"})
        edits = [site.replace(site.call.func, name), *imports, *renamed]
        why = "in a jit the array must already be on the mesh"
        return site.fix(Safety.UNSAFE, f"write {name}", edits, why)

    def _fix_with_constraint(self, site: Site) -> Fix | None:
        """A constraint where it is surely traced, device_put where it surely is not."""
        if site.region.is_proven:
            api, renamed = _CONSTRAINT, {"xs": "x", "out_shardings": "shardings"}
        elif site.region.traced == "never":
            api, renamed = "jax.device_put", {"xs": "x", "out_shardings": "device"}
        else:
            return None
        name, imports = site.spell(api)
        edits = [site.replace(site.call.func, name), *imports, *_rename_keywords(site, renamed)]
        return site.fix(
            Safety.UNSAFE, f"write {name}", edits, "you may have wanted a mesh with Explicit axes"
        )


def _find_auto_mesh(site: Site, target: Target) -> str:
    """The mesh of a target that has Auto axes, in words; empty if there is none."""
    if not target.names_an_axis:
        return ""
    if target.bare:
        is_auto = site.context.only(*SET_KINDS) and _types_in_context(site) == {"auto"}
        return _describe_set(site) if is_auto else ""
    for way in target.meshes:
        if all(site.shardings.axis_types(one) == "auto" for one in way):
            return _describe_mesh_creation(site, way[0])
    return ""


def _types_in_context(site: Site) -> set[str]:
    """The types of the axes of the meshes in context."""
    meshes = (one.mesh for one in site.context.contexts)
    return {site.shardings.axis_types(mesh) if mesh is not None else "other" for mesh in meshes}


def _describe_mesh_creation(site: Site, mesh: Mesh) -> str:
    return f"the mesh made at {_describe_place(site, mesh.place.file.path.name, mesh.place.line)}"


def _describe_set(site: Site) -> str:
    place = site.context.contexts[0].place
    return f"the mesh set at {_describe_place(site, place.file.path.name, place.line)}"


def _may_be_set(site: Site) -> bool:
    """Return whether the call may run under `jax.set_mesh`, where a constraint asserts and may pass."""
    around = site.program.surrounding_contexts(site.file, site.call)
    if any(one.kind != "with mesh" for one in around.contexts):
        return True
    return not around.complete and any(site.is_named_anywhere(word) for word in ("set_mesh", "use_mesh"))


def _rename_keywords(site: Site, names: dict[str, str]) -> list[Edit]:
    """Edits that rename the keywords of the call."""
    edits = []
    for keyword in site.call.keywords:
        if keyword.arg in names:
            start, _ = site.file.character_span(keyword)
            edits.append(Edit(start, start + len(keyword.arg), names[keyword.arg]))
    return edits


def _handles_axis_types(site: Site) -> bool:
    """Return whether the code around looks at the types of the axes, or runs where others hold (`shard_map`,
    `auto_axes`).
    """
    for scope in site.scope.enclosing_scopes():
        if scope.kind not in ("function", "lambda"):
            continue
        text = site.text(scope.node).lower()
        if any(
            word in text for word in ("axis_type", "axistype", "_axes_explicit", "explicit_axes", "auto_axes")
        ):
            return True
        ends = site.program.flow.ends(site.file, scope.node)
        if any(wrapper.api in BRING_A_MESH for end in ends.found for wrapper in end.wrappers):
            return True
    return False


def _describe_place(site: Site, name: str, line: int) -> str:
    return f"line {line}" if name == site.file.path.name else f"{name}:{line}"

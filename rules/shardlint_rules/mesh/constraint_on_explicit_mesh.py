"""SL313."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import BRING_A_MESH, SET_KINDS
from shardlint.rules_api.rule import (
    Calls,
    Certainty,
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
from shardlint_rules.mesh.axis_types import CONSTRAINTS, Target, targets

_RESHARD = "jax.reshard"
_OLD_RESHARD = "jax.sharding.reshard"  # until jax 0.8.2
_CONSTRAINT = "jax.lax.with_sharding_constraint"
_TO_RESHARD = "write `jax.sharding.reshard`, or make the mesh with `AxisType.Auto`"
_AUTO_ONLY = "on {} a constraint may name Auto axes only"
_ASSERTS = "on {} a constraint on a mesh with Explicit axes only checks that the array has this sharding"


class ConstraintOnExplicitMesh(Rule):
    """A constraint on a mesh with Explicit axes raises, and so does `reshard` on a mesh with Auto axes.

    On a mesh with Explicit axes the sharding is part of the array's type: `reshard` and `out_sharding=` change it. On a
    mesh with Auto axes the compiler chooses the sharding, and a constraint tells the compiler which one to choose.

    ## Reports
    - proven: `with_sharding_constraint` or `eqx.filter_shard` with a sharding over a mesh with `AxisType.Explicit`.
    - proven: `jax.reshard` with a sharding over a mesh with Auto axes.
    - proven: a call with `out_sharding=` on a mesh with Auto axes.
    - `project-mesh` (likely): a constraint over a mesh from a parameter or field, if all meshes that the program makes
      and passes to other code have Explicit axes.

    ## Write instead
    Call `jax.reshard` (before jax 0.8.2 `jax.sharding.reshard`), or make the mesh with Auto axes.

    ## Fix
    Replaces the constraint by `reshard`, or `reshard` by a constraint or `device_put`. Unsafe: you may want other axis
    types instead. No fix for `filter_shard`, because `reshard` takes only arrays.

    ## Limits
    Not reported: a mesh that mixes Auto and Explicit axes, and a constraint that may run under `jax.set_mesh`. Under
    `jax.set_mesh` a constraint only asserts that the array already has this sharding. SL307 reports a mesh without
    `axis_types`.
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

    @detector("call")
    def compare_with_mesh(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call: its sharding is one over Explicit axes, or of `reshard` over Auto axes."""
        argument = site.argument(CONSTRAINTS.get(site.api, "out_shardings"))
        if argument is None:
            return
        for target in targets(site.program, site.file, argument):
            finding = self._bare(site, target) if target.bare else self._on_mesh(site, target)
            if finding is None and not target.bare and not target.meshes and site.api != _RESHARD:
                finding = self._on_any_mesh(site, target)
            if finding is not None:
                yield finding
                return

    @detector("violation")
    def report_output(self, site: Site) -> Finding:
        """An `out_sharding` over Auto axes."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['operation']}` raises ValueError: its `out_sharding` names the Auto axis `{said['axes']}`.",
            help="leave out the `out_sharding` and use `jax.lax.with_sharding_constraint`, "
            "or make the mesh with `AxisType.Explicit`",
            why=f"the mesh made at line {said['line']} has Auto axes, and `out_sharding` is for Explicit axes",
        )

    def _on_any_mesh(self, site: Site, target: Target) -> Finding | None:
        """The mesh is not followed, but whichever it is, its axes are Explicit."""
        if not site.anywhere("Explicit") or _own_axes(site):
            return None
        made = site.program.shared_meshes(site.file, "explicit")
        if not made:
            return None
        first = made[0]
        where = _where(site, first.path.name, first.line)
        every = "the mesh of the program" if len(made) == 1 else "every mesh that the program passes to other code"
        return site.finding(
            site.call.func,
            f"`{_name(site)}` raises ValueError: {every} has Explicit axes."
            if target.names_an_axis
            else f"No-op: {every} has Explicit axes, and a constraint reshards nothing over them.",
            label="Explicit axes",
            help=_TO_RESHARD,
            fix=self._to_reshard(site),
            certainty=Certainty.POSSIBLE,
            form="project-mesh",
            why=f"see {where}; {_ASSERTS.format(site.release('jax'))}",
        )

    def _on_mesh(self, site: Site, target: Target) -> Finding | None:
        if not target.names_an_axis:
            return None
        for way in target.meshes:
            mesh = way[0]
            kinds = {(site.shardings.axis_types(one), one.axis_types == "default") for one in way}
            if len({types for types, _ in kinds}) != 1:
                continue
            types = site.shardings.axis_types(mesh)
            where = f"the mesh made at {_where(site, mesh.place.file.path.name, mesh.place.line)}"
            if site.api == _RESHARD and types == "auto":
                return self._on_auto(site, where)
            if site.api != _RESHARD and kinds == {("explicit", False)}:
                if _may_be_set(site):
                    return None
                return site.finding(
                    site.call.func,
                    f"`{_name(site)}` raises ValueError: {where} has Explicit axes.",
                    label="Explicit axes",
                    help=_TO_RESHARD,
                    fix=self._to_reshard(site),
                    why=_AUTO_ONLY.format(site.release("jax")),
                )
        return None

    def _bare(self, site: Site, target: Target) -> Finding | None:
        context = site.context
        if not target.names_an_axis or not context.only("with mesh", *SET_KINDS):
            return None
        types = {
            site.shardings.axis_types(one.mesh) if one.mesh is not None else "other"
            for one in context.contexts
        }
        at = context.contexts[0].place
        where = f"the mesh set at {_where(site, at.file.path.name, at.line)}"
        if site.api == _RESHARD:
            return self._on_auto(site, where) if types == {"auto"} and context.only(*SET_KINDS) else None
        if types != {"explicit"} or not context.only("with mesh"):
            return None
        return site.finding(
            site.call.func,
            f"`{_name(site)}` raises ValueError: {where} has Explicit axes.",
            label="Explicit axes",
            help=_TO_RESHARD,
            why=_AUTO_ONLY.format(site.release("jax")),
        )

    def _on_auto(self, site: Site, where: str) -> Finding:
        return site.finding(
            site.call.func,
            f"`reshard` raises ValueError: {where} has Auto axes.",
            label="Auto axes",
            help="write `jax.lax.with_sharding_constraint` inside a jit, `jax.device_put` outside",
            fix=self._from_reshard(site),
            why=f"on {site.release('jax')} reshard is for Explicit axes only",
        )

    def _to_reshard(self, site: Site) -> Fix | None:
        if site.api != _CONSTRAINT:
            return None
        name, imports = site.spell(_RESHARD if site.allows("jax", ">=0.8.2") else _OLD_RESHARD)
        renamed = _renamed(site, {"x": "xs", "shardings": "out_shardings"})
        edits = [site.replace(site.call.func, name), *imports, *renamed]
        why = "in a jit the array must already be on the mesh"
        return site.fix(Safety.UNSAFE, f"write {name}", edits, why)

    def _from_reshard(self, site: Site) -> Fix | None:
        """A constraint where it is surely traced, device_put where it surely is not."""
        if site.region.proven:
            api, renamed = _CONSTRAINT, {"xs": "x", "out_shardings": "shardings"}
        elif site.region.traced == "never":
            api, renamed = "jax.device_put", {"xs": "x", "out_shardings": "device"}
        else:
            return None
        name, imports = site.spell(api)
        edits = [site.replace(site.call.func, name), *imports, *_renamed(site, renamed)]
        return site.fix(
            Safety.UNSAFE, f"write {name}", edits, "you may have wanted a mesh with Explicit axes"
        )


def _may_be_set(site: Site) -> bool:
    """Return whether the call may run under `jax.set_mesh`, where a constraint asserts and may pass."""
    around = site.program.around(site.file, site.call)
    if any(one.kind != "with mesh" for one in around.contexts):
        return True
    return not around.complete and any(site.anywhere(word) for word in ("set_mesh", "use_mesh"))


def _renamed(site: Site, names: dict[str, str]) -> list[Edit]:
    """Edits that rename the keywords of the call."""
    edits = []
    for keyword in site.call.keywords:
        if keyword.arg in names:
            start, _ = site.file.span(keyword)
            edits.append(Edit(start, start + len(keyword.arg), names[keyword.arg]))
    return edits


def _own_axes(site: Site) -> bool:
    """Return whether the code around looks at the types of the axes, or runs where others hold (`shard_map`,
    `auto_axes`).
    """
    for scope in site.scope.outward():
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


def _name(site: Site) -> str:
    return site.api.rpartition(".")[2]


def _where(site: Site, name: str, line: int) -> str:
    return f"line {line}" if name == site.file.path.name else f"{name}:{line}"

"""SL313."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import BRING_A_MESH, SET_KINDS
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.mesh.axis_types import CONSTRAINTS, Target, targets

_RESHARD = "jax.reshard"
_OLD_RESHARD = "jax.sharding.reshard"  # until jax 0.8.2
_CONSTRAINT = "jax.lax.with_sharding_constraint"


class ConstraintOnExplicitMesh(Rule):
    """A constraint is used on a mesh with Explicit axes, or `reshard` on one with Auto axes.

    ## What it does
    Reports `with_sharding_constraint` and `eqx.filter_shard` with a sharding over a mesh that was made with
    `AxisType.Explicit`, and `jax.reshard` with a sharding over a mesh whose axes are Auto. A mesh whose
    axes became Explicit because none were said is SL307.

    With `--certainty possible` also a constraint by a bare spec under `jax.set_mesh` of an Explicit mesh: it passes
    if the array is sharded so already. And one over a mesh that is not followed (`self.mesh`, a parameter),
    where every mesh that the program makes and hands around, tests aside, says `AxisType.Explicit`.

    ## Why it hurts
    Each of the two serves one kind of axes, and raises on the other:

    | | Auto axes | Explicit axes |
    |---|---|---|
    | `with_sharding_constraint(x, NamedSharding(mesh, P("data")))` | constrains | `ValueError` |
    | `with_sharding_constraint(x, P("data"))` | constrains | asserts: `AssertionError` if x is not sharded so |
    | `jax.reshard(x, ...)` | `ValueError` | reshards |

    A spec that names no axis is taken by all of them, but over Explicit axes a constraint moves nothing: under
    `jax.set_mesh` it is an assertion, elsewhere it is passed over.

    ## Use instead
    Or a mesh with Auto axes.

    ## Fix safety
    Unsafe: which of the two is meant is yours to say, and `reshard` in a jit needs its array on the mesh
    already. `filter_shard` is not rewritten, since `reshard` takes arrays only.

    ## Evidence
    Run on jax 0.7.2 to 0.12 (0.6.2 raises too, but has no `reshard`; up to 0.8.1 it
    is `jax.sharding.reshard`). Left alone: a mesh that mixes types; a mesh that is not known, where some mesh of
    the project is not Explicit. Meshes that stay in the function that makes them, that stand in where none is
    given, or that are made for a flag which no call gives, do not count.
    """

    code = "SL313"
    name = "constraint-on-explicit-mesh"
    harm = Harm.CRASH
    likely = ("project-mesh",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.7.2"}
    triggers = (Calls(*CONSTRAINTS, _RESHARD),)
    forms = ("call",)
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
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

    def _on_any_mesh(self, site: Site, target: Target) -> Finding | None:
        """The mesh is not followed, but whichever it is, its axes are Explicit."""
        if not site.anywhere("Explicit") or _own_axes(site):
            return None
        made = site.program.shared_meshes(site.file, "explicit")
        if not made:
            return None
        first = made[0]
        where = f"line {first.line}" if first.path == site.file.path else f"{first.path.name}:{first.line}"
        every = f"the one mesh that the program hands around, made at {where}, has Explicit axes"
        if len(made) > 1:
            every = f"every mesh that the program hands around has Explicit axes, as that of {where}"
        on = site.release("jax")
        return site.finding(
            site.call.func,
            f"On {on} this raises ValueError, or under jax.set_mesh AssertionError unless the array is sharded so "
            f"already: {every}."
            if target.names_an_axis
            else f"On {on} this moves nothing, since {every}: under jax.set_mesh it is an assertion, elsewhere it is "
            "passed over.",
            label="the axes are Explicit",
            help="write jax.reshard, or make the mesh with AxisType.Auto",
            fix=self._to_reshard(site),
            certainty=Certainty.POSSIBLE,
            form="project-mesh",
            why="no mesh with other axes is handed around in the program",
        )

    def _on_mesh(self, site: Site, target: Target) -> Finding | None:
        if not target.names_an_axis:
            return None
        on = site.release("jax")
        for way in target.meshes:
            mesh = way[0]
            kinds = {(site.shardings.axis_types(one), one.axis_types == "default") for one in way}
            if len({types for types, _ in kinds}) != 1:
                continue
            types = site.shardings.axis_types(mesh)
            where = f"the mesh made at {_where(site, mesh.place.file.path.name, mesh.place.line)}"
            if site.api == _RESHARD and types == "auto":
                return site.finding(
                    site.call.func,
                    f"On {on} this raises ValueError: {where} has Auto axes, and reshard serves Explicit ones.",
                    label="the axes are Auto",
                    help="inside a jit constrain it, outside use jax.device_put",
                    fix=self._from_reshard(site),
                )
            if site.api != _RESHARD and kinds == {("explicit", False)}:
                asserts = _may_be_set(site)
                return site.finding(
                    site.call.func,
                    f"On {on} this raises ValueError, or under jax.set_mesh AssertionError unless the array is sharded "
                    f"so already: {where} has Explicit axes."
                    if asserts
                    else f"On {on} this raises ValueError: {where} has Explicit axes, and a constraint may name "
                    "Auto ones only.",
                    label="the axes are Explicit",
                    help="write jax.reshard, or make the mesh with AxisType.Auto",
                    fix=self._to_reshard(site),
                    certainty=Certainty.POSSIBLE if asserts else Certainty.PROVEN,
                    form="set-mesh" if asserts else "",
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
        on = site.release("jax")
        if site.api == _RESHARD:
            if types == {"auto"} and context.only(*SET_KINDS):
                return site.finding(
                    site.call.func,
                    f"On {on} this raises ValueError: {where} has Auto axes, and reshard serves Explicit ones.",
                    label="the axes are Auto",
                    help="inside a jit constrain it, outside use jax.device_put",
                    fix=self._from_reshard(site),
                )
            return None
        if types != {"explicit"}:
            return None
        entered = context.only("with mesh")
        return site.finding(
            site.call.func,
            f"On {on} this raises ValueError: {where} has Explicit axes, and a constraint may name Auto ones only."
            if entered
            else f"On {on} this is an assertion, since {where} has Explicit axes: it raises AssertionError "
            "unless the array is sharded so already.",
            label="the axes are Explicit",
            help="write jax.reshard, or make the mesh with AxisType.Auto",
            fix=self._to_reshard(site) if not entered else None,
            certainty=Certainty.PROVEN if entered else Certainty.POSSIBLE,
            form="" if entered else "bare-spec",
        )

    def _to_reshard(self, site: Site) -> Fix | None:
        if site.api != _CONSTRAINT:
            return None
        name, imports = site.spell(_RESHARD if site.allows("jax", ">=0.8.2") else _OLD_RESHARD)
        renamed = _renamed(site, {"x": "xs", "shardings": "out_shardings"})
        edits = [site.replace(site.call.func, name), *imports, *renamed]
        why = "in a jit the array must be on the mesh already"
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
    """Whether the call may run under `jax.set_mesh`, where a constraint asserts and may pass."""
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
    """Whether the code around looks at the types of the axes, or runs where others hold (`shard_map`, `auto_axes`)."""
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


def _where(site: Site, name: str, line: int) -> str:
    return f"line {line}" if name == site.file.path.name else f"{name}:{line}"

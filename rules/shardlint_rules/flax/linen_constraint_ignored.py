"""SL501."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.linen_names import (
    CONSTRAINTS,
    MESHES,
    RULES_CONTEXTS,
    constrains_anywhere,
    sets_rules_anywhere,
)

_BY_HAND = ("enter_context", "__enter__")
_WHY = "pjit and other code under it may need `with mesh:`"


class LinenConstraintIgnored(Rule):
    """Linen's logical constraints run under `with mesh:`, which they no longer read.

    From flax 0.12.2, `with_logical_constraint` and `unbox` read only the mesh of `jax.set_mesh`. Under `with mesh:`
    they do nothing: the compiler chooses the layout of activations, and weights stay where they were created. Nothing
    is raised.

    ## Reports
    - proven: `nn.logical_axis_rules(...)` entered together with `with mesh:`, in a project with logical constraints.
    - proven: `nn.with_logical_constraint` where `with mesh:` is the only mesh in context.
    - `never-entered` (likely): `nn.with_logical_constraint` in a file that creates a mesh, if the project sets logical
      axis rules but never enters a mesh.
    - `callers-may-set` (possible): such a constraint under `with mesh:`, if code outside the project may call the
      function under `jax.set_mesh`.

    ## Write instead
    Write `with jax.set_mesh(mesh):`, or pass the mesh: `nn.with_logical_constraint(x, names, mesh=mesh)`. The mesh
    needs Auto axes: over Explicit axes, which `jax.make_mesh` makes since jax 0.9, the constraint raises.

    ## Fix
    Writes `jax.set_mesh`. Unsafe: code in the block that needs `with mesh:` (`pjit` with bare specs, haliax 1.3) fails.
    No fix in traced code, where `jax.set_mesh` raises, and before jax 0.7.1.
    """

    code = "SL501"
    name = "linen-constraint-ignored"
    harm = Harm.SILENT
    likely = ("never-entered",)
    assumptions: ClassVar[Mapping[str, str]] = {"never-entered": "No code outside the project enters a mesh."}
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.12.2"}
    triggers = (Calls(*RULES_CONTEXTS), Calls(*CONSTRAINTS))
    in_version_checks = False
    fixes = "unsafe"

    @detector("call", of=CONSTRAINTS, finds="never-entered")
    def report_without_mesh(self, site: Site) -> Finding | None:
        """A constraint in a project that makes a mesh and enters none."""
        if _has_own_mesh(site) or not sets_rules_anywhere(site):
            return None
        if not any(map(site.file.contains_text, MESHES)):
            return None  # it may be a library, whose callers enter one
        if _sets_a_mesh(site) or any(map(site.is_named_anywhere, _BY_HAND)):
            return None
        if any(file.withs_saying("mesh") for file in site.program.together(site.file)):
            return None
        return site.finding(
            site.call,
            f"`{site.short_name}` does nothing: no code of the project enters a mesh.",
            why="the logical axis rules name axes of a mesh, which the constraint reads from its context",
            help="write `with jax.set_mesh(mesh):` around the call of the function, or add `mesh=mesh` here",
        )

    @detector("call", of=CONSTRAINTS)
    def report_constraint(self, site: Site) -> Finding | None:
        """A constraint under `with mesh:`."""
        outside = site.program.surrounding_contexts(site.file, site.call)
        if _has_own_mesh(site) or any(one.kind != "with mesh" for one in outside.contexts):
            return None
        if not site.context.only("with mesh") or not (outside.complete or not _sets_a_mesh(site)):
            return None
        return site.finding(
            site.call,
            f"On {site.release('flax')} `{site.short_name}` does nothing: "
            "it reads only the mesh of `jax.set_mesh`.",
            why=f"line {site.context.contexts[0].place.line} enters the mesh by `with mesh:`",
            help="write `with jax.set_mesh(mesh):` around the call, or add `mesh=mesh` here",
        )

    @detector("call", of=RULES_CONTEXTS)
    def report_block(self, site: Site) -> Finding | None:
        """Rules that are entered together with `with mesh:`."""
        item = site.file.parent(site.call)
        block = site.file.parent(item) if isinstance(item, ast.withitem) else None
        if not isinstance(item, ast.withitem) or not isinstance(block, ast.With):
            return None
        meshes = list(self._find_meshes(site, block))
        if not meshes or any(one.kind != "with mesh" for one in meshes) or not constrains_anywhere(site):
            return None
        mesh = meshes[0]
        outside = site.program.surrounding_contexts(site.file, block)
        if any(one.kind != "with mesh" for one in outside.contexts):
            return None
        sure = outside.complete or not _sets_a_mesh(site)
        return site.finding(
            mesh.place.node,
            f"On {site.release('flax')} logical constraints under this mesh do nothing: they read only `jax.set_mesh`.",
            why="" if sure else "no `jax.set_mesh` is seen around this, but a caller may enter it",
            help=f"write `with jax.set_mesh({mesh.place.source_text()}):`",
            fix=self._write_fix(site, mesh),
            form="" if sure else "callers-may-set",
        )

    def _find_meshes(self, site: Site, block: ast.With) -> Iterator[MeshContext]:
        """The meshes entered in the same statement as the rules, or in the next one outside or inside."""
        blocks = [block]
        outer = site.file.parent(block)
        if isinstance(outer, ast.With):
            blocks.append(outer)
        if isinstance(block.body[0], ast.With):
            blocks.append(block.body[0])
        for one in blocks:
            for item in one.items:
                if item.context_expr is site.call:
                    continue
                found = site.program.contexts.context_of_manager(Place(site.file, item.context_expr))
                if found is not None:
                    yield found

    def _write_fix(self, site: Site, mesh: MeshContext) -> Fix | None:
        if site.region.is_proven or not site.allows("jax", ">=0.7.1"):
            return None
        name, imports = site.spell("jax.set_mesh")
        text = f"{name}({mesh.place.source_text()})"
        edits = [*site.wrap_in_call(mesh.place.node, name), *imports]
        return site.fix(Safety.UNSAFE, f"write {text}", edits, _WHY)


def _has_own_mesh(site: Site) -> bool:
    """Return whether a constraint is given a mesh, or may be."""
    given = site.arguments
    return "mesh" in given.keywords or given.open_keywords or len(given.positional) > 3


def _sets_a_mesh(site: Site) -> bool:
    """Return whether any file of the project mentions one of the newer contexts."""
    return any(site.is_named_anywhere(name) for name in ("set_mesh", "use_mesh", "use_abstract_mesh"))

"""SL501."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.flax.linen import CONSTRAINTS, RULES_CONTEXTS, constrains_anywhere

_WHY = "it enters another kind of context, which pjit and other code under it may not take"


class LinenConstraintIgnored(Rule):
    """Linen's logical constraints are used under `with mesh:`, which they no longer look at.

    ## What it does
    Reports `nn.logical_axis_rules(...)` entered together with a mesh by `with mesh:`, in a project that has logical
    constraints, and `nn.with_logical_constraint` where `with mesh:` is surely the only mesh in context. Where code
    outside may have called `jax.set_mesh` as well, the finding is possible.

    ## Why it hurts
    From flax 0.12.2 `with_logical_constraint` and `unbox` ask for the mesh that `jax.set_mesh` sets. Under `with mesh:`
    they find none and do nothing: every activation is laid out as the compiler likes, and weights stay where they
    were made. Nothing is raised.

    ## Use instead
    Or give each constraint its mesh: `nn.with_logical_constraint(x, names, mesh=mesh)`.

    ## Fix safety
    Unsafe: code in the block that needs `with mesh:` (`pjit` with bare specs, Haliax) does not find it then. Not
    offered in traced code, where `jax.set_mesh` raises, nor before jax 0.7.1.

    ## Evidence
    Run on flax 0.11.2 and 0.12.0, where the constraint works, and on 0.12.2, 0.12.3, 0.12.4, 0.12.6 and
    0.12.12, where it does nothing.
    """

    code = "SL501"
    name = "linen-constraint-ignored"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.12.2"}
    triggers = (Calls(*RULES_CONTEXTS), Calls(*CONSTRAINTS))
    forms = ("call",)
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a block, or for a constraint."""
        if site.api in RULES_CONTEXTS:
            yield from self._block(site)
        else:
            yield from self._constraint(site)

    def _constraint(self, site: Site) -> Iterator[Finding]:
        given = site.arguments
        if "mesh" in given.keywords or given.open_keywords or len(given.positional) > 3:
            return
        context = site.context
        outside = site.program.around(site.file, site.call)
        if any(one.kind != "with mesh" for one in outside.contexts):
            return
        if context.only("with mesh") and (outside.complete or not _sets_a_mesh(site)):
            at = context.contexts[0].place
            yield site.finding(
                site.call,
                f"On {site.release('flax')} this does nothing: it looks for the mesh of jax.set_mesh, "
                "and `with mesh:` sets another.",
                label=f"the mesh entered at line {at.line} is not seen",
                help="enter the mesh by jax.set_mesh(mesh), or write mesh=mesh here",
            )

    def _block(self, site: Site) -> Iterator[Finding]:
        item = site.file.parent(site.call)
        block = site.file.parent(item) if isinstance(item, ast.withitem) else None
        if not isinstance(item, ast.withitem) or not isinstance(block, ast.With):
            return
        meshes = list(self._meshes(site, block))
        if not meshes or any(one.kind != "with mesh" for one in meshes) or not constrains_anywhere(site):
            return
        mesh = meshes[0]
        outside = site.program.around(site.file, block)
        if any(one.kind != "with mesh" for one in outside.contexts):
            return
        sure = outside.complete or not _sets_a_mesh(site)
        yield site.finding(
            mesh.place.node,
            f"On {site.release('flax')} they look for the mesh of jax.set_mesh, and do nothing under `with mesh:`.",
            label="linen's logical constraints do not see this mesh",
            help="write jax.set_mesh(mesh) in its place",
            fix=self._fix(site, mesh),
            certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
            form="" if sure else "callers-may-set",
        )

    def _meshes(self, site: Site, block: ast.With) -> Iterator[MeshContext]:
        """The meshes entered with the rules: in the same statement, or in one that stands right around or inside it."""
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
                found = site.program.contexts.manager(Place(site.file, item.context_expr))
                if found is not None:
                    yield found

    def _fix(self, site: Site, mesh: MeshContext) -> Fix | None:
        if site.region.proven or not site.allows("jax", ">=0.7.1"):
            return None
        name, imports = site.spell("jax.set_mesh")
        text = f"{name}({mesh.place.text()})"
        edits = [*site.given_to(mesh.place.node, name), *imports]
        return site.fix(Safety.UNSAFE, f"write {text}", edits, _WHY)


def _sets_a_mesh(site: Site) -> bool:
    """Whether any file of the project mentions one of the newer contexts."""
    return any(site.anywhere(name) for name in ("set_mesh", "use_mesh", "use_abstract_mesh"))

"""SL502."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.set_mesh.obstacles import item_to_move
from shardlint.rules_api.rule import Edit, Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.rules_api.with_items import enter_by_function
from shardlint_rules.flax._line_for_mesh import with_line_for_mesh
from shardlint_rules.flax.annotations import is_switched


class UnshardedInit(Rule):
    """An NNX model with sharding annotations is built where no mesh is in context.

    From flax 0.12, an annotated variable is sharded when it is created. Without a mesh this raises ValueError, also
    inside jit and `nnx.eval_shape`. Creating an optimizer with moments raises too, because the moments have the
    annotations of the model. From flax 0.12.2 the mesh of `with mesh:` does not count.

    ## Reports
    - proven: a call that builds a model with annotated variables, or an optimizer of one, outside any mesh context.
      From flax 0.12.2 also under `with mesh:`.

    ## Fix
    Puts the statement under `with jax.set_mesh(mesh):`, if the code shows where the mesh is created. Replaces an
    existing `with mesh:`. Unsafe: the model is then sharded.

    ## Limits
    Not reported: annotations with `mesh=`, functions that code outside the project may call, and projects that turn
    `flax_always_shard_variable` off.
    """

    code = "SL502"
    name = "unsharded-init"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.12"}
    triggers = (Violates("variable.meshless"),)
    fixes = "unsafe"

    @detector("violation")
    def report_creation(self, site: Site) -> Finding | None:
        """The call that makes the variables."""
        said, made = site.violation.said, site.syntax
        if not isinstance(made, ast.Call) or is_switched(site):
            return None
        missing = "flax does not read `with mesh:`" if said["legacy"] else "no mesh is in context"
        where = f"line {said['line']}" if said["file"] == site.file.path.name else f"{said['file']}:{said['line']}"
        return site.report_violation(
            f"On {site.release('flax')} `{site.shown(made.func)}` raises ValueError here: {missing}.",
            help="write `with jax.set_mesh(mesh):` around this call",
            why=f"the annotated variable made at {where} needs a mesh in context",
            fix=_write_fix(site, made),
        )


def _write_fix(site: Site, call: ast.Call) -> Fix | None:
    edits: list[Edit] | None
    if site.violation.said["legacy"]:
        contexts = site.program.mesh_contexts(site.file, call).contexts
        item = item_to_move(site, contexts[0]) if len(contexts) == 1 else None
        line, edits = "jax.set_mesh", enter_by_function(site, item, "jax.set_mesh") if item is not None else None
    else:
        line, edits = with_line_for_mesh(site, call) or ("", None)
    return site.fix(Safety.UNSAFE, f"write {line}", edits, "the model is sharded") if edits else None

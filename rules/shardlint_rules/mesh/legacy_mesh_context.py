"""SL315."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.program.contexts import MeshContext
from shardlint.program.values import Api, Made, Value, options
from shardlint.rule import Finding, Fix, Harm, Rule, Safety, Withs
from shardlint.site import Site
from shardlint_rules.mesh.legacy import items, moves_with, stays, surely_a_mesh, to_set_mesh
from shardlint_rules.upgrade import joint


class LegacyMeshContext(Rule):
    """A mesh is entered by `with mesh:`.

    ## What it does
    Reports `with mesh:` where the text shows that it is a `Mesh`: made in the project, through its own functions
    too, or a parameter annotated as one.

    ## Why it hurts
    It is deprecated since jax 0.10.1, and warns: `Please use with jax.set_mesh(mesh): instead`. But that is
    more than another name, so move together what reads the mesh:

    | | `with mesh:` | `with jax.set_mesh(mesh):` |
    |---|---|---|
    | `jax.jit(in_shardings=P(...))`, `device_put(x, P(...))` | raise | work |
    | `pjit(in_shardings=P(...))` | works | raises |
    | a constraint by a bare spec inside jit | works | works |
    | the same outside jit, of an array made on one device | works | raises |
    | `get_abstract_mesh()` | empty | the mesh |
    | `thread_resources` | the mesh | empty |
    | haliax; flax before 0.12.2 | read it | do not |
    | flax 0.12.2 and newer | does not | reads it |
    | inside traced code | allowed | raises |
    | fresh arrays | on one device | replicated over the mesh |

    ## Example
    ```python
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

    with mesh:
        step(batch)
    ```

    ## Use instead
    ```python
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

    with jax.set_mesh(mesh):
        step(batch)
    ```

    ## Fix safety
    Unsafe: fresh arrays are then replicated over the mesh. It is offered only for a mesh with Auto axes,
    outside traced code, in a project without haliax or an older flax, and where no constraint outside jit
    has a bare spec and nothing runs pmap. Where the project uses pjit or `thread_resources`, they move with it, in all
    files, or nothing does; the finding says what keeps it.

    ## Evidence
    The table of mesh contexts of the experiments, and rows C2, F13, F20, F26, F27; run on jax 0.10.2 and
    0.12, where `with mesh:` warns (0.8.3 does not). A context that both old and new releases serve may be
    chosen by a version test, which is left alone. So are files that use haliax: it needs the old context.
    """

    code = "SL315"
    name = "legacy-mesh-context"
    harm = Harm.REMOVED
    holds: ClassVar[Mapping[str, str]] = {"jax": ">=0.10.1"}
    wakes = (Withs("mesh"),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each `with` that enters a mesh."""
        if site.file.says("haliax") or site.guarded or site.expected_to_fail:
            return
        item = site.file.parent(site.syntax)
        statement = site.file.parent(item) if item is not None else None
        if not isinstance(statement, ast.With | ast.AsyncWith):
            return
        for _, entered, context in items(site.program, site.file, statement):
            if entered is item and surely_a_mesh(site.program, site.file, entered.context_expr):
                if not _said_otherwise(site.value(entered.context_expr)):
                    yield self._finding(site, statement, entered, context)

    def _finding(
        self, site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
    ) -> Finding:
        text = site.text(item.context_expr)
        traced = site.program.region(site.file, item.context_expr).traced in ("always", "sometimes")
        moving = moves_with(site, statement)
        fix = None
        if traced:
            help = "this is traced code, where jax.set_mesh raises: set the mesh where the jitted function is called"
        elif moving:
            fix = joint.fix(site)
            kept = joint.kept(site, moving) or stays(site, statement, item, context)
            help = f"write jax.set_mesh({text}) together with {'; '.join(moving)}" + (
                f"; {kept}" if kept else ""
            )
        else:
            fix = self._fix(site, context, text)
            kept = "" if fix is not None else stays(site, statement, item, context)
            help = f"write with jax.set_mesh({text}):, under which fresh arrays are replicated over the mesh"
            help += f"; not rewritten: {kept}" if kept else ""
        return site.finding(
            item.context_expr,
            "a deprecated mesh context",
            f"On {site.on('jax')} entering a mesh by `with` warns that it is deprecated.",
            help=help,
            fix=fix,
        )

    def _fix(self, site: Site, context: MeshContext, text: str) -> Fix | None:
        edits = to_set_mesh(site, context)
        if edits is None:
            return None
        why = "fresh arrays are then replicated over the mesh, and jax.jit refuses them where in_shardings differ"
        return site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)


def _said_otherwise(value: Value) -> bool:
    """SL901 speaks of `jax.experimental.maps.mesh`."""
    return any(
        isinstance(one, Made) and isinstance(one.by, Api) and ".maps." in one.by.written
        for one in options(value)
    )

"""SL315."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.program.contexts import MeshContext
from shardlint.program.meshes import MESH_MAKERS
from shardlint.program.values import Api, Made, Parameter, Value, options
from shardlint.rule import Calls, Finding, Fix, Harm, Rule, Safety, Uses
from shardlint.site import Site
from shardlint_rules.mesh.legacy import entered, moves_with, to_set_mesh


class LegacyMeshContext(Rule):
    """A mesh is entered by `with mesh:`.

    ## What it does
    Reports `with mesh:` where the text shows that it is a `Mesh`: made in the file, or a parameter or field
    that is annotated as one.

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
    outside traced code, in a project without pjit, haliax, `thread_resources` or an older flax, and where
    no constraint outside jit has a bare spec.

    ## Evidence
    The table of mesh contexts of the experiments, and rows C2, F13, F20, F26, F27; run on jax 0.10.2 and
    0.12, where `with mesh:` warns (0.8.3 does not). A context that both old and new releases serve may be
    chosen by a version test, which is left alone. So are files that use haliax: it needs the old context.
    """

    code = "SL315"
    name = "legacy-mesh-context"
    harm = Harm.REMOVED
    holds: ClassVar[Mapping[str, str]] = {"jax": ">=0.10.1"}
    wakes = (Calls(*MESH_MAKERS, near=("with ",)), Uses("jax.sharding.Mesh"))
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each `with` that enters the mesh of this call, or the one annotated here."""
        if site.form not in ("call", "name") or "haliax" in site.file.source.text:
            return
        for statement, item, context in entered(site):
            if _owner(site, site.value(item.context_expr)) is not site.syntax:
                continue
            if _leave(site, item.context_expr):
                continue
            yield self._finding(site, statement, item, context)

    def _finding(
        self, site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
    ) -> Finding:
        text = site.text(item.context_expr)
        traced = site.program.region(site.file, item.context_expr).traced in ("always", "sometimes")
        moving = moves_with(site, statement)
        if traced:
            help = "this is traced code, where jax.set_mesh raises: set the mesh where the jitted function is called"
        elif moving:
            help = f"write jax.set_mesh({text}) together with {'; '.join(moving)}"
        else:
            help = f"write with jax.set_mesh({text}):, under which fresh arrays are replicated over the mesh"
        return site.finding(
            item.context_expr,
            "a deprecated mesh context",
            f"On {site.on('jax')} entering a mesh by `with` warns that it is deprecated.",
            help=help,
            fix=self._fix(site, context, text),
        )

    def _fix(self, site: Site, context: MeshContext, text: str) -> Fix | None:
        edits = to_set_mesh(site, context)
        if edits is None:
            return None
        why = "fresh arrays are then replicated over the mesh"
        return site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)


def _owner(site: Site, value: Value) -> ast.AST | None:
    """The call or annotation of this file that shows a value to be a mesh: what the finding hangs on."""
    owners: list[ast.AST | None] = []
    for option in options(value):
        if isinstance(option, Made) and option.api in MESH_MAKERS and option.call is not None:
            # SL901 speaks of `jax.experimental.maps.mesh`.
            gone = isinstance(option.by, Api) and ".maps." in option.by.written
            owners.append(None if gone else option.call.place.node)
        elif isinstance(option, Parameter) and isinstance(option.place.node, ast.arg):
            owners.append(_named(site, option.place.node.annotation))
        else:
            owners.append(None)
    return owners[0] if owners and all(owners) else None


def _named(site: Site, annotation: ast.expr | None) -> ast.AST | None:
    """The name `Mesh` in an annotation `Mesh` (not `Mesh | None`, which may be no mesh)."""
    return annotation if isinstance(annotation, ast.Name | ast.Attribute) else None


def _leave(site: Site, node: ast.AST) -> bool:
    from shardlint.program.guards import expected_to_fail, guarded

    return guarded(site.file, node) or expected_to_fail(site.file, node)

"""SL315."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.name_uses import file_imports
from shardlint.facts.set_mesh.entered_meshes import entered_meshes, mesh_items, surely_a_mesh
from shardlint.facts.set_mesh.obstacles import (
    haliax_reads_old_mesh,
    item_to_move,
    libraries_of_old_context,
    reason_to_keep,
    reason_to_keep_stack,
)
from shardlint.facts.set_mesh.old_context_readers import find_readers
from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.values import Api, CallResult, Place, Value, options
from shardlint.rules_api.rule import TOGETHER, Finding, Fix, Harm, Methods, Rule, Safety, Withs, detector
from shardlint.rules_api.site import Site
from shardlint.rules_api.with_items import enter_by_function
from shardlint_rules.upgrade import joint_moves
from shardlint_rules.upgrade._set_already import set_already


class LegacyMeshContext(Rule):
    """`with mesh:` is deprecated since jax 0.10.1, and warns: `Please use with jax.set_mesh(mesh): instead`.

    `jax.set_mesh` behaves differently. Where you change the context, change the code that reads the mesh too:

    | | `with mesh:` | `with jax.set_mesh(mesh):` |
    |---|---|---|
    | `jax.jit(in_shardings=P(...))`, `device_put(x, P(...))` | raise | work |
    | `pjit(in_shardings=P(...))` | works | raises |
    | a constraint with a bare spec, inside jit | works | works |
    | a constraint with a bare spec, outside jit, on an uncommitted array from before the block | works | raises |
    | `get_abstract_mesh()` | empty | the mesh |
    | `thread_resources` | the mesh | empty |
    | flax before 0.11.2; haliax before 1.4.dev419 | read the mesh | don't read the mesh |
    | flax 0.11.2 to 0.12.1; haliax from 1.4.dev419 | read the mesh | read the mesh |
    | flax 0.12.2 and newer | doesn't read the mesh | reads the mesh |
    | inside traced code | allowed | raises |
    | new arrays | on one device | replicated over the mesh |
    | computing with an array that is committed to one device | works | raises |
    | `jax.default_device` | places new arrays | doesn't place new arrays |
    | coroutines that await in the block | each has the mesh | the first one that leaves unsets the mesh for all |

    ## Reports
    - proven: `with mesh:` of a mesh that the project makes or annotates as a `Mesh`. Also `with mesh:` of a parameter
      called `mesh`, if all calls in the project pass a mesh.
    - proven: `stack.enter_context(mesh)` and `mesh.__enter__()`.

    ## Fix
    Writes `jax.set_mesh(mesh)`. It is unsafe: new arrays are then replicated over the mesh. There is no fix in these
    cases, and the finding names the line that prevents it:

    - a mesh with Explicit axes, or with unknown axis types in a project that uses Explicit axes
    - code that may be traced. Exceptions: a test runner or a script calls it, or it does work that only the host can do
    - a project with a flax before 0.11.2
    - a project that calls `fsdp` or `named_jit(in_axis_resources=...)` of haliax: they reject arrays created under
      `jax.set_mesh`
    - a constraint with a bare spec outside jit, or a pmap
    - an array that is committed to one device or to another mesh, or a `jax.default_device`
    - a coroutine that awaits or yields in the block.

    Code with `pjit` and `thread_resources` is changed together with the context, in all files or in none.
    `with Mesh(...) as mesh:` becomes two lines. No fix for `mesh.__enter__()`.

    ## Limits
    Not reported: contexts behind a check of the jax release, and files that use haliax in a project that pins haliax
    exactly or has a release before 1.4. These may need the old context.
    """

    code = "SL315"
    name = "legacy-mesh-context"
    harm = Harm.REMOVED
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.10.1"}
    triggers = (
        Withs("mesh"),
        Methods("enter_context", "enterContext", "__enter__", file_says=("mesh", "Mesh")),
    )
    in_version_checks = False
    fixes = "unsafe"

    @detector("with")
    def report_with(self, site: Site) -> Iterator[Finding]:
        """A `with` that enters a mesh."""
        if file_imports(site.file, "haliax") and haliax_reads_old_mesh(site):
            return
        item = site.file.parent(site.syntax)
        statement = site.file.parent(item) if item is not None else None
        if not isinstance(statement, ast.With | ast.AsyncWith):
            return
        for _, found, context in mesh_items(site.program, site.file, statement):
            if found is item and surely_a_mesh(site.program, site.file, found.context_expr):
                if not _is_reported_by_other_rule(site.value(found.context_expr)):
                    yield self._make_item_finding(site, statement, found, context)

    @detector("method")
    def report_entering(self, site: Site) -> Finding | None:
        """A mesh that is handed to a stack of contexts, or entered by its method."""
        if file_imports(site.file, "haliax") and haliax_reads_old_mesh(site):
            return None
        call = site.call
        entered = call.func.value if isinstance(call.func, ast.Attribute) else None
        by_method = not call.args and not call.keywords
        if not by_method:
            entered = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if entered is None or not _is_jax_mesh(site, entered) or _is_reported_by_other_rule(site.value(entered)):
            return None
        text = site.shown(entered)
        fix, kept = None, "shardlint does not see where the context ends"
        if by_method:
            help = (
                f"write `with jax.set_mesh({text}):`, or call `jax.set_mesh({text})` as a statement, "
                "which sets the mesh at once"
            )
        else:
            help = f"write `enter_context(jax.set_mesh({text}))`, which returns None, not the mesh"
            context = site.program.contexts.context_of_manager(Place(site.file, entered))
            kept = reason_to_keep_stack(site, call, entered, context) if context is not None else kept
            if not kept:
                name, imports = site.spell("jax.set_mesh")
                why = "new arrays are then replicated over the mesh"
                edits = [*site.wrap_in_call(entered, name), *imports]
                fix = site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)
        return site.finding(
            entered,
            f"On {site.release('jax')} entering the mesh `{text}` warns: this context is deprecated.",
            label="deprecated",
            help=help,
            fix=fix,
            kept=kept,
        )

    def _make_item_finding(
        self, site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
    ) -> Finding:
        text = site.shown(item.context_expr)
        traced = site.program.region(site.file, item.context_expr).traced in ("always", "sometimes")
        fix: Fix | None = None
        kept = obstacle = ""
        if traced:
            obstacle = "this code is traced, and jax.set_mesh raises in traced code"
            help = (
                f"write `with jax.set_mesh({text}):` around the calls of the jitted function. "
                "`set_mesh` raises inside jit"
            )
        else:
            moved = self._make_move_fix(site, statement, item, context)
            fix = moved if isinstance(moved, Fix) else None
            help = f"write `with jax.set_mesh({text}):`. New arrays in this block are replicated over the mesh"
            kept = obstacle = moved if isinstance(moved, str) else ""
        line = set_already(site, statement, item)
        if line is not None and not traced:
            fix, kept, obstacle = None, "", f"jax.set_mesh at line {line} sets the mesh already"
            help = (
                f"remove `with {text}:`. `jax.set_mesh` at line {line} already sets this mesh. Before that, write "
                "`jax.jit` for `pjit` and `get_abstract_mesh()` for `thread_resources`, which read only the old context"
            )
        return site.finding(
            item.context_expr,
            f"On {site.release('jax')} `with {_quote_shortened(text)}:` warns: this mesh context is deprecated.",
            label="deprecated",
            help=help,
            fix=fix,
            kept=kept,
            obstacles=self._find_obstacles(site, item, obstacle),
        )

    def _find_obstacles(self, site: Site, item: ast.withitem, kept: str) -> tuple[str, ...]:
        """Return the obstacles. Those of a whole project are reported once per file."""
        found = joint_moves.list_obstacles(site) if kept.startswith(TOGETHER) else ()
        if found:
            first = next((one for _, one, _ in entered_meshes(site.program, site.file)), None)
            return found if first is item else ()
        return (joint_moves.reason_with_place(site, site.file.path, item.context_expr.lineno, kept),) if kept else ()

    def _make_move_fix(
        self, site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
    ) -> Fix | str:
        """The fix, or why there is none."""
        if find_readers(site).said:
            return joint_moves.make_joint_fix(site)
        kept = [*libraries_of_old_context(site), reason_to_keep(site, statement, item, context)]
        moved = item_to_move(site, context)
        if moved is None:
            return "; ".join(filter(None, kept)) or "the mesh is not an expression of this file"
        why = "new arrays are then replicated over the mesh, and jax.jit rejects them if in_shardings differ"
        text = site.shown(item.context_expr)
        edits = enter_by_function(site, moved, "jax.set_mesh")
        return site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)


def _quote_shortened(text: str) -> str:
    """A mesh as a message quotes it: without the arguments of a long call."""
    return text if len(text.split()) < 4 else text.split("(")[0] + "(...)"


def _is_jax_mesh(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is surely a mesh, and one of JAX."""
    found = site.program.contexts.context_of_manager(Place(site.file, node))
    return found is not None and found.kind == "with mesh" and surely_a_mesh(site.program, site.file, node)


def _is_reported_by_other_rule(value: Value) -> bool:
    """SL901 speaks of `jax.experimental.maps.mesh`."""
    return any(
        isinstance(one, CallResult) and isinstance(one.by, Api) and ".maps." in one.by.written
        for one in options(value)
    )

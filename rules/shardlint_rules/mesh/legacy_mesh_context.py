"""SL315."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.values import Api, CallResult, Place, Value, options
from shardlint.rules_api.rule import TOGETHER, Finding, Fix, Harm, Methods, Rule, Safety, Withs
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._set_already import set_already
from shardlint_rules.mesh.legacy import (
    entered,
    items,
    libraries,
    stack_stays,
    stays,
    surely_a_mesh,
    to_set_mesh,
)
from shardlint_rules.upgrade import joint
from shardlint_rules.upgrade.readers import file_imports, readers


class LegacyMeshContext(Rule):
    """A mesh is entered by `with mesh:`.

    ## What it does
    Reports `with mesh:` where the text shows that it is a `Mesh`: made in the project, through its own functions too;
    annotated as one (a parameter, a name, a field, a property, what a function returns, each with `| None` too); or a
    parameter that is called a mesh, to which all calls that are seen give one. Also `stack.enter_context(mesh)` and
    `mesh.__enter__()`; only the former has a fix, where the stack is that of a `with` of the same function.

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
    | computing with an array that was put on one device | works | raises |
    | `jax.default_device` | decides where fresh arrays are | does not |
    | coroutines that await in the block | each has the mesh | the first that leaves unsets it for all |

    ## Fix safety
    Unsafe: fresh arrays are then replicated over the mesh. It is offered only for a mesh with Auto axes,
    outside traced code, in a project without haliax or an older flax, and where no constraint outside jit
    has a bare spec and nothing runs pmap. It is left, too, where the program commits an array to one device or to the
    devices of another mesh, where `jax.default_device` or `jax_default_device` holds in the block, and where the block
    awaits or yields in a coroutine: the finding names the line. Where the block yields, that is asked of
    what is seen to run there (`with sharded():`, tests that ask for the fixture). `with Mesh(...) as mesh:` becomes two
    lines. Where not all callers are seen, code counts as outside traced code that a test runner or a script runs,
    that makes the mesh, or that does what only host code does (it jits, waits, reads a clock or files). Where the
    text does not show which mesh it is, all that the project makes must have Auto axes. Where the project uses pjit
    or `thread_resources`, they move with it, in all files, or nothing does; the finding says what keeps it.

    ## Evidence
    The rows of the table above were run on jax 0.10.2 and
    0.12, where `with mesh:` warns (0.8.3 does not). A context that both old and new releases serve may be
    chosen by a version test, which is left alone. So are files that use haliax: it needs the old context.
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

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each `with` that enters a mesh."""
        if file_imports(site.file, "haliax"):
            return
        if site.form == "method":
            yield from self._by_hand(site)
            return
        item = site.file.parent(site.syntax)
        statement = site.file.parent(item) if item is not None else None
        if not isinstance(statement, ast.With | ast.AsyncWith):
            return
        for _, found, context in items(site.program, site.file, statement):
            if found is item and surely_a_mesh(site.program, site.file, found.context_expr):
                if not _said_otherwise(site.value(found.context_expr)):
                    yield self._finding(site, statement, found, context)

    def _by_hand(self, site: Site) -> Iterator[Finding]:
        """A mesh that is handed to a stack of contexts, or entered by its method."""
        call = site.call
        entered = call.func.value if isinstance(call.func, ast.Attribute) else None
        by_method = not call.args and not call.keywords
        if not by_method:
            entered = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if entered is None or not _named_mesh(site, entered) or _said_otherwise(site.value(entered)):
            return
        text = site.shown(entered)
        fix, kept = None, "what reads the mesh moves with it, and where it ends is not in the text"
        if by_method:
            help = f"enter jax.set_mesh({text}) instead, made at that moment: it sets the mesh as soon as it is called"
        else:
            help = f"give it jax.set_mesh({text}), made in the call; it gives back None and not the mesh"
            context = site.program.contexts.manager(Place(site.file, entered))
            kept = stack_stays(site, call, entered, context) if context is not None else kept
            if not kept:
                name, imports = site.spell("jax.set_mesh")
                why = "fresh arrays are then replicated over the mesh"
                edits = [*site.given_to(entered, name), *imports]
                fix = site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)
        yield site.finding(
            entered,
            f"On {site.release('jax')} entering a mesh itself warns that it is deprecated.",
            label="a deprecated mesh context",
            help=f"{help}; not rewritten: {kept}" if kept else help,
            fix=fix,
        )

    def _finding(
        self, site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
    ) -> Finding:
        text = site.shown(item.context_expr)
        traced = site.program.region(site.file, item.context_expr).traced in ("always", "sometimes")
        fix: Fix | None = None
        kept = ""
        if traced:
            kept = "it is traced code, where jax.set_mesh raises"
            help = "this is traced code, where jax.set_mesh raises: set the mesh where the jitted function is called"
        else:
            moved = self._moved(site, statement, item, context)
            fix = moved if isinstance(moved, Fix) else None
            help = f"write with jax.set_mesh({text}):, under which fresh arrays are replicated over the mesh"
            kept = moved.removeprefix("not rewritten: ") if isinstance(moved, str) else ""
            help += f"; {moved}" if isinstance(moved, str) else ""
        line = set_already(site, statement, item)
        if line is not None and not traced:
            fix, kept = None, f"jax.set_mesh at line {line} sets the mesh already"
            help = (
                f"leave `{text}` out, as jax.set_mesh at line {line} sets it already: what reads only the old context "
                "(pjit, thread_resources) has to be moved first"
            )
        return site.finding(
            item.context_expr,
            f"On {site.release('jax')} entering a mesh by `with` warns that it is deprecated.",
            label="a deprecated mesh context",
            help=help,
            fix=fix,
            obstacles=self._obstacles(site, item, kept),
        )

    def _obstacles(self, site: Site, item: ast.withitem, kept: str) -> tuple[str, ...]:
        """What keeps it; what keeps all of a project is said once a file."""
        found = joint.obstacles(site) if kept.startswith(TOGETHER) else ()
        if found:
            first = next((one for _, one, _ in entered(site.program, site.file)), None)
            return found if first is item else ()
        return (joint.placed(site, site.file.path, item.context_expr.lineno, kept),) if kept else ()

    def _moved(
        self, site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
    ) -> Fix | str:
        """The fix, or why there is none."""
        if readers(site).said:
            return joint.carried(site)
        kept = [*libraries(site), stays(site, statement, item, context)]
        edits = to_set_mesh(site, context)
        if edits is None:
            return f"not rewritten: {'; '.join(filter(None, kept)) or 'it is not written as one'}"
        why = "fresh arrays are then replicated over the mesh, and jax.jit refuses them where in_shardings differ"
        text = site.shown(item.context_expr)
        return site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)


def _named_mesh(site: Site, node: ast.expr) -> bool:
    """Whether an expression is surely a mesh, and one of JAX."""
    found = site.program.contexts.manager(Place(site.file, node))
    return found is not None and found.kind == "with mesh" and surely_a_mesh(site.program, site.file, node)


def _said_otherwise(value: Value) -> bool:
    """SL901 speaks of `jax.experimental.maps.mesh`."""
    return any(
        isinstance(one, CallResult) and isinstance(one.by, Api) and ".maps." in one.by.written
        for one in options(value)
    )

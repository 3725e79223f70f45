"""SL312."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.result_uses import reads_after
from shardlint.facts.set_mesh.obstacles import item_to_move
from shardlint.facts.shardings import CONSTRAINTS
from shardlint.model.mesh.contexts import SET_KINDS, Context, ContextKind
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, Uses, detector
from shardlint.rules_api.site import Site
from shardlint.rules_api.with_items import enter_by_function

_NEW = ("jax.sharding.get_abstract_mesh", "jax._src.mesh.get_abstract_mesh", "jax.sharding.get_mesh")
_OLD = (
    "jax.interpreters.pxla.thread_resources",
    "jax._src.mesh.thread_resources",
    "jax._src.interpreters.pxla.thread_resources",
)
_PLACES = (*CONSTRAINTS, "jax.reshard", "jax.device_put", "jax.sharding.NamedSharding")
_ENTERED: tuple[ContextKind, ...] = ("with mesh",)
_SETTING = ("set_mesh", "use_mesh", "use_abstract_mesh", "use_concrete_mesh")


class MeshEmptyGuard(Rule):
    """A test for an empty mesh is always true: it reads one mesh context, and the callers set the other.

    The function returns early, as if there were no mesh. The array stays on one device or replicated, and nothing is
    raised. `with mesh:` and `jax.set_mesh` set separate contexts.

    ## Reports
    - proven: a test of `get_abstract_mesh().empty` in a function that places arrays, if every call runs under
      `with mesh:`.
    - proven: a test of `thread_resources.env.physical_mesh.empty` in a function that places arrays, if every call
      runs under `jax.set_mesh`.

    ## Fix
    Writes `with jax.set_mesh(mesh):` for `with mesh:`, if it is in the same file and no other code reads the mesh that
    it sets. For `thread_resources` it writes `get_abstract_mesh()`. Unsafe: the code after the test then runs, which
    changes memory and communication.

    ## Limits
    Not reported: functions that test both contexts, and functions that code outside the project may call.
    """

    code = "SL312"
    name = "mesh-empty-guard"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.2"}
    triggers = (Calls(*_NEW, file_says=("empty",)), Uses(*_OLD))
    in_version_checks = False
    fixes = "unsafe"

    @detector("call")
    def find_entered_mesh(self, site: Site) -> Iterator[Finding]:
        """Each test of the mesh of `jax.set_mesh` that runs under `with mesh:` alone."""
        for guard, context in self._find_guards(site, site.call, _ENTERED):
            yield self._report_unseen_mesh(
                site, guard, context, "`with mesh:`", self._fix_by_set_mesh(site, context)
            )

    @detector("name")
    def find_set_mesh(self, site: Site) -> Iterator[Finding]:
        """Each test of the mesh of `with mesh:` that runs under `jax.set_mesh` alone."""
        mesh = _physical_mesh_read(site)
        for guard, context in self._find_guards(site, mesh, SET_KINDS) if mesh is not None else ():
            yield self._report_unseen_mesh(
                site, guard, context, "`jax.set_mesh`", self._fix_by_new_query(site, mesh, guard)
            )

    def _find_guards(
        self, site: Site, mesh: ast.expr, kinds: tuple[ContextKind, ...]
    ) -> Iterator[tuple[ast.Attribute, Context]]:
        """The conditions that are always the same, as only meshes of these kinds are in context."""
        for guard in _mesh_empty_guards(site, mesh) if not _checks_both_contexts(site) and _places_arrays(site) else ():
            context = site.program.mesh_contexts(site.file, guard)
            if _contexts_are_only(context, *kinds) and self._is_no_other_mesh_around(site, guard, *kinds):
                yield guard, context

    def _is_no_other_mesh_around(self, site: Site, guard: ast.Attribute, *kinds: ContextKind) -> bool:
        """Return whether no mesh of the other kind is around the known contexts."""
        around = site.program.surrounding_contexts(site.file, guard)
        if any(one.kind not in kinds for one in around.contexts):
            return False
        # Callers out of sight could set a mesh, if anything of the project does.
        return around.complete or kinds == SET_KINDS or not any(map(site.is_named_anywhere, _SETTING))

    def _report_unseen_mesh(
        self, site: Site, guard: ast.Attribute, context: Context, by: str, fix: Fix | None
    ) -> Finding:
        return site.finding(
            guard,
            f"`{site.shown(guard)}` is always True: it does not read the mesh of {by}.",
            label="always True",
            help="write `with jax.set_mesh(mesh):` in the callers, and test `jax.sharding.get_abstract_mesh()`",
            fix=fix,
            why=f"every caller runs under {by} ({site.where(context.contexts[0].place)}); on {site.release('jax')} the "
            "two contexts are separate, and the code for a mesh never runs",
        )

    def _fix_by_new_query(self, site: Site, mesh: ast.expr | None, guard: ast.Attribute) -> Fix | None:
        if guard.value is not mesh or not site.allows("jax", ">=0.5.3"):
            return None  # a name that is read for more than its emptiness
        name, imports = site.spell(_NEW[0])
        why = "the code after the guard then runs"
        return site.fix(Safety.UNSAFE, f"write {name}()", [site.replace(mesh, f"{name}()"), *imports], why)

    def _fix_by_set_mesh(self, site: Site, context: Context) -> Fix | None:
        edits: list[Edit] = []
        for one in context.contexts:
            item = item_to_move(site, one)
            if item is None:
                return None
            edits += [edit for edit in enter_by_function(site, item, "jax.set_mesh") if edit not in edits]
        text = site.text(context.contexts[0].place.node)
        why = "the code after the guard then runs, and new arrays are replicated over the mesh"
        return site.fix(Safety.UNSAFE, f"write jax.set_mesh({text})", edits, why)


def _contexts_are_only(context: Context, *kinds: ContextKind) -> bool:
    """Return whether on every path the meshes in context are known, exist, and are all of these kinds."""
    known = all(one.mesh is not None or one.kind != "with mesh" for one in context.contexts)
    return context.only(*kinds) and known and bool(context.contexts)


def _physical_mesh_read(site: Site) -> ast.expr | None:
    """`thread_resources.env.physical_mesh`."""
    env = site.file.parent(site.syntax)
    mesh = site.file.parent(env) if env is not None else None
    if isinstance(env, ast.Attribute) and env.attr == "env" and isinstance(mesh, ast.Attribute):
        return mesh if mesh.attr == "physical_mesh" else None
    return None


def _mesh_empty_guards(site: Site, mesh: ast.expr) -> Iterator[ast.Attribute]:
    """`mesh.empty` in conditions, of the expression itself or of the name it is bound to."""
    uses: list[ast.AST] = [mesh]
    parent = site.file.parent(mesh)
    if (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        uses = list(reads_after(site.file, site.scope, parent.targets[0]))
    for use in uses:
        found = site.file.parent(use)
        if isinstance(found, ast.Attribute) and found.attr == "empty" and _decides_branch(site, found):
            yield found


def _decides_branch(site: Site, node: ast.expr) -> bool:
    inner: ast.AST = node
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp):
            return inner is outer.test
        if not isinstance(outer, ast.UnaryOp | ast.BoolOp):
            return False
        inner = outer
    return False


def _places_arrays(site: Site) -> bool:
    """Return whether the function places arrays, so that skipping it has an effect."""
    function = site.scope.enclosing_function()
    if function is None:
        return False
    for call in site.file.walk_scope(function).calls:
        if any(isinstance(one, Api) and one.name in _PLACES for one in options(site.value(call.func))):
            return True
    return False


def _checks_both_contexts(site: Site) -> bool:
    function = site.scope.enclosing_function()
    text = site.text(function.node) if function is not None else ""
    old = "thread_resources" in text or "physical_mesh" in text
    return old and ("get_abstract_mesh" in text or "get_mesh" in text or "get_concrete_mesh" in text)

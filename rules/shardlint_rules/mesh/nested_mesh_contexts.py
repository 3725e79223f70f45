"""SL311."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.set_mesh.entered_meshes import mesh_items
from shardlint.model.mesh.meshes import Mesh
from shardlint.model.values import options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import enclosing_block

_With = ast.With | ast.AsyncWith
# What reads the mesh of `with mesh:` also under jax.set_mesh.
_READERS = ("pjit", "thread_resources", "haliax", "flax")


class NestedMeshContexts(Rule):
    """`with mesh:` does not change the mesh of jit and `device_put` if `jax.set_mesh` has set another one.

    Specs in jit, constraints and `device_put` use the mesh of `jax.set_mesh`. The program shards over the axes of the
    outer mesh, or raises because that mesh lacks an axis of the inner one. Only `pjit` and `thread_resources` read the
    inner mesh.

    ## Reports
    - proven: `with inner:` inside `with jax.set_mesh(outer):`, or after `jax.set_mesh(outer)` in the same block, if
      the two meshes have different axes or sizes.

    ## Limits
    Not reported: meshes that may be equal, and files with code that reads the inner mesh. Also not reported:
    `jax.set_mesh` inside `with mesh:`, because it takes effect.
    """

    code = "SL311"
    name = "nested-mesh-contexts"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.7.2"}
    triggers = (Calls("jax.set_mesh", file_says=("with ",)),)
    in_version_checks = False

    @detector("call")
    def find_inner_contexts(self, site: Site) -> Iterator[Finding]:
        """Each mesh entered under the one that is set here."""
        outer = site.argument("mesh")
        if outer is None:
            return
        for statement, item in _contexts_inside_set_mesh(site):
            for _, entered, context in mesh_items(site.program, site.file, statement):
                if item is not None and entered is not item:
                    continue
                finding = self._make_finding(site, outer, entered, context.mesh)
                if finding is not None:
                    yield finding

    def _make_finding(
        self, site: Site, outer: ast.expr, entered: ast.withitem, inner: Mesh | None
    ) -> Finding | None:
        node = entered.context_expr
        if site.text(node) == site.text(outer):
            return None
        found = [site.mesh_of(option) for option in options(site.value(outer))]
        current = found[0] if len(found) == 1 else None
        if (
            current is None
            or inner is None
            or not _are_different_meshes(current, inner)
            or any(map(site.file.contains_text, _READERS))
        ):
            return None
        return site.finding(
            node,
            f"`with {site.shown(node)}:` has no effect: specs inside use the mesh `{site.shown(outer)}`.",
            label="not the current mesh",
            help=f"write `with jax.set_mesh({site.text(node)}):`",
            why=f"on {site.release('jax')} the mesh that jax.set_mesh sets at line {site.call.lineno} takes precedence",
        )


def _are_different_meshes(one: Mesh, two: Mesh) -> bool:
    """Return whether two meshes surely are not equal."""
    if one.axis_names is None or two.axis_names is None:
        return False
    if one.axis_names != two.axis_names:
        return True
    return any(a is not None and b is not None and a != b for a, b in zip(one.sizes, two.sizes, strict=False))


def _contexts_inside_set_mesh(site: Site) -> Iterator[tuple[_With, ast.withitem | None]]:
    """`with` statements that run while the mesh set by this call is in force; an item where only that one counts."""
    parent = site.file.parent(site.call)
    if isinstance(parent, ast.withitem):
        statement = site.file.parent(parent)
        if isinstance(statement, _With):
            after = statement.items[statement.items.index(parent) + 1 :]
            for item in after:
                yield statement, item
            if not any(_calls_set_mesh(site, item.context_expr) for item in after):
                yield from _contexts_below(site, statement.body)
    elif isinstance(parent, ast.Expr):
        block = enclosing_block(site.file, parent)
        rest = block[block.index(parent) + 1 :]
        yield from _contexts_below(site, rest)


def _contexts_below(site: Site, body: list[ast.stmt]) -> Iterator[tuple[_With, None]]:
    """`with` statements in a block and its inner blocks, up to where another mesh is set."""
    for statement in body:
        if isinstance(statement, ast.Expr) and _calls_set_mesh(site, statement.value):
            return
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, _With):
            if any(_calls_set_mesh(site, item.context_expr) for item in statement.items):
                continue
            yield statement, None
        for name in ("body", "orelse", "finalbody"):
            yield from _contexts_below(site, getattr(statement, name, []))
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _contexts_below(site, handler.body)


def _calls_set_mesh(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and "set_mesh" in site.text(node.func)

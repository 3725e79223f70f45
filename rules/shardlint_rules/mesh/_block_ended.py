"""A call, on a way to a bare spec, that stands beside the `with` of a mesh and not in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.contexts import BRING_A_MESH, ContextKind
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.guards import expected_to_fail

_DEPTH = 6
_MOST = 60
_KINDS: tuple[ContextKind, ...] = ("with mesh", "set_mesh", "use_mesh")


@dataclass(frozen=True)
class CallOutsideBlock:
    """The call outside, and the `with` in the same block, or one around it, of the same function."""

    call: Place
    entered: ast.With

    @property
    def is_block_ended(self) -> bool:
        """True if the `with` stands before the call."""
        return self.entered.lineno < self.call.line


def find_call_outside_block(site: Site, useless: tuple[ContextKind, ...]) -> CallOutsideBlock | None:
    """The first such call. `useless` are the kinds of contexts that do not serve the site."""
    kinds = tuple(kind for kind in _KINDS if kind not in useless)
    met: set[ast.AST] = set()
    for found in _search_callers(site, Place(site.file, site.call), kinds, met, 0):
        if not site.program.project.is_test(found.call.file.path):
            return found
    return None


def _search_callers(
    site: Site, place: Place, kinds: tuple[ContextKind, ...], met: set[ast.AST], depth: int
) -> Iterator[CallOutsideBlock]:
    file, node = place.file, place.node
    if (
        depth > _DEPTH
        or len(met) > _MOST
        or _is_tested_or_expected(file, node)
        or list(site.program.contexts.entered_contexts(file, node))
    ):
        return
    scope = file.evaluation_scope(node).enclosing_function()
    if scope is not None and (isinstance(scope.node, ast.AsyncFunctionDef) or _has_yield(file, scope)):
        return
    entered = _sibling_mesh_block(site, file, node, kinds) if depth else None
    if entered is not None:
        around = site.program.surrounding_contexts(file, node)
        if not around.contexts and not any(map(file.contains_text, ("enter_context", ".__enter__("))):
            yield CallOutsideBlock(place, entered)
        return
    if scope is None or scope.node in met:
        return
    met.add(scope.node)
    flow = site.program.flow
    definition = scope.node
    ends = flow.in_sight(file, definition) if isinstance(definition, ast.FunctionDef) else flow.ends(file, definition)
    for end in ends.found:
        if _is_lowered(end.place.node):
            continue  # SL233 tells of these
        if end.kind == "called" and not any(one.api in BRING_A_MESH for one in end.wrappers):
            yield from _search_callers(site, end.place, kinds, met, depth + 1)


def _is_lowered(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("lower", "trace")


def _is_tested_or_expected(file: FileFacts, node: ast.AST) -> bool:
    """Return whether the code is under a test about a mesh, or an error is expected."""
    if expected_to_fail(file, node):
        return True
    for outer in file.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp | ast.While) and "mesh" in file.source_text(outer.test).lower():
            return True
        if isinstance(outer, ast.Try):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


def _sibling_mesh_block(
    site: Site, file: FileFacts, node: ast.AST, kinds: tuple[ContextKind, ...]
) -> ast.With | None:
    """The `with` of a mesh in one of the blocks around a node, the nearest before it, else after it."""
    inner: ast.AST = node
    for outer in file.ancestors(node):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(outer, field, None)
            if isinstance(block, list) and inner in block:
                at = block.index(inner)
                for one in (*reversed(block[:at]), *block[at + 1 :]):
                    if isinstance(one, ast.With) and _enters_mesh(site, file, one, kinds):
                        return one
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return None
        inner = outer
    return None


def _enters_mesh(site: Site, file: FileFacts, statement: ast.With, kinds: tuple[ContextKind, ...]) -> bool:
    for item in statement.items:
        found = site.program.contexts.context_of_manager(Place(file, item.context_expr))
        if found is not None and found.kind in kinds:
            return True
    return False


def _has_yield(file: FileFacts, scope: Scope) -> bool:
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in file.walk_scope(scope).returns)

"""The fix that puts a call under a mesh."""

from __future__ import annotations

import ast

from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import CallResult, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site


def _find_indentation(site: Site, statement: ast.stmt) -> str | None:
    """Return the text before a statement on its line, if it is only spaces."""
    start, _ = site.file.character_span(statement)
    before = site.file.source.text[site.file.source.offset_of(statement.lineno, 0) : start]
    return before if not before.strip() else None


def _is_alone_on_line(site: Site, statement: ast.stmt) -> bool:
    """Return whether nothing but a comment follows a statement on its last line."""
    _, end = site.file.character_span(statement)
    rest = (site.file.source.text[end:].splitlines() or [""])[0].strip()
    return not rest or rest.startswith("#")


def with_line_for_mesh(site: Site, call: ast.Call) -> tuple[str, list[Edit]] | None:
    """The `with` line for the one mesh that is made in plain sight, and the edits that put a call under it."""
    statement = site.file.statement(call)
    text, indent = site.text(statement), _find_indentation(site, statement)
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) or indent is None:
        return None
    if '"""' in text or "'''" in text or "\\\n" in text or not _is_alone_on_line(site, statement):
        return None
    if site.program.region(site.file, call).traced != "never" and site.scope.enclosing_function() is not None:
        return None
    mesh = _mesh_bound_before(site, call)
    if mesh is None:
        return None
    setter, imports = site.spell("jax.set_mesh")
    line, body = f"with {setter}({mesh}):", text.replace("\n", "\n    ")
    return line, [site.replace(statement, f"{line}\n{indent}    {body}"), *imports]


def _mesh_bound_before(site: Site, call: ast.Call) -> str | None:
    """The name of the only mesh that is bound before a call in its own function, else in the module."""
    home = site.file.evaluation_scope(call)
    for scope in (home, site.file.module):
        names = {
            binding.name
            for bindings in site.file.walk_scope(scope).bindings.values()
            for binding in bindings
            if binding.kind == "assign"
            and isinstance(binding.value, ast.Call)
            and (binding.line < call.lineno or scope is not home)
            and all(
                isinstance(one, CallResult) and one.api in MESH_MAKERS[:2]
                for one in options(site.value(binding.value))
            )
        }
        if names:
            return names.pop() if len(names) == 1 else None
    return None

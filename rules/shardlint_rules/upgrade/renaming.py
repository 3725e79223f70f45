"""Fixes that give an old name its new spelling: at an import, at an attribute, or at both ends of a module's
import."""

from __future__ import annotations

import ast

from shardlint.facts.name_uses import is_used_elsewhere
from shardlint.model.values import Api, options
from shardlint.rules_api.imports import spell_from, spell_name
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade.import_moves import move_import
from shardlint_rules.upgrade.name_places import Use, imports_binding
from shardlint_rules.upgrade.name_table import names_needed_by_fixes, read_table
from shardlint_rules.upgrade.shard_map import edits_for_new_call

# What enters a mesh that is there again is deprecated.
_UNCOVERED = ("SL315",)
_SHARD_MAP = "jax.experimental.shard_map.shard_map"
_USE_MESH = "jax.sharding.use_mesh"
# Modules that `import jax` brings along, so that `jax.tree.map` needs no import of its own.
_COME_WITH_JAX = frozenset({"jax", "jax.sharding", "jax.lax", "jax.tree", "jax.tree_util", "jax.errors"})


def fix_renaming(site: Site, use: Use) -> Fix | None:
    """The fix that writes the replacement instead, where that is all there is to do."""
    if use.entry.kind == "module" and use.dotted == use.entry.name and isinstance(use.node, ast.alias):
        return _fix_module_import(site, use, use.node)
    new = use.entry.replacement
    if new is None or use.entry.name != use.dotted or not _is_current_name(site, new):
        return None
    if not (use.entry.rename_is_enough or use.dotted in (_SHARD_MAP, _USE_MESH)):
        return None
    if isinstance(use.node, ast.alias):
        return _fix_import(site, use, use.node, new)
    edits = _edits_at_use(site, use.dotted, use.node)
    text = _spell_new_name(site, use.node, new)
    if edits is None or text is None:
        return None
    drops = [use.root.id] if use.root is not None else []
    edits = [*edits, site.replace(use.node, text[0]), *text[1]]
    uncovers = _UNCOVERED if new == "jax.sharding.Mesh" else ()
    return site.fix(
        Safety.SAFE,
        f"write {text[0]}",
        edits,
        drops=drops,
        uncovers=uncovers,
        needs=names_needed_by_fixes(new),
    )


def reason_not_fixed(site: Site, use: Use) -> str:
    """Why `fix_renaming` gives no fix; empty if the advice says so."""
    entry, new = use.entry, use.entry.replacement
    if "no mechanical rewrite" in entry.replacement_advice:
        return ""
    if entry.kind == "module" or entry.name != use.dotted:
        return "some names used of the module have no replacement"
    if new is None:
        return "no other function does the same"
    if not _is_current_name(site, new):
        return f"{site.release('jax')} has no {new}"
    if use.dotted == _SHARD_MAP:
        return "a call of it hides its arguments, or another file imports it from here"
    if use.dotted == _USE_MESH:
        return "it is used outside `with`, where jax.set_mesh sets the mesh for good"
    if not entry.rename_is_enough:
        return "its arguments differ too"
    if isinstance(use.node, ast.alias) and _still_raises(site, use, use.node):
        return "the statement also imports a name without replacement"
    return "the file uses the new name already, or has no place for its import"


def _is_current_name(site: Site, name: str) -> bool:
    entry = read_table().names.get(name)
    return entry is not None and entry.state_on(site.target("jax")) == "current"


def _spell_new_name(site: Site, node: ast.AST, name: str) -> tuple[str, tuple[Edit, ...]] | None:
    """How to write the new name at a node; None where the file's own binding for it is itself an old name."""
    if name.rpartition(".")[0] not in _COME_WITH_JAX:
        return spell_from(site.program, site.file, node, name)
    text, edits = spell_name(site.program, site.file, node, name)
    if not edits:
        for binding in site.file.bindings(site.file.module, text.partition(".")[0]):
            statement = site.file.parent(binding.node)
            if isinstance(statement, ast.ImportFrom) and isinstance(binding.node, ast.alias):
                old = read_table().most_specific_entry(f"{statement.module}.{binding.node.name}")
                if old is not None and old.kind == "name" and old.state_on(site.target("jax")) != "current":
                    return None
    return text, edits


def _edits_at_use(site: Site, old: str, node: ast.expr) -> list[Edit] | None:
    """Return the other edits where a name is used; None if the new name cannot be used the same way."""
    if old == _SHARD_MAP:
        return edits_for_new_call(site, node)
    if old == _USE_MESH and not _is_entered_context(site, node):
        return None  # called outside a `with`, jax.set_mesh sets the mesh at once and for good
    return []


def _is_entered_context(site: Site, node: ast.expr) -> bool:
    call = site.file.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return False
    outer = site.file.parent(call)
    if isinstance(outer, ast.withitem):
        return True
    return (
        isinstance(outer, ast.Call)
        and isinstance(outer.func, ast.Attribute)
        and outer.func.attr == "enter_context"
    )


def _fix_import(site: Site, use: Use, alias: ast.alias, new: str) -> Fix | None:
    """Take the name from where it lives now. What it is called in the file stays, but for `use_mesh`."""
    file = site.file
    if _still_raises(site, use, alias):
        return None
    bound = alias.asname or alias.name
    local = bound
    edits: list[Edit] = []
    uses = [
        node
        for node in file.find_mentions(bound)
        if isinstance(node, ast.Name) and any(found is alias for found, _ in imports_binding(file, node))
    ]
    if use.dotted in (_SHARD_MAP, _USE_MESH):
        if not uses or is_used_elsewhere(site, bound):
            return None
        if use.dotted == _USE_MESH and alias.asname is None and not file.find_mentions("set_mesh"):
            local = "set_mesh"
        for node in uses:
            more = _edits_at_use(site, use.dotted, node)
            if more is None:
                return None
            edits += more
            if local != bound:
                edits.append(site.replace(node, local))
    moved = move_import(file, alias, new, local)
    uncovers = _UNCOVERED if new == "jax.sharding.Mesh" else ()
    if not moved:
        return None
    return site.fix(
        Safety.SAFE, f"import {new}", [*moved, *edits], uncovers=uncovers, needs=names_needed_by_fixes(new)
    )


def _still_raises(site: Site, use: Use, alias: ast.alias) -> bool:
    """Return whether the statement imports another removed name, so that it must be rewritten as a whole."""
    statement = site.file.parent(alias)
    if not isinstance(statement, ast.ImportFrom) or use.entry.state_on(site.target("jax")) != "removed":
        return False
    for other in [one for one in statement.names if one is not alias]:
        entry = read_table().names.get(f"{statement.module}.{other.name}")
        if entry is not None and entry.state_on(site.target("jax")) == "removed":
            if entry.replacement is None or not entry.rename_is_enough:
                return True
    return False


def _fix_module_import(site: Site, use: Use, alias: ast.alias) -> Fix | None:
    """A module that went, where each of its names used in the file has a new one."""
    file = site.file
    statement = file.parent(alias)
    if file.statement_in_block(alias, file.module) is None or not isinstance(
        statement, ast.Import | ast.ImportFrom
    ):
        return None
    bound = alias.asname or alias.name.rpartition(".")[2]
    edits: list[Edit] = []
    messages: list[str] = []
    written: list[str] = []
    for node in file.find_mentions(bound):
        if node is alias or not isinstance(node, ast.Name | ast.Attribute):
            continue
        if not any(value_name == use.entry.name for value_name in _written_api_names(site, node)):
            continue
        member = file.parent(node)
        entry = (
            read_table().names.get(f"{use.entry.name}.{member.attr}")
            if isinstance(member, ast.Attribute)
            else None
        )
        if (
            entry is None
            or entry.replacement is None
            or not entry.rename_is_enough
            or not _is_current_name(site, entry.replacement)
        ):
            return None
        text = _spell_new_name(site, node, entry.replacement)
        if text is None:
            return None
        assert isinstance(member, ast.Attribute)
        edits += [site.replace(member, text[0]), *text[1]]
        messages.append(text[0])
        written.append(entry.replacement)
    if not edits:
        return None
    if isinstance(statement, ast.Import) and alias.asname is None:
        # It also binds `jax`.
        start, end = file.character_span(alias)
        edits.append(Edit(start, end, alias.name.partition(".")[0]))
        bound = alias.name.partition(".")[0]
    uncovers = _UNCOVERED if any(text.endswith("Mesh") for text in messages) else ()
    message = f"write {', '.join(dict.fromkeys(messages))}"
    return site.fix(
        Safety.SAFE, message, edits, drops=[bound], uncovers=uncovers, needs=names_needed_by_fixes(*written)
    )


def _written_api_names(site: Site, node: ast.AST) -> list[str]:
    return [option.written for option in options(site.value(node)) if isinstance(option, Api)]

"""Tables, lists and attributes that hold shardings and change after a function is decorated with what they held."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.mutations import is_changed
from shardlint.model.values import Api, ModuleValue, Parameter, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

# Methods in which an object gets its attributes for the first time.
_SETUP = ("__init__", "__new__", "__post_init__", "setup")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ALIASES = 3


@dataclass(frozen=True)
class Change:
    """A change of what an expression of a sharding reads. `reason` names it and its line."""

    reason: str
    copied: bool
    """Whether the expression takes a sharding out of what changes: evaluated earlier it gives what it gave then."""


def changed_later(site: Site, expression: ast.expr) -> Change | None:
    """A change that may come between the site's call and the trace; None where nothing in sight changes it."""
    for part in walk_nodes(expression):
        if not isinstance(part, ast.Name | ast.Attribute) or not isinstance(part.ctx, ast.Load):
            continue
        found = next(_places_changed_later(site, part), None)
        if found is not None:
            file, line = found
            where = f"line {line}" if file is site.file else f"line {line} of {file.path.name}"
            outer = site.file.parent(part)
            taken = isinstance(outer, ast.Subscript | ast.Attribute) or _is_rebound(file, line, part)
            text = site.text(part)
            return Change(f"{where} may change `{text}` before the function is traced", taken or _is_copied(site, part))
    return None


def _is_rebound(file: FileFacts, line: int, part: ast.expr) -> bool:
    """Return whether a change gives an attribute another value, and leaves the old value unchanged."""
    if not isinstance(part, ast.Attribute):
        return False
    stored = [one for one in file.find_mentions(part.attr) if isinstance(one, ast.Attribute) and one.lineno == line]
    return any(isinstance(one.ctx, ast.Store) for one in stored)


def _is_copied(site: Site, part: ast.expr) -> bool:
    """Return whether a call around makes a tuple of it: `tuple(table)`."""
    call = site.file.parent(part)
    return isinstance(call, ast.Call) and site.text(call.func) in ("tuple", "list", "dict")


def _places_changed_later(site: Site, part: ast.Name | ast.Attribute) -> Iterator[tuple[FileFacts, int]]:
    """Where what a name or an attribute reads is changed, unless surely before the site's call."""
    if isinstance(part, ast.Attribute):
        if all(isinstance(one, Api) for one in options(site.value(part))):
            return
        if all(isinstance(one, Api | ModuleValue) for one in options(site.value(part.value))):
            return
        files = site.program.project.files_holding(site.file.path, (f".{part.attr}",))
        for file in dict.fromkeys([site.file, *(one for one in files if one is not None)]):
            for mention in file.find_mentions(part.attr):
                if isinstance(mention, ast.Attribute) and _changes_attribute(site, file, mention):
                    yield file, mention.lineno
        return
    scope = lookup_bindings(site.file, part, part.id)[1]
    if scope is not None:
        yield from _changes_of_name(site, site.file, scope, part.id, _ALIASES)
        if scope.kind == "module":
            for other in site.program.project.files_importing(site.file.path, part.id):
                if other is not None:
                    yield from _changes_of_name(site, other, other.module, part.id, _ALIASES)
    for option in options(site.value(part)):
        if isinstance(option, Parameter):
            yield from _changes_by_callers(site, option)


def _changes_attribute(site: Site, file: FileFacts, mention: ast.Attribute) -> bool:
    if isinstance(mention.ctx, ast.Load):
        changed = is_changed(site.program.evaluator, file, mention)
    else:
        changed = not _sets_up(file, mention)
    return changed and not _is_before(site, file, mention)


def _sets_up(file: FileFacts, mention: ast.Attribute) -> bool:
    """Return whether a change is `self.rows = ...` in a method that makes the object."""
    function = file.evaluation_scope(mention).node
    named = isinstance(function, ast.FunctionDef) and function.name in _SETUP
    return named and isinstance(mention.value, ast.Name) and mention.value.id == "self"


def _changes_of_name(
    site: Site, file: FileFacts, scope: Scope, name: str, depth: int
) -> Iterator[tuple[FileFacts, int]]:
    """Changes of what a name holds, also under other names that it is given."""
    for mention in file.mentions_in(scope, name):
        if not isinstance(mention, ast.Name) or not isinstance(mention.ctx, ast.Load):
            continue
        if lookup_bindings(file, mention, name)[1] is not scope or _is_before(site, file, mention):
            continue
        if is_changed(site.program.evaluator, file, mention):
            yield file, mention.lineno
        outer = file.parent(mention)
        alias = outer.targets[0] if isinstance(outer, ast.Assign) and outer.value is mention else None
        if isinstance(alias, ast.Name) and depth:
            yield from _changes_of_name(site, file, file.evaluation_scope(alias), alias.id, depth - 1)


def _changes_by_callers(site: Site, parameter: Parameter) -> Iterator[tuple[FileFacts, int]]:
    """Changes of what callers hand over under a name of theirs."""
    function = parameter.place.file.evaluation_scope(parameter.place.node).node
    for end in site.program.flow.ends(parameter.place.file, function).found:
        if end.kind != "called" or not isinstance(end.place.node, ast.Call):
            continue
        for given in (*end.place.node.args, *(one.value for one in end.place.node.keywords)):
            if isinstance(given, ast.Name):
                scope = lookup_bindings(end.place.file, given, given.id)[1]
                if scope is not None:
                    yield from _changes_of_name(site, end.place.file, scope, given.id, 0)


def _is_before(site: Site, file: FileFacts, mention: ast.expr) -> bool:
    """Return whether a mention surely runs before the site's call, and not again after it."""
    if file is not site.file:
        return False
    scope = file.evaluation_scope(mention)
    inner: ast.AST = site.call
    for outer in file.ancestors(site.call):
        if outer is scope.node:
            break
        inner = outer
    else:
        if scope.kind != "module":
            return False
    if mention.lineno >= getattr(inner, "lineno", 0):
        return False
    return not any(isinstance(one, _LOOPS) and one in file.ancestors(mention) for one in file.ancestors(site.call))

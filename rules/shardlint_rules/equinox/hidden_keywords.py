"""Keywords given as `**`: which they are, and the call with those spelled out that stay."""

from __future__ import annotations

import ast

from shardlint.facts.name_uses import is_used_elsewhere
from shardlint.model.values import Api, options
from shardlint.rewrite.unused_imports import without_lines
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.bindings import lookup_bindings, sole_assigned_value
from shardlint_rules.equinox.wrapped_functions import NotRewritten

# How far a dict is followed that is made of others.
_DEPTH = 3


@dataclass(frozen=True)
class DictArgument:
    """One `**` argument: its entries, and the statement that nothing else uses, if they are a variable's."""

    keyword: ast.keyword
    entries: dict[str, ast.expr]
    statement: ast.stmt | None = None

    def remaining_keywords(self, site: Site, names: tuple[str, ...]) -> str:
        """The entries but those names, as keywords."""
        left = {name: node for name, node in self.entries.items() if name not in names}
        return ", ".join(f"{name}={site.text(node)}" for name, node in left.items())

    def remove_variable(self, site: Site) -> list[Edit]:
        """Edits that take the variable away."""
        return [without_lines(site.file, self.statement)] if self.statement is not None else []


def find_hidden_keywords(site: Site) -> list[DictArgument]:
    """Return the keywords in the `**` arguments of the site's call. Raises `NotRewritten` if the text does not tell."""
    return [_read_hidden_keyword(site, keyword) for keyword in site.call.keywords if keyword.arg is None]


def _read_hidden_keyword(site: Site, keyword: ast.keyword) -> DictArgument:
    if isinstance(keyword.value, ast.Name):
        return _read_dict_variable(site, keyword, keyword.value)
    entries = _dict_entries(site, keyword.value)
    if entries is None:
        raise NotRewritten(f"`**{site.text(keyword.value)}` may contain more keywords")
    return DictArgument(keyword, entries)


def _dict_entries(site: Site, node: ast.expr, depth: int = _DEPTH) -> dict[str, ast.expr] | None:
    """The entries of a dict that is written out, also of one made of others."""
    parts: list[ast.expr] = []
    more: dict[str, ast.expr] = {}
    match node:
        case ast.Name() if depth:
            value = sole_assigned_value(site.file, node)
            if value is None:
                return None
            _refuse_changes(site, node)
            return _dict_entries(site, value, depth - 1)
        case ast.Dict():
            return _entries_of_display(site, node, depth)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            parts = [left, right]
        case ast.Call(func=ast.Attribute(attr="copy", value=value), args=[], keywords=[]):
            parts = [value]
        case ast.Call(func=func, args=[] | [_]) if _is_dict(site, func):
            parts = [*node.args, *(one.value for one in node.keywords if one.arg is None)]
            more = {one.arg: one.value for one in node.keywords if one.arg is not None}
        case _:
            return None
    found: dict[str, ast.expr] = {}
    for part in parts:
        entries = _dict_entries(site, part, depth)
        if entries is None:
            return None
        found |= entries
    return found | more


def _entries_of_display(site: Site, node: ast.Dict, depth: int) -> dict[str, ast.expr] | None:
    found: dict[str, ast.expr] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
            found[key.value] = value
            continue
        entries = _dict_entries(site, value, depth) if key is None else None
        if entries is None:
            return None
        found |= entries
    return found


def _is_dict(site: Site, func: ast.expr) -> bool:
    return all(isinstance(one, Api) and one.name == "builtins.dict" for one in options(site.value(func)))


def _read_dict_variable(site: Site, keyword: ast.keyword, name: ast.Name) -> DictArgument:
    file = site.file
    bindings, scope = lookup_bindings(file, name, name.id)
    entries = _dict_entries(site, name)
    if entries is None or scope is None:
        raise NotRewritten(f"`**{name.id}` may contain more keywords")
    statement = file.statement(bindings[0].node)
    alone = (
        len(_reads_of_name(site, name)) == 1
        and isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
    )
    if scope.kind == "class" or (scope.kind == "module" and is_used_elsewhere(site, name.id)):
        alone = False
    return DictArgument(keyword, entries, statement if alone and _has_its_own_lines(site, statement) else None)


def _reads_of_name(site: Site, name: ast.Name) -> list[ast.Name]:
    found = site.file.find_mentions(name.id)
    return [node for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def _refuse_changes(site: Site, name: ast.Name) -> None:
    """Raise `NotRewritten` where the dict of a variable may be changed: all uses must open or copy it."""
    scope = lookup_bindings(site.file, name, name.id)[1]
    if scope is None or len(site.file.bindings(scope, name.id)) > 1:
        raise NotRewritten(f"`**{name.id}` may contain more keywords")
    if not all(_is_only_read(site, node) for node in _reads_of_name(site, name)):
        raise NotRewritten(f"other code uses `{name.id}` and may change it")


def _is_only_read(site: Site, node: ast.Name) -> bool:
    """Return whether a use of a dict unpacks it as `**`, or copies it."""
    outer = site.file.parent(node)
    match outer:
        case ast.keyword():
            return outer.arg is None
        case ast.Dict():
            return any(key is None and value is node for key, value in zip(outer.keys, outer.values, strict=True))
        case ast.BinOp(op=ast.BitOr()):
            return True
        case ast.Call():
            return node in outer.args and _is_dict(site, outer.func)
        case ast.Attribute(attr="copy"):
            return isinstance(site.file.parent(outer), ast.Call)
    return False


def _has_its_own_lines(site: Site, statement: ast.stmt) -> bool:
    file = site.file
    before = file.source.text[file.source.offset_of(statement.lineno, 0) : file.character_span(statement)[0]]
    last = file.source.line_text(statement.end_lineno or statement.lineno)
    after = last.encode()[statement.end_col_offset or 0 :].decode().strip()
    block = file.parent(statement)
    others = getattr(block, "body", [])
    return not before.strip() and not after and len(others) > 1

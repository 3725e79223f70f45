"""Keywords given as `**`: which they are, and the call with those spelled out that stay."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardlint.model.reach import lookup
from shardlint.model.values import Api, options
from shardlint.rewrite.unused import without_lines
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.wrapped import NotRewritten
from shardlint_rules.upgrade.elsewhere import taken_elsewhere


@dataclass(frozen=True)
class Hidden:
    """One `**` argument: its entries, and the statement that nothing else uses, if they are a variable's."""

    keyword: ast.keyword
    entries: dict[str, ast.expr]
    statement: ast.stmt | None = None

    def without(self, site: Site, names: tuple[str, ...]) -> str:
        """The entries but those names, as keywords."""
        left = {name: node for name, node in self.entries.items() if name not in names}
        return ", ".join(f"{name}={site.text(node)}" for name, node in left.items())

    def forgotten(self, site: Site) -> list[Edit]:
        """Edits that take the variable away."""
        return [without_lines(site.file, self.statement)] if self.statement is not None else []


def hidden(site: Site) -> list[Hidden]:
    """What `**` stands for in the site's call. Raises `NotRewritten` where the text does not tell."""
    return [_read(site, keyword) for keyword in site.call.keywords if keyword.arg is None]


def _read(site: Site, keyword: ast.keyword) -> Hidden:
    entries = _entries(site, keyword.value)
    if entries is not None:
        return Hidden(keyword, entries)
    if isinstance(keyword.value, ast.Name):
        return _variable(site, keyword, keyword.value)
    raise NotRewritten(f"`**{site.text(keyword.value)}` may hold more keywords")


def _entries(site: Site, node: ast.expr) -> dict[str, ast.expr] | None:
    """The entries of a dict that is written out."""
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if all(isinstance(key, str) and key.isidentifier() for key in keys):
            return {str(key): value for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Call) and not node.args and all(one.arg for one in node.keywords):
        callee = options(site.value(node.func))
        if all(isinstance(one, Api) and one.name == "builtins.dict" for one in callee):
            return {str(one.arg): one.value for one in node.keywords}
    return None


def _variable(site: Site, keyword: ast.keyword, name: ast.Name) -> Hidden:
    file = site.file
    bindings, scope = lookup(file, name, name.id)
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    entries = _entries(site, value) if value is not None else None
    if entries is None or scope is None or len(file.bindings(scope, name.id)) > 1:
        raise NotRewritten(f"`**{name.id}` may hold more keywords")
    uses = [
        node
        for node in file.mentions(name.id)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    ]
    opened = [node for node in uses if isinstance(file.parent(node), ast.keyword)]
    if len(opened) < len(uses) or any(getattr(file.parent(node), "arg", "") for node in opened):
        raise NotRewritten(f"`{name.id}` is used elsewhere, and may be changed there")
    statement = file.statement(bindings[0].node)
    alone = len(uses) == 1 and isinstance(statement, ast.Assign) and len(statement.targets) == 1
    if scope.kind == "module" and taken_elsewhere(site, name.id):
        alone = False
    return Hidden(keyword, entries, statement if alone and _on_lines_of_its_own(site, statement) else None)


def _on_lines_of_its_own(site: Site, statement: ast.stmt) -> bool:
    file = site.file
    before = file.source.text[file.source.offset(statement.lineno, 0) : file.span(statement)[0]]
    last = file.source.line(statement.end_lineno or statement.lineno)
    after = last.encode()[statement.end_col_offset or 0 :].decode().strip()
    block = file.parent(statement)
    others = getattr(block, "body", [])
    return not before.strip() and not after and len(others) > 1

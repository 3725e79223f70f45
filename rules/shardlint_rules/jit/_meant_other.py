"""Shardings that were made for an argument of a jit, and another one that the argument gets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.signatures import wrappings
from shardlint.model.values import CallResult, ClassValue, Table, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

_SAYING = ("_shardings", "_sharding", "_specs", "_spec")
_SETTING = "in_shardings"


@dataclass(frozen=True)
class Other:
    """An entry of `in_shardings`, its parameter, and what is called like that and read nowhere."""

    entry: ast.expr
    parameter: str
    unread: str


def meant_other(site: Site) -> Iterator[Other]:
    """The entries that get what was made for others, where what was made for them is read nowhere."""
    keyword = site.keyword(_SETTING)
    if keyword is None or not isinstance(keyword.value, ast.Tuple | ast.List):
        return
    entries = keyword.value.elts
    if not all(isinstance(one, ast.Attribute | ast.Subscript | ast.Name) for one in entries):
        return
    functions = list(wrappings(site.program, site.file, site.call, site.form))
    taken = {one.parameters.positional for one in functions if one.parameters is not None}
    if len(functions) != 1 or len(taken) != 1:
        return
    for entry, parameter in zip(entries, taken.pop(), strict=False):
        for unread, called in _beside(site, entry):
            if _alike(called, parameter):
                yield Other(entry, parameter, unread)
                break


def _beside(site: Site, entry: ast.expr) -> Iterator[tuple[str, str]]:
    """What stands beside an entry where it was taken from and nothing reads: as it is written, and its name."""
    match entry:
        case ast.Attribute(value=owner, attr=own):
            for name in _fields(site, owner):
                if name != own and not _said(site, rf"\.{re.escape(name)}\b"):
                    yield f"{site.text(owner)}.{name}", name
        case ast.Subscript(value=owner, slice=ast.Constant(value=str() as own)):
            found = options(site.value(owner))
            keys = found[0].entries if len(found) == 1 and isinstance(found[0], Table) else ()
            for key, _ in keys:
                if isinstance(key, str) and key != own and not _said(site, rf"\[[\"']{re.escape(key)}[\"']\]"):
                    yield f'{site.text(owner)}["{key}"]', key
        case ast.Name(id=own):
            scope = site.scope.function()
            for name in site.file.bound(scope).bindings if scope is not None else ():
                if name != own and name.endswith(_SAYING) and not _read(site, name):
                    yield name, name


def _fields(site: Site, owner: ast.expr) -> Iterator[str]:
    """The fields of what an attribute is taken from, where its class declares them."""
    found = options(site.program.followed(site.value(owner)))
    made = found[0] if len(found) == 1 else None
    if isinstance(made, CallResult) and isinstance(made.by, ClassValue):
        for one in made.by.node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                yield one.target.id


def _alike(name: str, parameter: str) -> bool:
    """Whether something is called like a parameter: `state`, `states`, `state_shardings`."""
    for ending in _SAYING:
        name = name.removesuffix(ending)
        parameter = parameter.removesuffix(ending)
    return name.rstrip("s") == parameter.rstrip("s")


def _said(site: Site, pattern: str) -> bool:
    return any(True for _ in site.program.project.holding(site.file.path, (f"(?m){pattern}",)))


def _read(site: Site, name: str) -> bool:
    return any(not isinstance(one, ast.Name) or isinstance(one.ctx, ast.Load) for one in site.file.mentions(name))

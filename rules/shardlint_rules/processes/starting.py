"""What has started the backend, in words."""

from __future__ import annotations

import ast

from shardlint.model.process.backend import Backend, Started
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

_CATCHING = ("RuntimeError", "Exception", "BaseException")


def started_before(site: Site, place: Place) -> Started | None:
    """What has started the backend when a place runs."""
    return Backend(site.program).before(place)


def told(site: Site, started: Started) -> str:
    """Where the backend was started: "line 4, `jax.devices()`", with what leads there."""
    last = started.place
    what = f"`{short(last)}`"
    first = (*started.through, last)[0]
    if first is last:
        return f"{what} on line {last.line}"
    where = site.where(first)
    at = site.where(last)
    return f"`{short(first)}` on {where} ({what}, {at})"


def short(place: Place) -> str:
    """The text of a place on one line, cut where it is long."""
    text = " ".join(place.text().split())
    return text if len(text) <= 60 else text[:57] + "..."


def at(place: Place, file: FileFacts, node: ast.expr) -> str:
    """Where a place is, behind its text: nothing, if that is the line of a node."""
    if place.file is not file:
        return f" ({place.file.path.name}:{place.line})"
    return "" if place.line == node.lineno else f" (line {place.line})"


def caught(site: Site) -> bool:
    """Whether the place stands in a `try` that catches what jax raises."""
    inner: ast.AST = site.syntax
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.Try) and inner in outer.body:
            for handler in outer.handlers:
                text = site.text(handler.type) if handler.type is not None else "Exception"
                if any(name in text for name in _CATCHING):
                    return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        inner = outer
    return False

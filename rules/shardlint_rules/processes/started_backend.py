"""Description of the code that has started the backend."""

from __future__ import annotations

import ast

from shardlint.facts.processes.backend_starts import Backend, Started
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.enclosing import caught_around

_CATCHING = ("RuntimeError", "Exception", "BaseException")


def find_backend_start(site: Site, place: Place) -> Started | None:
    """Return the code that has started the backend before a place runs."""
    return Backend(site.program).find_start_before(place)


def describe_start(site: Site, started: Started) -> str:
    """Where the backend was started: "line 4, `jax.devices()`", with what leads there."""
    last = started.place
    what = f"`{shorten_text(last)}`"
    first = (*started.through, last)[0]
    if first is last:
        return f"{what} on line {last.line}"
    where = site.where(first)
    at = site.where(last)
    return f"`{shorten_text(first)}` on {where} ({what}, {at})"


def shorten_text(place: Place) -> str:
    """The text of a place on one line, cut where it is long."""
    text = " ".join(place.source_text().split())
    return text if len(text) <= 60 else text[:57] + "..."


def describe_position(place: Place, file: FileFacts, node: ast.expr) -> str:
    """Where a place is, behind its text: nothing, if that is the line of a node."""
    if place.file is not file:
        return f" ({place.file.path.name}:{place.line})"
    return "" if place.line == node.lineno else f" (line {place.line})"


def is_exception_caught(site: Site) -> bool:
    """Return whether jax's exception is caught around the place."""
    kinds = caught_around(site.file, site.syntax)
    texts = [site.text(kind) if kind is not None else "Exception" for kind in kinds]
    return any(name in text for text in texts for name in _CATCHING)

"""Runs of an experiment tracker that one process starts, and all write to."""

from __future__ import annotations

import ast

from shardlint.model.process.processes import guard
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.alone import alone

LOGGING = (
    "wandb.log",
    "wandb.log_artifact",
    "wandb.watch",
    "wandb.save",
    "wandb.define_metric",
    "wandb.config.update",
    "wandb.summary.update",
)
_START = "wandb.init"


def started_by_one(site: Site) -> ast.Call | None:
    """The call that starts the run of a file, where one process alone comes to it, and to any other that starts one."""
    found: list[ast.Call] = []
    for node in walk(site.file.tree):
        if isinstance(node, ast.Call) and site.file.text(node.func).endswith("init"):
            callee = options(site.value(node.func))
            if all(isinstance(one, Api) and one.name == _START for one in callee):
                found.append(node)
    if not found or not all(_guarded(site, Place(site.file, one), 0) for one in found):
        return None
    return found[0]


def by_one(site: Site) -> bool:
    """Whether one process alone comes to a place, or to all calls of its function."""
    return _guarded(site, Place(site.file, site.call), 0)


def _guarded(site: Site, place: Place, depth: int) -> bool:
    if guard(site.program, place.file, place.node) is not None or alone(site.program, place):
        return True
    function = place.file.home(place.node).function()
    if function is None or depth > 2:
        return False
    ends = site.program.flow.ends(place.file, function.node).found
    if any(one.kind != "called" for one in ends):
        return True  # others decide who calls it
    return bool(ends) and all(_guarded(site, one.place, depth + 1) for one in ends)

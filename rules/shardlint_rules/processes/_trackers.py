"""Runs of an experiment tracker that one process starts, and all write to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import first, guard
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._writers import parts_of
from shardlint_rules.processes.alone import alone
from shardlint_rules.processes.given import given, kept

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
_JOIN = "jax.distributed.initialize"


def started_by_one(site: Site) -> ast.Call | None:
    """The call that starts the run of a file, where one process alone comes to it, and to any other that starts one."""
    found = list(_starts(site))
    if not found or not all(_guarded(site, Place(site.file, one), 0) for one in found):
        return None
    here = site.scope.function()
    return next((one for one in found if site.file.home(one).function() is here), found[0])


def started_by_another(site: Site) -> ast.Call | None:
    """Another call of a file that starts a run, where one process alone comes to it."""
    others = (one for one in _starts(site) if one is not site.call)
    return next((one for one in others if _guarded(site, Place(site.file, one), 0)), None)


def _starts(site: Site) -> Iterator[ast.Call]:
    for node in walk(site.file.tree):
        if isinstance(node, ast.Call) and site.file.text(node.func).endswith("init"):
            callee = options(site.value(node.func))
            if all(isinstance(one, Api) and one.name == _START for one in callee):
                yield node


def joined_before(site: Site) -> ast.Call | None:
    """The call of `jax.distributed.initialize` that ran before a place, in its own function or module."""
    here = site.file.home(site.syntax)
    for node in walk(site.file.tree):
        if isinstance(node, ast.Call) and site.file.text(node.func).endswith("initialize"):
            callee = options(site.value(node.func))
            known = bool(callee) and all(isinstance(one, Api) and one.name == _JOIN for one in callee)
            if known and site.file.home(node) is here and node.lineno < getattr(site.syntax, "lineno", 0):
                return node
    return None


def beside_the_process(site: Site, start: ast.Call) -> frozenset[str]:
    """The conditions around a start that do not ask which process it is: a call under them alone is on all of them."""
    parts: set[str] = set()
    for outer in site.file.ancestors(start):
        if isinstance(outer, ast.If) and first(site.program, Place(site.file, outer.test)) is not None:
            test = outer.test
            every = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []
            parts |= {site.text(one) for one in every if first(site.program, Place(site.file, one)) is None}
    return frozenset(parts)


def flagged(site: Site, same: frozenset[str]) -> ast.If | None:
    """The innermost branch around a call that asks for one of these conditions."""
    branches = (one for one in site.file.ancestors(site.call) if isinstance(one, ast.If))
    return next((one for one in branches if same & set(parts_of(site, one.test))), None)


def first_of_its_kind(site: Site, around: ast.If) -> bool:
    """Whether a call is the first in a branch that logs to a run."""
    calls = [one for part in around.body for one in walk(part) if isinstance(one, ast.Call)]
    logged = [one for one in calls if site.text(one.func) in LOGGING or one is site.call]
    return min(logged, key=lambda one: (one.lineno, one.col_offset), default=None) is site.call


def by_one(site: Site) -> bool:
    """Whether one process alone comes to a place, or to all calls of its function."""
    return _guarded(site, Place(site.file, site.call), 0)


def flag_of_process(site: Site) -> bool:
    """Whether a start stands under a flag that its callers make of the process: `Logger(enable=process_index() == 0)`.

    They may let all processes log where somebody asks for it (`FLAGS.log_all or ...`).
    """
    for outer in site.file.ancestors(site.call):
        if not isinstance(outer, ast.If):
            continue
        for node in walk(outer.test):
            given_there = list(_given_flag(site, node))
            if given_there and all(_asks(site, one) for one in given_there):
                return True
    return False


def _given_flag(site: Site, node: ast.AST) -> Iterator[Place]:
    """What callers give a parameter, also one that an object keeps."""
    if isinstance(node, ast.Attribute):
        stored = kept(site.file, node)
        if stored is None:
            return
        node = stored.node
    scope = site.file.home(node).function() if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Name) and scope is not None:
        yield from given(site.program, site.file, scope, node.id)


def _asks(site: Site, place: Place) -> bool:
    parts = (one for one in walk(place.node) if isinstance(one, ast.expr))
    return any(first(site.program, Place(place.file, one)) is not None for one in parts)


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

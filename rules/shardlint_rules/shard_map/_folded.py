"""Where a mapped function makes the key that its helpers draw with: there it should fold in which device it is on."""

from __future__ import annotations

import ast

from shardlint.model.manual.mapped import Ran, definition
from shardlint.model.manual.varying import Event
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk

_FOLD = "jax.random.fold_in"


def folded_in_body(site: Site, ran: Ran, event: Event) -> ast.AST | None:
    """The one call by which a mapped function of this file folds a number into a key of its own, if a helper draws."""
    body = definition(site.program, ran.mapped.inner)
    if body is None or body.file is not site.file or not isinstance(body.node, ast.FunctionDef) or not event.chain:
        return None
    if site.file.home(event.place.node).function() is site.file.scope(body.node):
        return None
    arguments = body.node.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    folds = [one for one in walk(body.node) if isinstance(one, ast.Call) and _folds(site, one, names)]
    keys = {one.id for fold in folds for one in walk(fold) if isinstance(one, ast.Name)}
    return folds[0] if len(folds) == 1 and keys & names else None


def _folds(site: Site, call: ast.Call, names: set[str]) -> bool:
    """Whether a call folds something into a parameter."""
    found = options(site.value(call.func))
    if not all(isinstance(one, Api) and one.name == _FOLD for one in found) or not found or not call.args:
        return False
    return isinstance(call.args[0], ast.Name) and call.args[0].id in names

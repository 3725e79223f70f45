"""Arrays of one maker that a method puts over a mesh, and another one on the default device. For SL235."""

from __future__ import annotations

import ast
from typing import NamedTuple

from shardlint.model.manual.elsewhere import defined_around
from shardlint.model.reach import lookup
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._batch_elsewhere import class_around, splits

# What says that one side has a device of its own on purpose, or that a place is given later.
_MEANT = ("default_device", "shard", "device_put_", "make_array")


class Beside(NamedTuple):
    """The placement in another function: its line, and where to."""

    line: int
    text: str


def put_beside(site: Site) -> Beside | None:
    """Another function of the class or module that puts what the same call makes over a mesh, where this one does not.

    None where this function has a sharding at hand, or hands what it put to somebody who may place it again.
    """
    function = defined_around(Place(site.file, site.call))
    maker = _maker(site.file, site.call.args[0], function) if function is not None else None
    if function is None or maker is None or any(word in _without(site, function) for word in _MEANT):
        return None
    around = class_around(site.file, site.call)
    for mention in site.file.mentions("device_put"):
        call = site.file.parent(mention)
        if not isinstance(call, ast.Call) or call.func is not mention or call is site.call:
            continue
        where = _where(call)
        other = defined_around(Place(site.file, call))
        if where is None or other is None or other is function or class_around(site.file, call) != around:
            continue
        if _maker(site.file, call.args[0], other) == maker and splits(site, Place(site.file, where)):
            return Beside(call.lineno, " ".join(site.file.text(where).split()))
    return None


def _where(call: ast.Call) -> ast.expr | None:
    """The sharding that a placement is given."""
    if not call.args or isinstance(call.args[0], ast.Starred):
        return None
    named = [one.value for one in call.keywords if one.arg == "device"]
    return next(iter((*call.args[1:2], *named)), None)


def _maker(file: FileFacts, given: ast.expr, function: ast.AST) -> str | None:
    """The call that makes what is put, as written: of an object or helper, in this function."""
    if isinstance(given, ast.Name):
        bindings, scope = lookup(file, given, given.id)
        if scope is None or scope.node is not function or len(bindings) != 1:
            return None
        value = bindings[0].value if bindings[0].kind in ("assign", "for") else None
        if value is None:
            return None
        given = value
    if not isinstance(given, ast.Call):
        return None
    text = file.text(given.func)
    return text if not text.startswith(("jnp.", "np.", "jax.", "numpy.")) else None


def _without(site: Site, function: ast.AST) -> str:
    """The names that a function says, but for that of the placement itself."""
    own = set(walk(site.call.func))
    parts = [one for one in walk(function) if isinstance(one, ast.Name | ast.Attribute) and one not in own]
    arguments = function.args if isinstance(function, ast.FunctionDef) else None
    taken = [one.arg for one in (*arguments.args, *arguments.kwonlyargs)] if arguments is not None else []
    return " ".join((*(one.id if isinstance(one, ast.Name) else one.attr for one in parts), *taken))

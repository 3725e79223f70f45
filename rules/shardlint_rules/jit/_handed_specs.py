"""Specs that are handed to a function of the project which makes a jit of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import SHARDING_SETTINGS, Jitted, jitted_value, parameters_of_definition
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_SHARDINGS = ("jax.sharding.NamedSharding", "jax.sharding.PartitionSpec")
_DEPTH = 4


@dataclass(frozen=True)
class HelperSpecs:
    """A tree of specs at a call of a helper: what the helper makes of it, and for which setting."""

    node: ast.expr
    function: Jitted
    setting: str
    helper: str


def jits_made_from_specs(site: Site) -> Iterator[HelperSpecs]:
    """Yield the jits that helpers make with the tree that begins with the site's spec."""
    file, top = site.file, _outermost_display(site)
    if top is site.call or _first_call_in_display(site, top) is not site.call:
        return
    for node in _uses_of_display(file, top):
        call = _call_with_argument(file, node)
        if call is None:
            continue
        for callee in options(site.value(call.func)):
            if isinstance(callee, Function) and callee.place.file.contains_text("in_shardings"):
                yield from _specs_from_helper(site, node, call, callee)


def _outermost_display(site: Site) -> ast.expr:
    """The display of specs, or of shardings, around a spec."""
    node: ast.expr = site.call
    parent = site.file.parent(node)
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.IfExp) or _is_sharding(site, parent):
        assert isinstance(parent, ast.expr)
        node, parent = parent, site.file.parent(parent)
    return node


def _is_sharding(site: Site, call: ast.AST | None) -> bool:
    return isinstance(call, ast.Call) and any(
        isinstance(one, Api) and one.name in _SHARDINGS for one in options(site.value(call.func))
    )


def _first_call_in_display(site: Site, top: ast.expr) -> ast.AST | None:
    """The first call in a display that is spelled as the site's."""
    spelled = site.text(site.call.func)
    found = [node for node in walk_nodes(top) if isinstance(node, ast.Call) and site.text(node.func) == spelled]
    return min(found, key=lambda node: (node.lineno, node.col_offset), default=None)


def _uses_of_display(file: FileFacts, top: ast.expr) -> Iterator[ast.expr]:
    """Where a display is given: itself, or the uses of the one name it is bound to."""
    parent = file.parent(top)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        yield top
        return
    target = parent.targets[0]
    if isinstance(target, ast.Name):
        for use in file.find_mentions(target.id):
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
                bindings, _ = lookup_bindings(file, use, target.id)
                if len(bindings) == 1 and bindings[0].node is target:
                    yield use


def _call_with_argument(file: FileFacts, node: ast.expr) -> ast.Call | None:
    """The call that an expression is an argument of."""
    parent = file.parent(node)
    if isinstance(parent, ast.keyword):
        parent = file.parent(parent)
    return parent if isinstance(parent, ast.Call) and parent.func is not node else None


def _specs_from_helper(site: Site, node: ast.expr, call: ast.Call, helper: Function) -> Iterator[HelperSpecs]:
    evaluator = site.program.evaluator
    parameters = parameters_of_definition(helper.node)
    parameters = parameters.without_first() if helper.bound and parameters.positional else parameters
    bound = parameters.bind_arguments(evaluator.read_arguments(Place(site.file, call)))
    names = [name for name, place in (bound or {}).items() if place.node is node]
    if not names:
        return
    for option in options(site.value(call)):
        function = jitted_value(option, evaluator)
        if function is None or function.settings.place.file is not helper.place.file:
            continue
        for setting in SHARDING_SETTINGS:
            place = function.setting_expression(setting)
            if place is not None and _depends_on_parameter(place, names[0]):
                yield HelperSpecs(node, function, setting, getattr(helper.node, "name", "the helper"))


def _depends_on_parameter(place: Place, name: str, depth: int = 0) -> bool:
    """Return whether an expression depends on a parameter, also through names bound once."""
    for node in walk_nodes(place.node):
        if not isinstance(node, ast.Name):
            continue
        if node.id == name:
            return True
        bindings, scope = lookup_bindings(place.file, node, node.id)
        if depth < _DEPTH and scope is not None and scope.kind == "function" and len(bindings) == 1:
            value = bindings[0].value
            if value is not None and _depends_on_parameter(Place(place.file, value), name, depth + 1):
                return True
    return False

"""The logical names that are written out in a call or passed through a helper, and the rules that hold there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from shardlint.facts.logical_rules import LogicalRules, logical_rules_of, project_rules
from shardlint.model.values import Constant, Place, options
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings

_CALLS = 40

TAKERS: Mapping[str, tuple[int, int, str]] = {
    "flax.linen.logical_to_mesh_axes": (0, 1, "rules"),
    "flax.linen.with_logical_constraint": (1, 2, "rules"),
    "flax.linen.with_sharding_constraint": (1, 2, "rules"),
    "flax.linen.with_logical_partitioning": (1, 3, "rules"),
}
"""Where the names are, and where rules can be given."""

Named = tuple[list[tuple[ast.expr, str]], tuple[LogicalRules, ...]]


def find_named_arrays(site: Site) -> Iterator[Named]:
    """For each array that the call names: the names with their nodes, and every list of rules there may be.

    Nothing where one of the two is not known.
    """
    given = site.arguments
    at, rules_at, keyword = TAKERS[site.api]
    if given.open_keywords or given.open_positional or len(given.positional) <= at:
        return
    named = [names for parts in _lists_of_names(site, given.positional[at]) if (names := _written_names(site, parts))]
    if not named:
        return
    place = given.keywords.get(keyword)
    if place is None and len(given.positional) > rules_at:
        place = given.positional[rules_at]
    tables = _rule_tables(site, place)
    yield from ((names, tables) for names in named if tables)


def _rule_tables(site: Site, place: Place | None) -> tuple[LogicalRules, ...]:
    """The rules that hold for a call; none where they are not all known."""
    if place is not None:
        found = [logical_rules_of(option) for option in options(site.program.evaluator.value(place))]
        known = tuple(rules for rules in found if rules is not None)
        return known if len(known) == len(found) else ()
    return (
        site.program.once(site.file, "logical rules", lambda: project_rules(site.program, site.file.path))
        or ()
    )


def _lists_of_names(site: Site, place: Place) -> Iterator[list[ast.expr]]:
    """The names of an argument, or of each call that passes it on to this one: `def dense(*names): ...`."""
    node = place.node
    if place.file is not site.file:
        return
    if not isinstance(node, ast.Name):
        yield _parts_of(node)
        return
    bindings, scope = lookup_bindings(site.file, node, node.id)
    function = scope.node if scope is not None else None
    if len(bindings) != 1 or bindings[0].kind != "param" or not isinstance(function, ast.FunctionDef):
        return
    takes = function.args
    parameters = [one.arg for one in (*takes.posonlyargs, *takes.args) if one.arg != "self"]
    for call in site.program.flow.ends(site.file, function).direct_calls(_CALLS):
        if call.file is not site.file or not isinstance(call.node, ast.Call):
            continue
        if any(isinstance(one, ast.Starred) for one in call.node.args):
            continue
        if takes.vararg is not None and takes.vararg.arg == node.id:
            yield call.node.args[len(parameters) :]
            continue
        passed = site.program.evaluator.read_arguments(call).argument_for(node.id, tuple(parameters))
        if passed is not None:
            yield _parts_of(passed.node)


def _parts_of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        return node.args
    return node.elts if isinstance(node, ast.Tuple | ast.List) else []


def _written_names(site: Site, parts: list[ast.expr]) -> list[tuple[ast.expr, str]]:
    """The names among some expressions, each with its node."""
    values = [(part, site.value(part)) for part in parts]
    return [
        (part, value.value) for part, value in values if isinstance(value, Constant) and isinstance(value.value, str)
    ]

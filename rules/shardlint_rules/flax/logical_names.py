"""The logical names that are written out in a call, and the rules that hold there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from shardlint.facts.logical_rules import LogicalRules, logical_rules_of, project_rules
from shardlint.model.values import Constant, Place, options
from shardlint.rules_api.site import Site

TAKERS: Mapping[str, tuple[int, int, str]] = {
    "flax.linen.logical_to_mesh_axes": (0, 1, "rules"),
    "flax.linen.with_logical_constraint": (1, 2, "rules"),
    "flax.linen.with_sharding_constraint": (1, 2, "rules"),
    "flax.linen.with_logical_partitioning": (1, 3, "rules"),
}
"""Where the names are, and where rules can be given."""

Named = tuple[list[tuple[ast.expr, str]], tuple[LogicalRules, ...]]


def named_under_rules(site: Site) -> Named | None:
    """The names with their nodes, and every list of rules there may be; None where one of the two is not known."""
    given = site.arguments
    at, rules_at, keyword = TAKERS[site.api]
    if given.open_keywords or given.open_positional or len(given.positional) <= at:
        return None
    names = list(_written_names(site, given.positional[at]))
    if not names:
        return None
    place = given.keywords.get(keyword)
    if place is None and len(given.positional) > rules_at:
        place = given.positional[rules_at]
    tables = _rule_tables(site, place)
    return (names, tables) if tables else None


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


def _written_names(site: Site, place: Place) -> Iterator[tuple[ast.expr, str]]:
    """The names written out in a call, each with its node."""
    node = place.node
    if place.file is not site.file:
        return
    if isinstance(node, ast.Call):
        parts = node.args
    elif isinstance(node, ast.Tuple | ast.List):
        parts = node.elts
    else:
        return
    for part in parts:
        value = site.value(part)
        if isinstance(value, Constant) and isinstance(value.value, str):
            yield part, value.value

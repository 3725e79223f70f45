"""Rewriting a placement of a Module: for SL103 and SL109."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox.call_text import comments_in


def find_argument(site: Site, name: str, taken: tuple[str, ...]) -> ast.expr | None:
    """Return the argument for a parameter of a call, also if a broken contract leads to the call."""
    place = site.arguments.argument_for(name, taken)
    return place.node if place is not None and isinstance(place.node, ast.expr) else None


def array_and_target(site: Site, first: str, second: str) -> tuple[ast.expr, ast.expr] | None:
    """Return the placed expression and its target, if the call has only these and can be rewritten."""
    one, two = find_argument(site, first, (first, second)), find_argument(site, second, (first, second))
    names = {keyword.arg for keyword in site.call.keywords}
    if one is None or two is None or names - {first, second} or len(site.call.args) + len(names) != 2:
        return None
    return None if comments_in(site.text()) else (one, two)


def place_array_parts(site: Site, put: str, tree: ast.expr, target: ast.expr) -> tuple[str, list[Edit]] | None:
    """`device_put` of the arrays of a tree, with the rest put back: right for arrays on any devices.

    `put` is how device_put is written here.
    """
    if any(not isinstance(part, ast.Name | ast.Attribute | ast.expr_context) for part in walk_nodes(tree)):
        return None  # it would be evaluated three times
    spelled = [site.spell(name) for name in ("equinox.combine", "equinox.filter", "equinox.is_array")]
    combine, arrays, is_array = (text for text, _ in spelled)
    text, where = site.text(tree), site.text(target)
    written = (
        f"{combine}({put}({arrays}({text}, {is_array}), {where}), {arrays}({text}, {is_array}, inverse=True))"
    )
    return written, [edit for _, edits in spelled for edit in edits]

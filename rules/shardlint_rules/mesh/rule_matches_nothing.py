"""SL330."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.logical_rules import logical_rules_of
from shardlint.model.values import options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._first_match import (
    find_hidden_rule,
    is_for_linen_only,
    lookup_orders,
    pattern_covers,
)

_SPEC = "jax.sharding.PartitionSpec"
# The functions of Linen that look up logical names, and the position of their rules.
_LOOKUPS = {
    "flax.linen.logical_axis_rules": 0,
    "flax.linen.set_logical_axis_rules": 0,
    "flax.linen.logical_to_mesh": 1,
    "flax.linen.logical_to_mesh_axes": 1,
    "flax.linen.logical_to_mesh_sharding": 2,
}


class RuleMatchesNothing(Rule):
    """A rule of a partition table never takes effect: an earlier rule shadows it, or `re.match` anchors it.

    The weights or activations of this rule get another rule, often `(".*", P())`, and are replicated. Nothing is
    raised.

    ## Reports
    - `shadowed` (likely): a rule with a regular expression that matches everything a later rule matches, such as
      `("kernel", P())` before `("mlp/kernel", P("model"))`. Reported if the loops of the project over such tables stop
      at the first match.
    - `duplicate-name` (likely): two rules for one logical name in a table that is passed to Linen, such as
      `("mlp", None)` before `("mlp", "model")`.
    - proven: `re.match` with a pattern that matches no path from its beginning, but would match inside a path.

    ## Write instead
    Put the more specific rule first. Write `re.search` for patterns that may match inside a path.

    ## Limits
    `duplicate-name` is not reported in projects that use NNX, which takes the last rule of a logical name.
    """

    code = "SL330"
    name = "partition-rule-matches-nothing"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("duplicate-name", "shadowed")
    assumptions: ClassVar[Mapping[str, str]] = {
        "duplicate-name": "Linen looks up the names in this table.",
        "shadowed": "A loop of the project that stops at the first match looks up names in this table.",
    }
    triggers = (
        Calls(_SPEC, file_says=(r"(?:)[\"'][^\"'\n/]*+/[^\"'\n]*+[\"']\s*,\s*[\w.]+\(",)),
        Calls(*_LOOKUPS),
        Violates("pattern.anchored", is_conditional=False),
    )
    fixes = "none"

    @detector("call", of=_SPEC, finds="shadowed")
    def report_covering(self, site: Site) -> Finding | None:
        """A pair that matches all that a later one does."""
        pair = site.file.parent(site.call)
        table = site.file.parent(pair) if isinstance(pair, ast.Tuple) else None
        pattern = _pattern_of_pair(pair) if isinstance(pair, ast.Tuple) else None
        if not isinstance(pair, ast.Tuple) or pattern is None or not isinstance(table, ast.Tuple | ast.List):
            return None
        spec = site.text(site.call)
        later = [one for one in table.elts[table.elts.index(pair) + 1 :] if isinstance(one, ast.Tuple)]
        others = [text for one in later if (text := _pattern_of_pair(one)) and site.text(one.elts[1]) != spec]
        if not others:
            return None
        lookups = site.program.once(site.file, "lookups in tables", lambda: lookup_orders(site))
        dead = [
            text for text in others if lookups and all(pattern_covers(pattern, text, way) for way in lookups)
        ]
        if not dead:
            return None
        return site.finding(
            pair,
            f"The rule for `{dead[0]}` never takes effect: `{pattern}` matches first.",
            label="matches first",
            help=f"move the rule for `{pattern}` after the more specific ones",
            why="the loops of the project over such tables stop at the first match"
            + (f"; {len(dead) - 1} more rules are shadowed" if len(dead) > 1 else ""),
        )

    @detector("violation")
    def report_anchored_pattern(self, site: Site) -> Finding:
        """A pattern for `re.match` that would match inside a path alone."""
        said = site.violation.said
        return site.finding(
            site.syntax,
            f"The rule `{said['pattern']}` matches no path: `re.match` only tries the beginning of a path.",
            help="write `re.search` in place of `re.match`, or begin the patterns with `.*`",
            certainty=Certainty.PROVEN,
            why=f"the rule would match inside the path `{said['path']}`",
        )

    @detector("call", of=tuple(_LOOKUPS), finds="duplicate-name")
    def report_duplicate(self, site: Site) -> Finding | None:
        """A rule of Linen for a logical name with a later rule for the same name."""
        given, at = site.arguments, _LOOKUPS[site.api]
        place = given.keywords.get("rules") or (given.positional[at] if len(given.positional) > at else None)
        if place is None or given.open_positional:
            return None
        for option in options(site.program.evaluator.value(place)):
            table = logical_rules_of(option)
            found = find_hidden_rule(table.rules) if table is not None else None
            if found is not None and is_for_linen_only(site):
                name, first, later = found
                shown = " and ".join(repr(one) for one in first) or "None"
                return site.finding(
                    place.node if place.file is site.file else site.call,
                    f'Logical axis "{name}" is never sharded over {", ".join(later)}: Linen takes its first rule.',
                    label=f'two rules for "{name}"',
                    help="remove one of the two rules, or put the other one first",
                    why=f"the first of two rules gives {shown}",
                )
        return None


def _pattern_of_pair(node: ast.expr) -> str | None:
    """The expression of a pair that has a call for its spec."""
    if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):
        value = node.elts[0].value
        return value if isinstance(value, str) and isinstance(node.elts[1], ast.Call) else None
    return None

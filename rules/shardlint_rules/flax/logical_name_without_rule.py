"""SL510."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.program.logical import LogicalRules, project_rules, rules_of
from shardlint.program.values import Constant, Place, options
from shardlint.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.site import Site

# Where the names are, and where rules can be given.
_TAKERS: Mapping[str, tuple[int, int, str]] = {
    "flax.linen.logical_to_mesh_axes": (0, 1, "rules"),
    "flax.linen.with_logical_constraint": (1, 2, "rules"),
    "flax.linen.with_sharding_constraint": (1, 2, "rules"),
    "flax.linen.with_logical_partitioning": (1, 3, "rules"),
}


class LogicalNameWithoutRule(Rule):
    """A logical axis name has no rule, so the dimension it names is not sharded.

    ## What it does
    Reports a name in `nn.with_logical_constraint`, `nn.with_logical_partitioning` or `nn.logical_to_mesh_axes` that no
    rule speaks of, where all rules are known (given with the call, set in the project's code, or listed in its YAML
    configs), and either another name is nearly the same, or the rules list names that stay whole too, so that a missing
    one was forgotten. Without either, the finding is likely.

    ## Why it hurts
    Linen leaves a dimension whose name it does not know whole on every device. A misspelt name replicates a weight or
    an activation, and nothing is raised. (NNX raises there.)

    ## Example
    ```python
    rules = (("batch", "data"), ("embed", None), ("vocab", "model"))
    spec = nn.logical_to_mesh_axes(("bacth", "vocab"), rules)
    ```

    ## Use instead
    ```python
    rules = (("batch", "data"), ("embed", None), ("vocab", "model"))
    spec = nn.logical_to_mesh_axes(("batch", "vocab"), rules)
    ```

    ## Fix safety
    Unsafe: the dimension is sharded then. Offered where one name alone is nearly the same.

    ## Evidence
    Rows M2 and M3c of the experiments, run on flax 0.10.4, 0.11.2, 0.12.6 and 0.12.12. A mesh axis is no logical name:
    it needs a rule too.
    """

    code = "SL510"
    name = "logical-name-without-rule"
    harm = Harm.SILENT
    holds: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    wakes = (Calls(*_TAKERS),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each name without a rule."""
        if site.form != "call" or site.expected_to_fail or site.guarded:
            return
        given = site.arguments
        at, rules_at, keyword = _TAKERS[site.api]
        if given.open_keywords or given.open_positional or len(given.positional) <= at:
            return
        names = list(_names(site, given.positional[at]))
        if not names:
            return
        place = given.keywords.get(keyword)
        if place is None and len(given.positional) > rules_at:
            place = given.positional[rules_at]
        tables = _tables(site, place)
        if not tables:
            return
        every = frozenset().union(*(table.names for table in tables))
        listed = any(table.lists_all for table in tables)
        for node, name in names:
            if name not in every:
                yield self._finding(site, node, name, every, listed)

    def _finding(self, site: Site, node: ast.expr, name: str, every: frozenset[str], listed: bool) -> Finding:
        near = difflib.get_close_matches(name, every, n=2, cutoff=0.8)
        fix: Fix | None = None
        if len(near) == 1 and isinstance(node, ast.Constant):
            edit = site.replace(node, site.text(node).replace(name, near[0]))
            fix = site.fix(Safety.UNSAFE, f"write {near[0]!r}", [edit], "the dimension is sharded then")
        known = ", ".join(repr(one) for one in (near or sorted(every)[:6]))
        return site.finding(
            node,
            f"no rule speaks of {name!r}",
            f"On {site.on('flax')} linen leaves this dimension whole on every device, and says nothing.",
            help=f"give it a rule, or write a name that has one: {known}",
            fix=fix,
            certainty=Certainty.PROVEN if near or listed else Certainty.LIKELY,
        )


def _tables(site: Site, place: Place | None) -> tuple[LogicalRules, ...]:
    """The rules that hold for a call; none where they are not all known."""
    if place is not None:
        found = [rules_of(option) for option in options(site.program.evaluator.value(place))]
        known = tuple(rules for rules in found if rules is not None)
        return known if len(known) == len(found) else ()
    return site.program.once("logical rules", lambda: project_rules(site.program)) or ()


def _names(site: Site, place: Place) -> Iterator[tuple[ast.expr, str]]:
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

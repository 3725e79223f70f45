"""SL510."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.logical_rules import LogicalRules
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.logical_names import TAKERS, find_named_arrays

_OF_WEIGHTS = ("flax.linen.with_logical_partitioning", "flax.linen.logical_to_mesh_axes")
_LETTERS = 4
_ALIKE = 0.75


class LogicalNameWithoutRule(Rule):
    """A logical axis name has no rule, so its dimension is not sharded.

    Linen replicates a dimension whose name has no rule. A misspelt name replicates a weight or an activation. Linen
    raises nothing. NNX raises from flax 0.12 on.

    ## Reports
    A name is reported only if all rules are known: they are passed to the call, set in the project's code, or listed in
    its YAML or TOML configs. A helper of the same file may pass the name on: `def init(*names)`.

    - proven: a name without a rule in `nn.with_logical_constraint`, `nn.with_logical_partitioning` or
      `nn.logical_to_mesh_axes`, if a name with a rule is nearly the same.
    - proven: a name without a rule in `nn.with_logical_partitioning` or `nn.logical_to_mesh_axes`, if two
      things hold: no other name of the call is sharded, and some rule maps a name to None. Such rules list every name,
      sharded or not, so a name that is not listed was forgotten.
    - `assumed-config` (likely): such a name, if the command line selects the config with the rules and the project has
      only one such config.
    - possible: any other name without a rule.

    ## Write instead
    Add a rule for the name, or write a name that has one. The name of a mesh axis needs a rule too: `("data", "data")`.

    ## Fix
    Writes the similar name, if exactly one name with a rule is similar. Unsafe: the dimension is then sharded.
    """

    code = "SL510"
    name = "logical-name-without-rule"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    likely = ("assumed-config",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "assumed-config": "The program runs with the rules of the only config file that the project has for them.",
    }
    triggers = (Calls(*TAKERS),)
    in_version_checks = False
    fixes = "unsafe"

    @detector("call")
    def find_names(self, site: Site) -> Iterator[Finding]:
        """Each name without a rule."""
        for names, tables in find_named_arrays(site):
            yield from self._find_names_of_array(site, names, tables)

    def _find_names_of_array(
        self, site: Site, names: list[tuple[ast.expr, str]], tables: tuple[LogicalRules, ...]
    ) -> Iterator[Finding]:
        every = frozenset().union(*(table.ruled_names for table in tables))
        whole = (
            site.api in _OF_WEIGHTS
            and len(names) > 1
            and not any(_maps_to_mesh_axis(n, tables) for _, n in names)
        )
        forgotten = whole and any(table.lists_all for table in tables)
        assumed = any(table.assumed for table in tables)
        if assumed and not site.wants("assumed-config"):
            return
        for node, name in names:
            if name not in every:
                yield self._report_name(site, node, name, every, forgotten, assumed)

    def _report_name(
        self, site: Site, node: ast.expr, name: str, every: frozenset[str], forgotten: bool, assumed: bool
    ) -> Finding:
        near = sorted(one for one in every if _is_misspelling(name, one))
        fix: Fix | None = None
        told = bool(near) or forgotten
        if len(near) == 1 and not assumed and isinstance(node, ast.Constant):
            edit = site.replace(node, site.text(node).replace(name, near[0]))
            fix = site.fix(Safety.UNSAFE, f"write {near[0]!r}", [edit], "the dimension is then sharded")
        known = ", ".join(repr(one) for one in (near or sorted(every)[:6]))
        return site.finding(
            node,
            f"The dimension `{name}` is replicated: no logical axis rule has this name.",
            help=f"add a rule for {name!r}, or write a name that has one: {known}",
            fix=fix,
            certainty=Certainty.PROVEN if told else Certainty.POSSIBLE,
            form="assumed-config" if told and assumed else "",
            why="; ".join(
                filter(
                    None,
                    (
                        "the other names of the weight shard nothing" if forgotten and not near else "",
                        "the project has one config file for the rules" if told and assumed else "",
                    ),
                )
            ),
        )


def _maps_to_mesh_axis(name: str, tables: tuple[LogicalRules, ...]) -> bool:
    """Return whether a rule of any list maps a name to a mesh axis."""
    return any(ruled == name and axes for table in tables for ruled, axes in table.rules)


def _is_misspelling(name: str, known: str) -> bool:
    """Return whether a name differs from another in one of its words, and only by a few letters or an ending."""
    one, two = name.split("_"), known.split("_")
    differing = [(a, b) for a, b in zip(one, two, strict=False) if a != b]
    if len(one) != len(two) or len(differing) != 1:
        return False
    a, b = differing[0]
    if min(len(a), len(b)) < _LETTERS:
        return False
    return a.startswith(b) or b.startswith(a) or difflib.SequenceMatcher(None, a, b).ratio() >= _ALIKE

"""SL510."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.logical import LogicalRules
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint_rules.flax.logical_names import TAKERS, named_under_rules

_OF_WEIGHTS = ("flax.linen.with_logical_partitioning", "flax.linen.logical_to_mesh_axes")
_OF_ACTIVATIONS = ("flax.linen.with_logical_constraint", "flax.linen.with_sharding_constraint")
_LETTERS = 4
_FEW = 3
_ALIKE = 0.75


class LogicalNameWithoutRule(Rule):
    """A logical axis name has no rule, so the dimension it names is not sharded.

    ## What it does
    Reports a name in `nn.with_logical_constraint`, `nn.with_logical_partitioning` or `nn.logical_to_mesh_axes` that no
    rule names, where all rules are known (given with the call, set in the project's code, or listed in its YAML
    or TOML configs), and either another name is nearly the same, or it is a weight of which no name splits anything and
    the rules list names that stay whole too, so that the missing one was forgotten. Without either, the finding is
    possible: that names of activations, and of small dimensions beside a split one, have no rule is mostly meant so. It
    is likely where the rules have the name with the word in front that they give activations (`activation_batch`).

    Rules that the calls in sight take from a config file, the only one of the project where the command line says
    which, are likely.

    ## Why it hurts
    Linen leaves a dimension whose name it does not know whole on every device. A misspelt name replicates a weight or
    an activation, and nothing is raised. (NNX raises there.)

    ## Fix safety
    Unsafe: the dimension is sharded then. Offered where one name alone is nearly the same.

    ## Evidence
    Run on flax 0.10.4, 0.11.2, 0.12.6 and 0.12.12. A mesh axis is no logical name:
    it needs a rule too.
    """

    code = "SL510"
    name = "logical-name-without-rule"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    likely = ("assumed", "prefixed")
    triggers = (Calls(*TAKERS),)
    forms = ("call",)
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each name without a rule."""
        found = named_under_rules(site)
        if found is None:
            return
        names, tables = found
        every = frozenset().union(*(table.names for table in tables))
        whole = site.api in _OF_WEIGHTS and len(names) > 1 and not any(_splits(n, tables) for _, n in names)
        forgotten = whole and any(table.lists_all for table in tables)
        assumed = any(table.assumed for table in tables)
        if assumed and not site.wants("assumed"):
            return
        for node, name in names:
            if name not in every:
                yield self._finding(site, node, name, every, forgotten, assumed)

    def _finding(
        self, site: Site, node: ast.expr, name: str, every: frozenset[str], forgotten: bool, assumed: bool
    ) -> Finding:
        near = sorted(one for one in every if _misspelt(name, one))
        prefixed = _prefixed(name, every) if site.api in _OF_ACTIVATIONS and not near else None
        fix: Fix | None = None
        told = bool(near) or forgotten
        if len(near) == 1 and not assumed and isinstance(node, ast.Constant):
            edit = site.replace(node, site.text(node).replace(name, near[0]))
            fix = site.fix(Safety.UNSAFE, f"write {near[0]!r}", [edit], "the dimension is sharded then")
        known = ", ".join(repr(one) for one in (near or ([prefixed] if prefixed else sorted(every)[:6])))
        return site.finding(
            node,
            f"On {site.release('flax')} linen leaves this dimension whole on every device, and says nothing.",
            label=(
                f"no rule for {name!r}"
                + (", and the other names split nothing" if forgotten and not near else "")
            ),
            help=f"give it a rule, or write a name that has one: {known}",
            fix=fix,
            certainty=Certainty.PROVEN if told and not assumed else Certainty.POSSIBLE,
            form="assumed" if told and assumed else "prefixed" if prefixed and not told else "",
            why="the project sets rules from one place, and no list there has this name"
            if told and assumed
            else f"the rules call what activations have {prefixed!r} and the like"
            if prefixed
            else "",
        )


def _splits(name: str, tables: tuple[LogicalRules, ...]) -> bool:
    """Whether a rule of any list gives a name a mesh axis."""
    return any(ruled == name and axes for table in tables for ruled, axes in table.rules)


def _prefixed(name: str, every: frozenset[str]) -> str | None:
    """The ruled name that is this one with a word in front, where several names for activations have that word."""
    for one in sorted(every):
        word = one.removesuffix(f"_{name}")
        if word != one and "_" not in word and sum(each.startswith(f"{word}_") for each in every) >= _FEW:
            return one
    return None


def _misspelt(name: str, known: str) -> bool:
    """Whether a name differs from another in one of its words, and that by a few letters or an ending."""
    one, two = name.split("_"), known.split("_")
    differing = [(a, b) for a, b in zip(one, two, strict=False) if a != b]
    if len(one) != len(two) or len(differing) != 1:
        return False
    a, b = differing[0]
    if min(len(a), len(b)) < _LETTERS:
        return False
    return a.startswith(b) or b.startswith(a) or difflib.SequenceMatcher(None, a, b).ratio() >= _ALIKE

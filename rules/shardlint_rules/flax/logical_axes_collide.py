"""SL518."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.logical_rules import LogicalRules
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.logical_names import find_named_arrays

_OF_WEIGHTS = ("flax.linen.with_logical_partitioning", "flax.linen.logical_to_mesh_axes")


class LogicalAxesCollide(Rule):
    """Two logical names of one weight map to the same mesh axis, so one dimension is replicated.

    A mesh axis shards only one dimension of an array. Linen gives the axis to the name whose rule comes first, and
    replicates the other dimension. The weight takes more memory than the rules suggest.

    ## Reports
    A name is reported only if all rules are known: they are passed to the call, set in the project's code, or listed in
    its YAML or TOML configs.

    - proven: a name in `nn.with_logical_partitioning` or `nn.logical_to_mesh_axes`, if each rule of the name gives a
      mesh axis that another name of the array already takes. If configs list several sets of rules, the names must
      collide in every set that has rules for them.
    - possible: such a name, if the command line selects the config with the rules.

    ## Write instead
    Map one of the names to another mesh axis. Or add `("kv", None)` as the last rule: it says that this dimension stays
    replicated.

    ## Limits
    Not reported: activations, whose names often share a mesh axis on purpose.
    """

    code = "SL518"
    name = "logical-axes-collide"
    by_hand = "the text does not tell which of the dimensions to shard"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Calls(*_OF_WEIGHTS),)
    in_version_checks = False

    @detector("call")
    def find_lost_names(self, site: Site) -> Iterator[Finding]:
        """Each name that loses its mesh axis."""
        for names, tables in find_named_arrays(site):
            yield from _find_lost_names(site, names, tables)


def _find_lost_names(
    site: Site, names: list[tuple[ast.expr, str]], tables: tuple[LogicalRules, ...]
) -> Iterator[Finding]:
    all_names = [name for _, name in names]
    asked = [table for table in tables if any(ruled in all_names for ruled, _ in table.rules)]
    for node, name in names:
        lost = [
            (table, one) for table in asked if (one := _lost_axes(all_names, name, table)) is not None
        ]
        # A configuration may be of another model: it counts only if all do so.
        if not lost or (len(lost) < len(asked) and all(table.configured for table, _ in lost)):
            continue
        axes, winner = lost[0][1]
        yield site.finding(
            node,
            f"The dimension `{name}` is replicated: `{winner}` takes its mesh axis `{axes[0]}`.",
            why=f"the rule of {winner!r} comes first, and a mesh axis shards one dimension of an array",
            help=f'map {name!r} to another mesh axis, or add the last rule ("{name}", None) if it stays replicated',
            certainty=Certainty.POSSIBLE if any(table.assumed for table in asked) else Certainty.PROVEN,
        )


def _lost_axes(names: list[str], name: str, table: LogicalRules) -> tuple[tuple[str, ...], str] | None:
    """The mesh axes that a name should have and another one has, and which; None where it has what a rule gives it."""
    taken: dict[str, str] = {}
    done: set[str] = set()
    refused: dict[str, tuple[tuple[str, ...], str]] = {}
    for ruled, axes in table.rules:
        if ruled not in names or ruled in done:
            continue
        both = tuple(axis for axis in axes if axis in taken)
        if both:
            refused.setdefault(ruled, (both, taken[both[0]]))
        else:
            done.add(ruled)
            taken.update(dict.fromkeys(axes, ruled))
    return refused.get(name) if name not in done else None

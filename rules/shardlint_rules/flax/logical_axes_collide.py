"""SL518."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.logical import LogicalRules
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.flax.logical_names import named_under_rules

_OF_WEIGHTS = ("flax.linen.with_logical_partitioning", "flax.linen.logical_to_mesh_axes")


class LogicalAxesCollide(Rule):
    """Two logical names of one weight map to the same mesh axis, so that one of them splits nothing.

    ## What it does
    Reports a name in `nn.with_logical_partitioning` or `nn.logical_to_mesh_axes` for which every rule asks for a mesh
    axis that another name of the same array has taken, where all rules are known (given with the call, set in the
    project's code, or listed in its YAML or TOML configs). Where only some of the configured lists with rules for these
    names do so it is possible: the others may be of another model.

    ## Why it hurts
    A mesh axis splits one dimension of an array. Linen gives it to the name whose rule stands first in the list, and
    leaves the other dimension whole on every device: the weight takes more memory than the rules say.

    ## Use instead
    Give one of the names another mesh axis, or a last rule `("name", None)` where it is meant to stay whole beside the
    other.

    ## Evidence
    Run on flax 0.10.4, 0.11.2, 0.12.6 and 0.12.12. Activations, where rules for weights and
    batches often meet on purpose, are left alone.
    """

    code = "SL518"
    name = "logical-axes-collide"
    by_hand = "which dimension is to be split is for the author to decide"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Calls(*_OF_WEIGHTS),)
    forms = ("call",)
    in_version_checks = False

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each name that loses its mesh axis."""
        found = named_under_rules(site)
        if found is None:
            return
        names, tables = found
        known = {name for _, name in names}
        asked = [table for table in tables if any(ruled in known for ruled, _ in table.rules)]
        for node, name in names:
            lost = [
                (table, one)
                for table in asked
                if (one := _lost([n for _, n in names], name, table)) is not None
            ]
            if not lost:
                continue
            # Configurations may be of several models: under which of them this one runs, the text does not say.
            always = len(lost) == len(asked) or not all(table.configured for table, _ in lost)
            axes, winner = lost[0][1]
            shown = " and ".join(repr(axis) for axis in axes)
            where = "" if len(lost) == len(asked) else " in one of the lists of rules"
            yield site.finding(
                node,
                f"On {site.release('flax')} linen leaves this dimension whole on every device: a mesh axis splits one "
                "dimension of an array.",
                label=f"{shown}, which the rule of {name!r} asks for{where}, goes to {winner!r}",
                help=f'give {name!r} another mesh axis, or a last rule ("{name}", None) if it is to stay whole here',
                certainty=Certainty.PROVEN if always else Certainty.POSSIBLE,
                form="" if always else "one-of-the-lists",
                why="" if always else f"of {len(asked)} lists of rules for these names {len(lost)} do so",
            )


def _lost(names: list[str], name: str, table: LogicalRules) -> tuple[tuple[str, ...], str] | None:
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

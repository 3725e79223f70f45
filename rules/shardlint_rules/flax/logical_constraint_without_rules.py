"""SL512."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.flax.linen import CONSTRAINTS, MESHES, rules_anywhere


class LogicalConstraintWithoutRules(Rule):
    """A logical constraint is used in a project that sets no logical axis rules.

    Rules map logical names to mesh axes. Without rules the constraint returns its input or, under `jax.set_mesh`,
    replicates it. Nothing is raised.

    ## Reports
    - proven: `nn.with_logical_constraint` without `rules`, in a project that makes a mesh and mentions none of
      `logical_axis_rules`, `axis_rules` and `set_logical_axis_rules`.

    ## Limits
    A project without a mesh is not reported: it may be a library. A file outside of a project is reported only if it
    makes the mesh itself.
    """

    code = "SL512"
    name = "logical-constraint-without-rules"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Calls(*CONSTRAINTS),)
    forms = ("call",)
    closed = ("positional", "keywords")

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a constraint."""
        given = site.arguments
        if "rules" in given.keywords or len(given.positional) > 2 or rules_anywhere(site):
            return
        # A file outside of a project is a library unless it makes the mesh itself.
        said = site.anywhere if site.program.project.marked else site.file.says
        if not any(map(said, MESHES)):
            return
        yield site.finding(
            site.call,
            f"`{site.api.rpartition('.')[2]}` shards nothing: the program sets no logical axis rules.",
            help="call it under nn.logical_axis_rules([(name, mesh axis), ...]), or add rules=...",
        )

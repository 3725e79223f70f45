"""SL512."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.flax.linen import CONSTRAINTS, rules_anywhere

_MESHES = ("Mesh", "make_mesh")


class LogicalConstraintWithoutRules(Rule):
    """A logical constraint is used in a project that never says what its logical axes are.

    ## What it does
    Reports `nn.with_logical_constraint` without `rules`, in a project that makes a mesh and mentions none of
    `logical_axis_rules`, `axis_rules` and `set_logical_axis_rules`.

    ## Why it hurts
    Logical names get their mesh axes from rules. Without any, the constraint gives back what it was given (or, under
    `jax.set_mesh`, makes it whole on every device), and nothing is raised.

    ## Evidence
    Run on flax 0.10.4, 0.11.2, 0.12.0, 0.12.4, 0.12.6 and 0.12.12. A project
    without a mesh is left alone: it may be a library whose users set the rules, or made for one device. So is a file
    that makes no mesh where nothing marks the project's root: files outside of its folder may set the rules.
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
        # Of files without a project around them, only what makes the mesh itself is no library.
        said = site.anywhere if site.program.project.marked else site.file.says
        if not any(map(said, _MESHES)):
            return
        yield site.finding(
            site.call,
            f"On {site.release('flax')} this shards nothing: only rules say which mesh axes logical names mean.",
            label="nothing in this program sets axis rules",
            help="call it under nn.logical_axis_rules([(name, mesh axis), ...]), or write rules=...",
        )

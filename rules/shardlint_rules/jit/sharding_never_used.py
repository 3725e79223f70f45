"""SL238."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.signatures import JITS
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit._crossed import crossed
from shardlint_rules.jit._meant_other import meant_other
from shardlint_rules.jit.repeated import is_test

# What makes the shardings or specs of a whole tree.
_OF_TREES = (
    "flax.nnx.get_named_sharding",
    "flax.nnx.get_partition_spec",
    "flax.linen.get_sharding",
    "flax.linen.get_partition_spec",
    "flax.linen.logical_to_mesh_sharding",
)


class ShardingNeverUsed(Rule):
    """A sharding is made and given a name, and nothing is placed with it.

    ## What it does
    Reports `batch_sharding = NamedSharding(mesh, P("data"))` in a function that never reads the name, and
    `self.batch_sharding = ...` of which no file of the project reads the attribute. Where a jit gives an argument
    another one of the same object, table or function (`in_shardings=(sh.scalar, sh.batch)` for `state`, and nothing
    reads `sh.state`), that is likely. So are shardings or specs of a whole tree that nothing reads
    (`shardings = nnx.get_named_sharding(state, mesh)`).

    ## Why it hurts
    Somebody meant to place something with it. What it was made for stays on one device, or whole on every device, and
    nothing is raised.

    ## Evidence
    The proof shows the batch on one device. Names with an underscore in front, and names that a nested function,
    `locals()` or `global` touches, count as read.
    """

    code = "SL238"
    name = "sharding-never-used"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("meant-other", "of-a-tree", "crossed")
    behind = ("SL503",)
    triggers = (Calls("jax.sharding.NamedSharding", *_OF_TREES), Calls(*JITS, file_says=("in_shardings",)))
    forms = ("call", "partial")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a name."""
        if is_test(site.file, site.syntax):
            return
        if site.api in JITS:
            yield from self._other(site)
            yield from self._crossed(site)
            return
        if site.form != "call":
            return
        result_use, name = site.result_use
        if result_use == "never read" and name is not None:
            form = "of-a-tree" if site.api in _OF_TREES else "local"
            yield self._finding(site, name, form, "no statement of the function reads it")
            return
        parent = site.file.parent(site.call)
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        if (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
        ):
            if _never_read(site, target.attr):
                yield self._finding(
                    site, f"self.{target.attr}", "attribute", "no file of the project reads it"
                )

    def _other(self, site: Site) -> Iterator[Finding]:
        """Arguments of a jit that get a sharding made for something else."""
        for one in meant_other(site):
            given = site.text(one.entry)
            yield site.finding(
                one.entry,
                f"`{one.parameter}` gets `{given}`, and nothing reads `{one.unread}`",
                f"All arrays of `{one.parameter}` are placed by `{given}`, whatever `{one.unread}` says.",
                help=f"write {one.unread}",
                form="meant-other",
                why=f"`{one.unread}` is called like the argument, and read nowhere",
            )

    def _crossed(self, site: Site) -> Iterator[Finding]:
        """The state and the batch that get each other's sharding."""
        found = crossed(site) if site.wants("crossed") else None
        if found is not None:
            state, data = (site.shown(one) for one in (found.state, found.data))
            yield site.finding(
                found.state,
                f"`{found.state_parameter}` gets `{state}`, and `{found.data_parameter}` gets `{data}`",
                f"The arrays of `{found.state_parameter}` are placed as the data should be, and "
                f"`{found.data_parameter}` as what is kept: it raises where the ranks do not fit, and else each device "
                "computes with all of the batch.",
                help=f"write in_shardings in the order of the arguments: {data} for `{found.state_parameter}`",
                form="crossed",
                why="both are called like the other argument",
            )

    def _finding(self, site: Site, name: str, form: str, why: str) -> Finding:
        return site.finding(
            site.call.func,
            f"`{name}` is never read",
            f"Nothing is placed with `{name}`: a sharding does nothing until it is given to jax.device_put, jit or a "
            "constraint.",
            help=f"place what it is for: jax.device_put(x, {name}), or leave it out",
            form=form,
            why=why,
        )


def _never_read(site: Site, name: str) -> bool:
    """Whether nothing in the project says the name of an attribute but this assignment."""
    said = 0
    for file in site.program.project.holding(site.file.path, (name,)):
        if file is None:
            return False
        said += len(re.findall(rf"\b{re.escape(name)}\b", file.source.text))
    return said <= 1

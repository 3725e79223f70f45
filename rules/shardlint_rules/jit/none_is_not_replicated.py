"""SL217."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import JITS, SHARDING_SETTINGS
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site


class NoneIsNotReplicated(Rule):
    """`None` among the shardings of a jit leaves the choice to the compiler; it does not replicate.

    ## What it does
    Reports `None` beside real shardings in `in_shardings` or `out_shardings`. You may mean it, so this is possible
    and not proven.

    ## Why it hurts
    In a PartitionSpec `None` says "not split". In the place of a sharding it says "whatever comes": an argument that
    was placed stays so, and for the rest, and for results, the compiler picks. What was meant to be whole on every
    device may come back split, or the other way round, and it changes with the program around it.

    ## Evidence
    Run on jax 0.4.38 to 0.12: the argument with `None` got `P("data")` from the other one,
    and a result with `None` took the sharding of what it was computed from.
    """

    code = "SL217"
    name = "none-is-not-replicated"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*JITS, file_says=SHARDING_SETTINGS),)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each tuple with a None beside a sharding."""
        for name in SHARDING_SETTINGS:
            node = site.argument(name) or getattr(site.keyword(name), "value", None)
            if not isinstance(node, ast.Tuple | ast.List):
                continue
            nones = [part for part in node.elts if isinstance(part, ast.Constant) and part.value is None]
            if nones and any(
                site.shardings.shards(site.value(part)) for part in node.elts if part not in nones
            ):
                what = "an argument stays where it is, or goes where the compiler puts it"
                yield site.finding(
                    nones[0],
                    f"None in {name} does not mean replicated",
                    f"On {site.release('jax')} this replicates nothing: "
                    f"{what if name == 'in_shardings' else 'the compiler picks a sharding for this result'}.",
                    help="to have it whole on every device, write NamedSharding(mesh, P())",
                )

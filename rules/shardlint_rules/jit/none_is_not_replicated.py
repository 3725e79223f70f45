"""SL217."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.signatures import JITS, SHARDING_SETTINGS
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name

_GATHERS = regex(r"(?i)(?:^|_)(?:gather|all_?gather|unshard|replicated?|fully_replicated?)(?:ed)?(?:_|$)")
_SPLITS = regex(r"(?i)(?:^|_)(?:scatter|shard(?:ed)?|and|or|not)(?:_|$)")
_READ_AS_WHOLE = ("addressable_data(0)", "addressable_shards[0].data")


class NoneIsNotReplicated(Rule):
    """`None` among the shardings of a jit leaves the choice to the compiler; it does not replicate.

    ## What it does
    Reports `None` beside real shardings in `in_shardings` or `out_shardings`. You may mean it, so this is possible
    and not proven. An `out_shardings=None` beside `in_shardings` that split is likely where a result of the program is
    read by `addressable_data(0)` or `addressable_shards[0]`, which is the whole only of what is replicated, and in a
    function, or for a name, that says it gathers or replicates.

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
    likely = ("read-as-whole", "gather")
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*JITS, file_says=SHARDING_SETTINGS),)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each tuple with a None beside a sharding."""
        for name in SHARDING_SETTINGS:
            node = site.argument(name) or getattr(site.keyword(name), "value", None)
            if name == "out_shardings" and isinstance(node, ast.Constant) and node.value is None:
                gathering = _gathering(site) if site.wants("gather") else None
                if gathering is not None:
                    yield self._gather(site, node, gathering)
                else:
                    yield from self._alone(site, node)
            if not isinstance(node, ast.Tuple | ast.List):
                continue
            nones = [part for part in node.elts if isinstance(part, ast.Constant) and part.value is None]
            if nones and any(
                site.shardings.shards(site.value(part)) for part in node.elts if part not in nones
            ):
                what = "an argument stays where it is, or goes where the compiler puts it"
                yield site.finding(
                    nones[0],
                    f"On {site.release('jax')} this replicates nothing: "
                    f"{what if name == 'in_shardings' else 'the compiler picks a sharding for this result'}.",
                    label=f"None in {name} does not mean replicated",
                    help="to have it whole on every device, write NamedSharding(mesh, P())",
                )

    def _gather(self, site: Site, node: ast.expr, name: str) -> Finding:
        """`out_shardings=None` in what is called a gather."""
        return site.finding(
            node,
            f"On {site.release('jax')} this gathers nothing: the result stays split as the argument is, and with "
            "several processes `jax.device_get` of it raises.",
            label="None in out_shardings does not mean replicated",
            help="to have it whole on every device, write NamedSharding(mesh, P())",
            form="gather",
            why=f"by its name `{name}` gathers",
        )

    def _alone(self, site: Site, node: ast.expr) -> Iterator[Finding]:
        """`out_shardings=None`, which says nothing, of a result that is read as if it were whole on every device."""
        given = site.argument("in_shardings") or getattr(site.keyword("in_shardings"), "value", None)
        if given is None or site.program.project.is_test(site.file.path):
            return
        parts = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
        if not any(site.shardings.shards(site.value(part)) for part in parts):
            return
        reading = next(iter(site.program.project.holding(site.file.path, _READ_AS_WHOLE)), None)
        if reading is None:
            return
        yield site.finding(
            node,
            f"On {site.release('jax')} this replicates nothing: the result is split as the compiler likes, and what is "
            "read of it is a part.",
            label="None in out_shardings does not mean replicated",
            help="to have it whole on every device, write NamedSharding(mesh, P())",
            form="read-as-whole",
            why=f"{reading.path.name} reads the first shard of an array",
        )


def _gathering(site: Site) -> str | None:
    """The name of a function around a jit that splits its argument, or of what it is bound to, that says it gathers."""
    given = site.argument("in_shardings") or getattr(site.keyword("in_shardings"), "value", None)
    if given is None or (isinstance(given, ast.Constant) and given.value is None) or site.form != "call":
        return None
    if site.program.project.is_test(site.file.path):
        return None
    for outer in site.file.ancestors(site.call):
        names: list[str] = []
        if isinstance(outer, ast.Assign):
            names = [last_name(one) for one in outer.targets if isinstance(one, ast.Name | ast.Attribute)]
        elif isinstance(outer, ast.FunctionDef):
            names = [outer.name]
        for name in names:
            if _GATHERS.search(name) and not _SPLITS.search(name):
                return name
        if isinstance(outer, ast.FunctionDef):
            return None
    return None

"""SL217."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.signatures import JITS
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name

_GATHERS = compile_lazily(r"(?i)(?:^|_)(?:gather|all_?gather|unshard|replicated?|fully_replicated?)(?:ed)?(?:_|$)")
_SPLITS = compile_lazily(r"(?i)(?:^|_)(?:scatter|shard(?:ed)?|and|or|not)(?:_|$)")


class NoneIsNotReplicated(Rule):
    """`out_shardings=None` does not replicate the result: the compiler chooses its sharding.

    Usually the result keeps the sharding of the argument. With several processes `jax.device_get` of such a result
    raises. Only inside a PartitionSpec does `None` mean that a dimension is not sharded.

    ## Reports
    - `gather` (likely): a jit with `in_shardings` and `out_shardings=None`, if the name of the jit or of the enclosing
      function contains gather or replicate.

    ## Write instead
        Write `out_shardings=NamedSharding(mesh, P())`.
    """

    code = "SL217"
    name = "none-is-not-replicated"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("gather",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(*JITS, file_says=("out_shardings",)),)

    @detector("call", finds="gather")
    def report_gathering(self, site: Site) -> Finding | None:
        """An `out_shardings=None` in a function that says it gathers."""
        node = site.argument("out_shardings") or getattr(site.keyword("out_shardings"), "value", None)
        if not isinstance(node, ast.Constant) or node.value is not None:
            return None
        name = _gathering_name(site)
        if name is None:
            return None
        return site.finding(
            node,
            f"`{name}` gathers nothing: with `out_shardings=None` the result stays sharded like its argument.",
            why=f"the name `{name}` suggests a gather; with several processes jax.device_get of the result raises",
            help="write `out_shardings=NamedSharding(mesh, P())`",
        )


def _gathering_name(site: Site) -> str | None:
    """The name of the function around a jit with sharded input, or of its variable, if it says that it gathers."""
    given = site.argument("in_shardings") or getattr(site.keyword("in_shardings"), "value", None)
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
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

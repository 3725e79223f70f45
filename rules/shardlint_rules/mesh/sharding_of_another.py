"""SL329."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.rule import Certainty, Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.mesh._constraining import CONSTRAINING, constraining

# Variables of another rank than the weight they go with.
_SMALL = re.compile(r"(?:^|_)(?:scales?|bias(?:es)?|zero_points?|zps?|zeros)$")
_WEIGHT = re.compile(r"(?:^|_)(?:q?values?|q?weights?|kernels?|w|qvalue|embedding)$")
# What holds the array of a variable.
_HOLDING = ("value", "data", "array", "raw_value")
_STEPS = 6


class ShardingOfAnother(Rule):
    """A variable is placed with the sharding of the weight beside it.

    ## What it does
    Reports `layer.scale.value = device_put(x, layer.weight.sharding)`: what a scale, zero point or bias holds gets
    the sharding of the weight with the same owner, or the weight that of its scale.

    ## Why it hurts
    The two have other numbers of dimensions. A spec with too many entries raises `ValueError`; one that fits splits
    another dimension than the variable's own sharding says, and the step that was compiled for that one moves it.

    ## Evidence
    The proof shows the scale split where its own sharding is whole. Read off names: of some 120 places in public code
    where an array is put with another one's sharding, those looked at are right (gradients with the sharding of their
    parameters, a batch with that of its twin), so only these pairs are spoken of.
    """

    code = "SL329"
    name = "sharding-of-another-variable"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("scale",)
    wakes = (CONSTRAINING,)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a statement."""
        found = constraining(site)
        if found is None or not isinstance(site.syntax, ast.Assign):
            return
        _, _, sharding = found
        reads = isinstance(sharding, ast.Attribute) and sharding.attr == "sharding"
        source = _path(sharding.value) if isinstance(sharding, ast.Attribute) and reads else ()
        target = _path(site.syntax.targets[0])
        if len(source) != len(target) or not source or source[:-1] != target[:-1]:
            return
        own, others = target[-1], source[-1]
        small, large = (own, others) if _SMALL.search(own.lower()) else (others, own)
        if not _SMALL.search(small.lower()) or not _WEIGHT.search(large.lower()):
            return
        yield site.finding(
            sharding,
            f"the sharding of `{others}`, for `{own}`",
            f"`{own}` is placed as `{others}` is, which has other dimensions: it raises ValueError where the spec is "
            "too long, and else splits another dimension.",
            help=f"write {site.text(sharding).replace(others, own)}",
            certainty=Certainty.POSSIBLE,
            form="scale",
            why=f"`{own}` and `{others}` have the same owner, and by their names other dimensions",
        )


def _path(node: ast.expr) -> tuple[str, ...]:
    """The steps to a variable, without what holds its array: `layer.scale.value` is layer, scale."""
    steps: list[str] = []
    while len(steps) < _STEPS:
        match node:
            case ast.Attribute(value=inner, attr=name):
                steps += [] if name in _HOLDING and not steps else [name]
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() as name)):
                steps.append(name)
                node = inner
            case ast.Name(id=name):
                return tuple(reversed([*steps, name]))
            case _:
                break
    return ()

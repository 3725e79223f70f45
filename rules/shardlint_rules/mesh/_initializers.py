"""Axis names that an initializer of a flax layer is annotated with, and the dimensions of what it makes."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, CallResult, Constant, Items, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

KEYWORDS = ("bias_init", "kernel_init", "scale_init", "embedding_init")
_ANNOTATING = {
    "flax.linen.with_partitioning": "names",
    "flax.linen.with_logical_partitioning": "names",
}
# Layers of linen whose parameters have so many dimensions, whatever else they are given.
_DIMENSIONS = {
    ("Dense", "kernel_init"): 2,
    ("Embed", "embedding_init"): 2,
    **{(name, "bias_init"): 1 for name in ("Dense", "Conv", "LayerNorm", "GroupNorm", "BatchNorm")},
    **{(name, "scale_init"): 1 for name in ("LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm")},
}


@dataclass(frozen=True)
class TooMany:
    """An initializer with more names than the parameter has dimensions."""

    node: ast.expr
    parameter: str
    names: int
    dimensions: int


def too_many(site: Site, call: ast.Call) -> TooMany | None:
    """The first such initializer among the keywords of a call."""
    layers = options(site.value(call.func))
    for keyword in call.keywords:
        if keyword.arg not in KEYWORDS:
            continue
        known = [
            _DIMENSIONS.get((one.name.removeprefix("flax.linen."), keyword.arg)) if isinstance(one, Api) else None
            for one in layers
        ]
        given = _names(site, keyword.value)
        if given is None or None in known or len(set(known)) != 1 or known[0] is None:
            continue
        if given > known[0]:
            return TooMany(keyword.value, keyword.arg.removesuffix("_init"), given, known[0])
    return None


def _names(site: Site, node: ast.expr) -> int | None:
    """How many names an initializer is annotated with, as far as that is told."""
    found = set()
    for one in options(site.value(node)):
        if not isinstance(one, CallResult) or one.call is None or one.api not in _ANNOTATING:
            return None
        place = one.call.get(_ANNOTATING[one.api], ("fn", "names"))
        value = site.program.evaluator.value(place, one.call.environment) if place is not None else None
        if not isinstance(value, Items) or value.open or value.kind != "tuple":
            return None
        if not all(isinstance(item, Constant | Items) for item in value.items):
            return None
        found.add(len(value.items))
    return found.pop() if len(found) == 1 else None

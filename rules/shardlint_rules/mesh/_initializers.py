"""Axis names that an initializer of flax is annotated with, and the dimensions of what it makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import find_binding_reads
from shardlint.model.values import Constant, Items, Place, Value, accept_assumed
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

ANNOTATING = {
    "flax.linen.with_partitioning": ("fn", "names"),
    "flax.linen.with_logical_partitioning": ("fn", "names"),
    "flax.nnx.with_partitioning": ("initializer", "sharding"),
}
"""What annotates an initializer with names, and what its parameters are called: the last one takes the names."""


@dataclass(frozen=True)
class TooMany:
    """An initializer with more names than the parameter has dimensions."""

    node: ast.AST
    names: int
    dimensions: int


def find_too_many_names(site: Site) -> TooMany | None:
    """An array that an initializer makes of a shape with fewer dimensions than it is annotated with names."""
    signature = ANNOTATING[site.api]
    place = site.arguments.argument_for(signature[-1], signature)
    names = _count_names(site, site.program.value(place.file, place.node)) if place is not None else None
    if place is None or names is None:
        return None
    for shape in _initializer_shapes(site):
        made = accept_assumed(site.program.value(shape.file, shape.node))
        if isinstance(made, Items) and not made.open and len(made.items) < names:
            node = place.node if place.file is site.file else site.call
            return TooMany(node, names, len(made.items))
    return None


def _initializer_shapes(site: Site) -> Iterator[Place]:
    """The shapes that the initializer made here is called with, or that are given with it to linen's `self.param`."""
    for given in (site.call, *_reads_of_result(site, site.call)):
        parent = site.file.parent(given)
        match parent:
            case ast.Call(func=ast.Attribute(attr="param"), args=[_, second, shape, *_]) if second is given:
                yield Place(site.file, shape)
            case ast.Call(func=func, args=[_, shape, *_]) if func is given:
                yield Place(site.file, shape)
            case ast.Call(func=func, args=[_], keywords=keywords) if func is given:
                yield from (Place(site.file, one.value) for one in keywords if one.arg == "shape")


def _reads_of_result(site: Site, call: ast.Call) -> Iterator[ast.expr]:
    """Where a name is read that surely is what a call gives."""
    match site.file.parent(call):
        case ast.Assign(targets=[ast.Name() as target]):
            yield from (use for use, alone in find_binding_reads(site.file, target) if alone)


def _count_names(site: Site, value: Value) -> int | None:
    """How many names a tuple or a spec says."""
    value = accept_assumed(value)
    if isinstance(value, Items):
        told = not value.open and value.kind == "tuple"
        return len(value.items) if told and all(isinstance(one, Constant | Items) for one in value.items) else None
    spec = site.spec_of(value)
    return len(spec.entries) if spec is not None and not spec.open else None

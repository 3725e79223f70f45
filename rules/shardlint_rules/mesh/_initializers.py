"""Axis names that an initializer of a flax layer is annotated with, and the dimensions of what it makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import readers
from shardlint.model.shapes import shape_of
from shardlint.model.values import Api, CallResult, Constant, Items, Place, Value, options, settled
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass

KEYWORDS = ("bias_init", "kernel_init", "scale_init", "embedding_init")
ANNOTATING = {
    "flax.linen.with_partitioning": ("fn", "names"),
    "flax.linen.with_logical_partitioning": ("fn", "names"),
    "flax.nnx.with_partitioning": ("initializer", "sharding"),
}
"""What annotates an initializer with names, and what its parameters are called: the last one takes the names."""
VARIABLES = tuple(f"flax.nnx.{name}" for name in ("Param", "Variable", "BatchStat", "Cache"))
_NAMING = ("sharding", "sharding_names", "out_sharding")
# Layers whose parameters have so many dimensions, whatever else they are given.
_DIMENSIONS = {
    ("linen.Dense", "kernel_init"): 2,
    ("nnx.Linear", "kernel_init"): 2,
    **{(f"{library}.Embed", "embedding_init"): 2 for library in ("linen", "nnx")},
    **{
        (f"{library}.{name}", "bias_init"): 1
        for library in ("linen", "nnx")
        for name in ("Dense", "Linear", "Conv", "LayerNorm", "GroupNorm", "BatchNorm")
    },
    **{
        (f"{library}.{name}", "scale_init"): 1
        for library in ("linen", "nnx")
        for name in ("LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm")
    },
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
            _DIMENSIONS.get((one.name.removeprefix("flax."), keyword.arg)) if isinstance(one, Api) else None
            for one in layers
        ]
        given = _names(site, keyword.value)
        if given is None or None in known or len(set(known)) != 1 or known[0] is None:
            continue
        if given > known[0]:
            return TooMany(keyword.value, keyword.arg.removesuffix("_init"), given, known[0])
    return None


def made_too_short(site: Site) -> TooMany | None:
    """An array that an initializer makes here of a shape with fewer dimensions than it is annotated with names."""
    signature = ANNOTATING[site.api]
    place = site.arguments.get(signature[-1], signature)
    names = _counted(site, site.program.value(place.file, place.node)) if place is not None else None
    if place is None or not isinstance(place.node, ast.expr) or names is None:
        return None
    for shape in _shapes(site):
        made = settled(site.program.value(shape.file, shape.node))
        if isinstance(made, Items) and not made.open and len(made.items) < names:
            node = place.node if place.file is site.file else site.call
            return TooMany(node, "parameter", names, len(made.items))
    return None


def is_told(site: Site, func: ast.expr) -> bool:
    """Whether the text of a call, by its function, tells of too many names by itself."""
    call = site.file.parent(func)
    if not isinstance(call, ast.Call) or call.func is not func:
        return False
    made = any(isinstance(one, Api) and one.name in VARIABLES for one in options(site.value(func)))
    return too_many(site, call) is not None or (made and variable_too_short(site, call) is not None)


def variable_too_short(site: Site, call: ast.Call) -> TooMany | None:
    """An array that a variable of nnx is given, with fewer dimensions than the names beside it.

    Not where it says more than these: that they are not applied yet, as a transform adds to the array, or which name is
    that of the stack. And not in tests, which make what never is.
    """
    given = {one.arg: one for one in call.keywords}
    names = next((given[one] for one in _NAMING if one in given), None)
    if names is None or not call.args or len(given) > 1 or site.program.project.is_test(site.file.path):
        return None
    count = _counted(site, site.value(names.value))
    shape = shape_of(site.program.evaluator, Place(site.file, call.args[0]))
    if count is None or shape is None or count <= len(shape):
        return None
    return TooMany(names.value, "variable", count, len(shape))


def _shapes(site: Site) -> Iterator[Place]:
    """The shapes that the initializer made here is called with, or that are given with it to linen's `self.param`."""
    for given in (site.call, *_read(site, site.call)):
        parent = site.file.parent(given)
        match parent:
            case ast.Call(func=ast.Attribute(attr="param"), args=[_, second, shape, *_]) if second is given:
                yield Place(site.file, shape)
            case ast.Call(func=func, args=[_, shape, *_]) if func is given:
                yield Place(site.file, shape)
            case ast.Call(func=func, args=[_], keywords=keywords) if func is given:
                yield from (Place(site.file, one.value) for one in keywords if one.arg == "shape")


def _read(site: Site, call: ast.Call) -> Iterator[ast.expr]:
    """Where a name is read that surely is what a call gives."""
    match site.file.parent(call):
        case ast.Assign(targets=[ast.Name() as target]):
            yield from (use for use, alone in readers(site.file, target) if alone)


def _names(site: Site, node: ast.expr) -> int | None:
    """How many names an initializer is annotated with, as far as that is told."""
    found = set()
    for one in options(site.value(node)):
        if not isinstance(one, CallResult) or one.call is None or one.api not in ANNOTATING:
            return None
        signature = ANNOTATING[one.api]
        place = one.call.get(signature[-1], signature)
        value = site.program.evaluator.value(place, one.call.environment) if place is not None else None
        found.add(_counted(site, value) if value is not None else None)
    return found.pop() if len(found) == 1 else None


def _counted(site: Site, value: Value) -> int | None:
    """How many names a tuple or a spec says."""
    value = settled(value)
    if isinstance(value, Items):
        told = not value.open and value.kind == "tuple"
        return len(value.items) if told and all(isinstance(one, Constant | Items) for one in value.items) else None
    spec = site.spec_of(value)
    return len(spec.entries) if spec is not None and not spec.open else None

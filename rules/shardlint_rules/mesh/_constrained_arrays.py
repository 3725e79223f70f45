"""Shapes of the arrays that meet a spec: for SL318."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.shapes import Shape
from shardlint.model.values import Place
from shardlint.rules_api.site import Site

_PLACING = (
    "jax.device_put",
    "jax.lax.with_sharding_constraint",
    "jax.reshard",
    "equinox.filter_shard",
)
_SPECS = "in_specs"


def shapes_under_spec(site: Site) -> Iterator[Shape]:
    """The known shapes of arrays that are placed by the site's spec, or mapped over by it."""
    spec: ast.expr = site.call
    around = site.file.parent(spec)
    if isinstance(around, ast.Call) and site.is_call_of(around, "jax.sharding.NamedSharding"):
        spec = around
    for array in _constrained_arrays(site, spec):
        shape = site.shape_of(array)
        if shape is not None:
            yield shape


def _constrained_arrays(site: Site, spec: ast.expr) -> Iterator[Place]:
    file, uses = site.file, [spec]
    assigned = file.parent(spec)
    if isinstance(assigned, ast.Assign) and isinstance(target := assigned.targets[0], ast.Name):
        uses = [
            use
            for use in file.mentions_in(file.evaluation_scope(spec), target.id)
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load)
        ]
    for use in uses:
        position, outer = 0, file.parent(use)
        if isinstance(outer, ast.Call) and site.is_call_of(outer, "jax.sharding.NamedSharding"):
            use, outer = outer, file.parent(outer)
        if isinstance(outer, ast.Tuple | ast.List):
            position, outer = outer.elts.index(use), file.parent(outer)
        if (
            isinstance(outer, ast.Call)
            and outer.args
            and use in outer.args[1:]
            and site.is_call_of(outer, *_PLACING)
        ):
            yield Place(file, outer.args[0])
        mapped = file.parent(outer) if isinstance(outer, ast.keyword) else None
        if isinstance(outer, ast.keyword) and outer.arg == _SPECS and isinstance(mapped, ast.Call):
            for end in site.program.flow.calls(Place(file, mapped)).found:
                arguments = site.program.evaluator.read_arguments(end.place) if end.kind == "called" else None
                if arguments is not None and position < len(arguments.positional):
                    yield arguments.positional[position]

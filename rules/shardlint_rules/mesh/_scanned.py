"""Arrays that `scan` goes over and whose first dimension is split. For SL348."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shardlint.model.mesh.meshes import leaves
from shardlint.model.values import CallResult, Place
from shardlint.rules_api.site import Site

# Placements: what jit gives by its out_shardings may be put otherwise before the loop.
_PUT = ("jax.lax.with_sharding_constraint", "jax.device_put", "equinox.filter_shard", "jax.reshard")
SCANS = {"jax.lax.scan": ("f", "init", "xs"), "jax.lax.map": ("f", "xs")}
"""What takes one entry of the first dimension of `xs` in each turn, and its parameters."""


class Split(NamedTuple):
    """The placement that splits the first dimension of what a scan goes over, and by which axes."""

    place: Place
    axes: tuple[str, ...]


def split_over_turns(site: Site) -> Iterator[Split]:
    """The placements of what a scan takes an entry of in each turn, of which the first dimension is split."""
    given = site.arguments.get("xs", SCANS[site.api])
    if given is None or site.arguments.open_positional:
        return
    seen: set[Place] = set()
    for value in leaves(site.program.evaluator.trees.expanded(site.program.value(given.file, given.node))):
        if not isinstance(value, CallResult) or value.api not in _PUT or value.call is None:
            continue
        shardings = leaves(site.program.evaluator.trees.expanded(site.shardings.target(value)))
        named = [site.shardings.named(one) for one in shardings]
        firsts = [one[1].entries[0] for one in named if one is not None and one[1].entries]
        if not named or len(firsts) < len(named) or not all(one.known and one.axes for one in firsts):
            continue
        meshes = [one[0] for one in named if one is not None]
        sizes = [dict(zip(mesh.axis_names or (), mesh.sizes, strict=False)) for mesh in meshes if mesh is not None]
        if any(size.get(axis) == 1 for size in sizes for axis in firsts[0].axes):
            continue
        if value.call.place not in seen:
            seen.add(value.call.place)
            yield Split(value.call.place, firsts[0].axes)

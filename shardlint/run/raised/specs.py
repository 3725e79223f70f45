"""Specs that do not fit their arrays or their mesh."""

from __future__ import annotations

import difflib
import re

from shardlint.run.raised import structure
from shardlint.run.raised.explanation import Explanation, callee, some
from shardlint.run.raised.kinds import Recognised
from shardlint.source.patterns import regex

_RANK = regex(r"rank at least (\d+), but was applied to a value of rank (\d+)")
_PATH = regex(r"pytree key path (\S+) ")


def rank(found: Recognised) -> Explanation | None:
    """A spec with more entries than its array has dimensions."""
    said, call = _RANK.search(found.error.message), found.error.call
    spec = re.search(r"spec=(?:P|PartitionSpec)(\(.*?\)), memory", found.error.message)
    if said is None or spec is None:
        return structure.too_long(found.error.message)
    entries, rank = int(said[1]), int(said[2])
    path = _PATH.search(found.error.message)
    leaves = [
        leaf
        for leaf in (call.leaves if call is not None else [])
        if leaf.shape is not None
        and len(leaf.shape) == rank
        and (path is None or path[1] in (leaf.where, leaf.parameter))
    ]
    named = path[1] if path is not None and not path[1].startswith("flat_args") else ""
    what = "an array" if not named else f"`{named}`"
    dimensions = "no dimension" if rank == 0 else f"{rank} dimension{'s' if rank > 1 else ''}"
    spoken = leaves[0].text() if len(leaves) == 1 else what
    return Explanation(
        f"P{spec[1]} has {entries} entries or more, but {spoken} has {dimensions}",
        some([leaf.text() for leaf in leaves]) if len(leaves) > 1 else (),
        "write P() for a scalar" if rank == 0 else f"write a spec of at most {rank}",
        live=bool(leaves),
    )


_DIVIDE = (
    re.compile(
        r"array axis (?P<axis>\d+) is partitioned (?P<by>\d+) times, but the dimension size is (?P<size>\d+)"
    ),
    re.compile(
        r"global size of its dimension (?P<axis>\d+) should be divisible by (?P<by>\d+), but it is equal to "
        r"(?P<size>\d+)"
    ),
)


def indivisible(found: Recognised) -> Explanation | None:
    """A dimension that its devices cannot share."""
    message, call = found.error.message, found.error.call
    said = next((match for pattern in _DIVIDE if (match := pattern.search(message))), None)
    if said is None:
        return structure.uneven(message)
    axis, by, size = int(said["axis"]), int(said["by"]), int(said["size"])
    shape = re.search(r"full shape: \(([\d, ]*)\)", message)
    full = tuple(int(one) for one in shape[1].split(",") if one.strip()) if shape else None
    leaves = [
        leaf
        for leaf in (call.leaves if call is not None else [])
        if leaf.shape == full
        or (full is None and leaf.shape and axis < len(leaf.shape) and leaf.shape[axis] == size)
    ]
    path = _PATH.search(message)
    named = f"`{path[1]}`" if path is not None and not path[1].startswith("flat_args") else "an array"
    what = leaves[0].text() if len(leaves) == 1 else named
    spec = re.search(r"spec=(?:P|PartitionSpec)(\(.*?\)), memory", message)
    by_spec = f" as P{spec[1]}" if spec else ""
    return Explanation(
        f"dimension {axis} of {what} has size {size}, which is not divisible by {by} devices{by_spec}",
        help=f"make it {size + -size % by}, or shard another dimension",
        live=len(leaves) == 1,
    )


def unbound(found: Recognised) -> Explanation | None:
    """An axis that nothing binds."""
    name = found.words[0] if found.words else ""
    at, call = found.error.at, found.error.call
    if not name or at is None:
        return None
    through = f"{callee(call)} in {at.function}" if call is not None and call.callee else f"`{at.function}`"
    return Explanation(
        f"no axis {name!r} is bound when {through} is traced",
        help=f"call it under jax.shard_map over a mesh with the axis {name!r}, or jax.vmap(..., axis_name={name!r})",
    )


def not_in_mesh(found: Recognised) -> Explanation | None:
    """An axis that the mesh does not have, and one it has."""
    said = re.search(r"not found in mesh: \(([^)]*)\)", found.error.message)
    if said is None or not found.words:
        return None
    axes = re.findall(r"'([^']*)'", said[1])
    near = difflib.get_close_matches(found.words[0], axes, n=1)
    return Explanation(
        f"the mesh has no axis {found.words[0]!r}: its axes are {', '.join(map(repr, axes)) or 'none'}",
        help=f"did you mean {near[0]!r}?" if near else "",
    )


def duplicate(found: Recognised) -> Explanation | None:
    """An axis for two dimensions."""
    said = re.search(
        r"but (?:P|PartitionSpec)(\(.*\)) has duplicate entries for `(.*?)`", found.error.message
    )
    if said is None:
        return None
    return Explanation(
        f"P{said[1]} uses the axis {said[2]!r} for more than one dimension",
        help=f"use {said[2]!r} for one dimension, and None for the others",
    )


def no_mesh(found: Recognised) -> Explanation | None:
    """A spec without a mesh."""
    return Explanation(
        "no mesh is in context, and a PartitionSpec names none",
        help="run it under `with jax.set_mesh(mesh):`, or pass NamedSharding(mesh, spec)",
    )


def explicit(found: Recognised) -> Explanation | None:
    """Return the explanation of an error about explicit axes."""
    message, call = found.error.message, found.error.call
    if "can only refer to" in message or "acts as an assert" in message:
        return Explanation(
            "the axes of this mesh are Explicit, and a constraint does not apply to them",
            help=(
                "use jax.sharding.reshard(x, spec); or make the mesh with axis_types=(AxisType.Auto,) * "
                "len(axes)"
            ),
        )
    if "dimension of all xs" in message:
        return Explanation(
            "the first dimension of an array is sharded over Explicit axes, and scan cannot iterate over it",
            help="write P(None, ...): leave the first dimension unsharded, and shard another",
        )
    leaves = [leaf for leaf in (call.leaves if call is not None else []) if "@" in leaf.short or leaf.spec]
    if "ShardingTypeError" not in found.error.said or not leaves:
        return None
    return Explanation(
        f"the sharding of the result of {callee(call)} is ambiguous for these arguments",
        some([leaf.text() if leaf.short else f"{leaf.text()} {leaf.spec}" for leaf in leaves]),
        "pass out_sharding=P(...), or reshard one argument first with jax.sharding.reshard",
        live=True,
    )


_RENAMED = {
    "in_axis_resources": "in_shardings",
    "out_axis_resources": "out_shardings",
    "check_rep": "check_vma",
    "auto": "axis_names",
    "in_axis": "in_axes",
    "out_axis": "out_axes",
}


def keyword(found: Recognised) -> Explanation | None:
    """A keyword that a function of the libraries does not take, and the nearest it takes."""
    call = found.error.call
    if (
        call is None
        or not found.words
        or call.module.partition(".")[0] not in ("jax", "equinox", "flax", "haliax")
    ):
        return None
    word = found.words[0]
    near = difflib.get_close_matches(word, call.parameters, n=1)
    instead = _RENAMED[word] if _RENAMED.get(word) in call.parameters else near[0] if near else ""
    if word in call.parameters or not instead:
        return None
    return Explanation(f"{callee(call)} has no {word} on this release", help=f"write {instead}=")

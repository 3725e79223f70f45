"""Specs that do not fit their arrays or their mesh."""

from __future__ import annotations

import difflib
import re

from shardlint.run.raised import structure
from shardlint.run.raised.explanation import Explanation, callee, some
from shardlint.run.raised.kinds import Recognised
from shardlint.source.patterns import regex

_RANK = regex(
    r"rank at least (\d+), but was applied to a value of rank (\d+)|Length of sharding.spec \((\d+)\).*ndim \((\d+)\)"
)
_PATH = regex(r"pytree key path (\S+) ")


def rank(found: Recognised) -> Explanation | None:
    """A spec with more entries than its array has dimensions."""
    said, call = _RANK.search(found.error.message), found.error.call
    spec = re.search(r"spec=(?:P|PartitionSpec)(\(.*?\))(?:, memory|\)$)", found.error.message)
    if said is None or spec is None:
        return structure.too_long(found.error.message)
    entries, rank = int(said[1] or said[3]), int(said[2] or said[4])
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
    re.compile(r"array axis (?P<axis>\d+) is partitioned (?P<by>\d+) times, .*divide the dimension size (?P<size>\d+)"),
    re.compile(r"scatter dimension size (?P<size>\d+) must (?:be divisible by shard_count|match shard count) (?P<by>\d+)"),
    re.compile(r"all_to_all split_axis \((?P<size>\d+)\) .*named axis \S+ \((?P<by>\d+)\)"),
    re.compile(r"dim_size=(?P<size>\d+) is not divisible by axis_size=(?P<by>\d+)"),
)


def indivisible(found: Recognised) -> Explanation | None:
    """A dimension that its devices cannot share."""
    message, call = found.error.message, found.error.call
    said = next((match for pattern in _DIVIDE if (match := pattern.search(message))), None)
    if said is None:
        return structure.uneven(message)
    by, size = int(said["by"]), int(said["size"])
    shapes = [leaf.shape for leaf in (call.leaves if call is not None else []) if leaf.shape and size in leaf.shape]
    axis = int(said["axis"]) if "axis" in said.groupdict() else shapes[0].index(size) if shapes else 0
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


_ROWS = regex(r"into shape \((\d+),")


def rows_per_device(found: Recognised) -> Explanation | None:
    """Rows that are split for the devices, and that they do not divide."""
    error = found.error
    rows, call = _ROWS.search(error.message), error.call
    if rows is None or call is None or int(rows[1]) != error.devices or error.devices < 2:
        return None
    splits = any(file.endswith(("common_utils.py", "jax_utils.py")) for file, _, _ in error.inside)
    leaves = [*call.leaves, *(leaf for one in call.objects for leaf in one.leaves)]
    uneven = [leaf for leaf in leaves if leaf.shape and leaf.shape[0] % error.devices]
    if not uneven or not (splits or "device" in " ".join([call.callee, *(one.text for one in call.arguments)])):
        return None
    size = uneven[0].shape[0] if uneven[0].shape else 0
    return Explanation(
        f"dimension 0 of {uneven[0].text()} has size {size}, which is not divisible by {error.devices} devices",
        help=f"pad it to {size + -size % error.devices} rows, or leave out the rows of the last batch",
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

"""Specs that do not fit their arrays: more entries than dimensions, or sizes that the mesh axes do not divide."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shardlint.run.raised.explanation import Explanation
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import Call, Leaf


def find_misfit(error: RecognisedError) -> Explanation | None:
    """Return the first argument of the failing call that the spec for it does not fit."""
    call = error.error.failing_call
    for array, layout in _array_spec_pairs(call) if call is not None else ():
        shape, entries = array.shape or (), layout.entries
        spec = layout.spec.replace("PartitionSpec", "P")
        if len(entries) > len(shape):
            dimensions = (
                "no dimension" if not shape else f"{len(shape)} dimension{'s' if len(shape) > 1 else ''}"
            )
            return Explanation(
                f"{spec} has {len(entries)} entries, but {array.describe_leaf()} has {dimensions}",
                help="write P() for a scalar" if not shape else f"write a spec of at most {len(shape)} entries",
                live=True,
            )
        for at, (size, axes) in enumerate(zip(shape, entries, strict=False)):
            by = math.prod(layout.mesh.get(axis, 1) for axis in axes)
            if size % by:
                return Explanation(
                    f"dimension {at} of {array.describe_leaf()} has size {size}, which is not divisible by "
                    f"{by}, the shards of"
                    f" {spec}",
                    help=f"make the size {size + -size % by}, or shard another dimension",
                    live=True,
                )
    return None


def _array_spec_pairs(call: Call) -> Iterator[tuple[Leaf, Leaf]]:
    """Each array with each spec that may be for it, those first that jax looked at."""
    mesh = next((leaf for one in call.settings for leaf in one.others if leaf.mesh and not leaf.spec), None)
    named = [
        (leaf, one.text) for one in (*call.settings, *call.arguments) for leaf in one.others if leaf.spec
    ]
    pairs = []
    for at, given in enumerate(call.arguments):
        for array in given.leaves:
            path = array.where.removeprefix(given.text)
            for layout, name in named:
                its = layout.where.removeprefix(name)
                if name.startswith("out_"):
                    continue
                expected = (f"[{at}]{path}", path) if name.startswith("in_") else (path,)
                if any(one.startswith(its) for one in expected) or not its:
                    pairs.append((array, layout if layout.mesh or mesh is None else layout.with_mesh_of(mesh)))
    yield from sorted(pairs, key=lambda pair: -(pair[0].looked_at + pair[1].looked_at))

"""Arrays on other devices, or placed otherwise, than a call can take."""

from __future__ import annotations

import math
import re

from shardlint.run.raised.explanation import Explanation, callee_text, describe_placement
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import Leaf
from shardlint.source.patterns import compile_lazily


def explain_incompatible_devices(error: RecognisedError) -> Explanation | None:
    """Arrays that were put on different devices: those on their own devices only by default are no part of it."""
    call = error.error.failing_call
    placed = [leaf for leaf in call.argument_arrays if leaf.devices and leaf.committed] if call is not None else []
    groups: dict[tuple[int, ...], list[Leaf]] = {}
    for leaf in placed:
        groups.setdefault(leaf.devices, []).append(leaf)
    if call is None or len(groups) < 2:
        return _explain_context_mismatch(error)
    main = max(
        groups.values(), key=lambda leaves: (len(leaves[0].devices), sum(leaf.element_count for leaf in leaves))
    )
    others = [leaf for leaves in groups.values() if leaves is not main for leaf in leaves]
    arrays = [describe_placement(leaf) for leaf in others[:3]] + [describe_placement(main[0])]
    if len(main) > 1:
        arrays[-1] += f" (and {len(main) - 1} more)"
    if set(others[0].devices) == set(main[0].devices):
        return Explanation(
            f"{callee_text(call)} gets arrays on meshes with different device orders",
            tuple(arrays),
            "make the mesh once, and place all arrays on it",
            live=True,
        )
    name = re.split(r"[\[.]", others[0].where)[0]
    if any(re.split(r"[\[.]", leaf.where)[0] == name for leaf in main):
        name = others[0].where
    mesh = bool(main[0].mesh)
    return Explanation(
        f"{callee_text(call)} gets arrays on different devices",
        tuple(arrays),
        f"write jax.device_put({name}, NamedSharding(mesh, P())) before the call, with the mesh of the other arguments"
        if mesh
        else f"write jax.device_put({name}, {main[0].where}.sharding) before the call",
        live=True,
    )


def _explain_context_mismatch(error: RecognisedError) -> Explanation | None:
    """Arrays on other devices than the mesh in context, or than the shardings that the function was made with."""
    call, context = error.error.failing_call, error.error.context
    placed = [leaf for leaf in call.argument_arrays if leaf.devices and leaf.committed] if call is not None else []
    if call is None or not placed:
        return None
    where = (
        f"the mesh in context has {math.prod(context.mesh.values())}"
        if context and context.mesh
        else "others"
    )
    return Explanation(
        f"{callee_text(call)} runs on other devices than those that hold {placed[0].where}"
        + (f": {where} devices" if where != "others" else ""),
        help=f"write jax.device_put({placed[0].where}, NamedSharding(mesh, P())) before the call",
        live=True,
    )


def explain_mesh_shape(error: RecognisedError) -> Explanation | None:
    """Devices laid out as a mesh of another size."""
    said = re.search(r"cannot reshape array of size (\d+) into shape \(([\d, ]+)\)", error.error.message)
    at = error.error.user_frame
    if said is None or at is None or at.call is None or not at.call.callee.endswith("reshape"):
        return None
    if "device" not in at.call.callee and not any("device" in one.text for one in at.call.arguments):
        return None
    sizes = [int(one) for one in said[2].split(",") if one.strip()]
    product = math.prod(sizes)
    return Explanation(
        f"a mesh of {' x '.join(map(str, sizes))} needs {product} devices, and there are {said[1]}",
        help="compute one of the sizes from len(jax.devices())",
    )


_ROWS = compile_lazily(r"into shape \((\d+),")


def rows_per_device(found: RecognisedError) -> Explanation | None:
    """Rows that are split for the devices, and that they do not divide."""
    error = found.error
    rows, call = _ROWS.search(error.message), error.failing_call
    if rows is None or call is None or int(rows[1]) != error.devices or error.devices < 2:
        return None
    splits = any(file.endswith(("common_utils.py", "jax_utils.py")) for file, _, _ in error.inside)
    leaves = [*call.argument_arrays, *(leaf for one in call.objects for leaf in one.leaves)]
    uneven = [leaf for leaf in leaves if leaf.shape and leaf.shape[0] % error.devices]
    if not uneven or not (
        splits or "device" in " ".join([call.callee, *(one.text for one in call.arguments)])
    ):
        return None
    size = uneven[0].shape[0] if uneven[0].shape else 0
    return Explanation(
        f"dimension 0 of {uneven[0].describe_leaf()} has size {size}, which is not divisible by {error.devices} "
        f"devices",
        help=f"pad it to {size + -size % error.devices} rows, or leave out the rows of the last batch",
        live=True,
    )

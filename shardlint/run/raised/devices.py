"""Arrays on other devices, or placed otherwise, than a call can take."""

from __future__ import annotations

import math
import re

from shardlint.run.raised.explanation import Explanation, callee, lies
from shardlint.run.raised.kinds import Recognised
from shardlint.run.raised.record import Leaf


def incompatible(found: Recognised) -> Explanation | None:
    """Arrays that were put on different devices: those on their own devices only by default are no part of it."""
    call = found.error.call
    placed = [leaf for leaf in call.leaves if leaf.devices and leaf.committed] if call is not None else []
    groups: dict[tuple[int, ...], list[Leaf]] = {}
    for leaf in placed:
        groups.setdefault(leaf.devices, []).append(leaf)
    if call is None or len(groups) < 2:
        return _other_than_context(found)
    main = max(
        groups.values(), key=lambda leaves: (len(leaves[0].devices), sum(leaf.size for leaf in leaves))
    )
    others = [leaf for leaves in groups.values() if leaves is not main for leaf in leaves]
    arrays = [lies(leaf) for leaf in others[:3]] + [lies(main[0])]
    if len(main) > 1:
        arrays[-1] += f" (and {len(main) - 1} more)"
    if set(others[0].devices) == set(main[0].devices):
        return Explanation(
            f"{callee(call)} gets arrays on meshes with different device orders",
            tuple(arrays),
            "make the mesh once, and place all arrays on it",
            live=True,
        )
    name = re.split(r"[\[.]", others[0].where)[0]
    if any(re.split(r"[\[.]", leaf.where)[0] == name for leaf in main):
        name = others[0].where
    mesh = bool(main[0].mesh)
    return Explanation(
        f"{callee(call)} gets arrays on different devices",
        tuple(arrays),
        f"jax.device_put({name}, NamedSharding(mesh, P())) before the call, with the mesh of the others"
        if mesh
        else f"jax.device_put({name}, {main[0].where}.sharding) before the call",
        live=True,
    )


def _other_than_context(found: Recognised) -> Explanation | None:
    """Arrays on other devices than the mesh in context, or than the shardings that the function was made with."""
    call, context = found.error.call, found.error.context
    placed = [leaf for leaf in call.leaves if leaf.devices and leaf.committed] if call is not None else []
    if call is None or not placed:
        return None
    where = f"the mesh in context has {math.prod(context.mesh.values())}" if context and context.mesh else "others"
    return Explanation(
        f"{callee(call)} runs on other devices than those of {placed[0].where}"
        + (f": {where} devices" if where != "others" else ""),
        help=f"place it first: jax.device_put({placed[0].where}, NamedSharding(mesh, P()))",
        live=True,
    )


def sharding_differs(found: Recognised) -> Explanation | None:
    """An argument that lies otherwise than in_shardings says."""
    said = re.search(
        r"Got p?jit sharding: .*?spec=(?:P|PartitionSpec)(\(.*?\)), memory.*?arg sharding: (.*?) for arg"
        r" (?:type|shape): "
        r"(\w+)\[([\d,]*)\]",
        found.error.message,
        re.DOTALL,
    )
    call = found.error.call
    if said is None:
        return None
    wanted, shape = f"P{said[1]}", tuple(int(one) for one in said[4].split(",") if one)
    spec = re.search(r"spec=(?:P|PartitionSpec)(\(.*?\)), memory", said[2])
    has = f"P{spec[1]}" if spec else "one device" if said[2].startswith("SingleDevice") else ""
    leaves = [
        leaf
        for leaf in (call.leaves if call is not None else [])
        if leaf.shape == shape and leaf.committed and (_same(leaf.spec, has) if spec else not leaf.spec)
    ]
    what = leaves[0].text() if len(leaves) == 1 else f"an array {said[3]}[{said[4]}]"
    name = leaves[0].where if len(leaves) == 1 else "it"
    return Explanation(
        f"{callee(call)} does not move a placed array: in_shardings says {wanted}, and {what} has "
        f"{has or 'another sharding'}",
        help=f"place it first: jax.device_put({name}, NamedSharding(mesh, {wanted})); or write None for it in "
        "in_shardings",
        live=len(leaves) == 1,
    )


def _same(one: str, other: str) -> bool:
    def bare(text: str) -> str:
        return re.sub(r"[\s,]+\)", ")", text.replace("PartitionSpec", "P").replace(" ", ""))

    return bare(one) == bare(other)


def mesh_shape(found: Recognised) -> Explanation | None:
    """Devices laid out as a mesh of another size."""
    said = re.search(r"cannot reshape array of size (\d+) into shape \(([\d, ]+)\)", found.error.message)
    at = found.error.at
    if said is None or at is None or at.call is None or not at.call.callee.endswith("reshape"):
        return None
    if "device" not in at.call.callee and not any("device" in one.text for one in at.call.arguments):
        return None
    sizes = [int(one) for one in said[2].split(",") if one.strip()]
    product = 1
    for size in sizes:
        product *= size
    return Explanation(
        f"a mesh of {' x '.join(map(str, sizes))} needs {product} devices, and there are {said[1]}",
        help="compute one size from len(jax.devices())",
    )

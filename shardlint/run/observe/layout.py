"""The layout of an array as jax has it, in the words of `shardlint.layouts`."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any


def describe_array(value: Any) -> dict[str, Any]:
    """Shape and type of an array, and where its parts are."""
    jax = sys.modules["jax"]
    found = {"shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, jax.core.Tracer):
        return {**found, **_describe_type_sharding(value)}
    sharding: Any = getattr(value, "sharding", None)
    if not isinstance(value, jax.Array) or sharding is None:
        return found
    devices = sorted(device.id for device in sharding.device_set)
    named = isinstance(sharding, jax.sharding.NamedSharding)
    return {
        **found,
        "spec": _axes_by_dimension(sharding.spec, value.ndim) if named else None,
        "mesh": {str(name): int(size) for name, size in dict(sharding.mesh.shape).items()} if named else None,
        "devices": len(devices),
        "memory": "device" if sharding.memory_kind == _default_memory() else sharding.memory_kind,
        "device": devices[0] if len(devices) == 1 else None,
        "committed": bool(getattr(value, "committed", getattr(value, "_committed", False))),
    }


@cache
def _default_memory() -> str:
    """The memory of a CPU in which arrays are made, which older releases call by another name."""
    kind: str = sys.modules["jax"].devices()[0].default_memory().kind
    return kind


def _describe_type_sharding(value: Any) -> dict[str, Any]:
    """Return the sharding over Explicit axes, and the axes of variation, in the type of a tracer."""
    found: dict[str, Any] = {}
    sharding: Any = getattr(value.aval, "sharding", None)
    types = {str(one).rpartition(".")[2] for one in getattr(getattr(sharding, "mesh", None), "axis_types", ())}
    if types in ({"Explicit"}, {"Auto", "Explicit"}):
        found["spec"] = _axes_by_dimension(sharding.spec, value.ndim)
    if types == {"Manual"}:
        varying = getattr(value.aval, "vma", None)
        if varying is None:
            varying = value.aval.manual_axis_type.varying
        found["varying"] = sorted(varying)
    return found


def _axes_by_dimension(spec: Any, rank: int) -> list[list[str]]:
    entries = [one if isinstance(one, tuple) else () if one is None else (one,) for one in spec]
    return [list(one) for one in (*entries, *((),) * (rank - len(entries)))]

"""Leaves of the arguments of a call with their layouts, as data: of arrays, traced arrays, shardings, specs and meshes.

Loaded by its file from `raised.py` beside it, in the program's own process.
"""

from __future__ import annotations

import sys
from typing import Any


def leaves_of(value: Any, most: Any, objects: Any = ()) -> Any:
    """Return each leaf of a tree: its path, shape, dtype and layout. `objects` are those that jax looked at."""
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    try:
        paths = jax.tree_util.tree_flatten_with_path(value, is_leaf=_is_named_array)[0][:most]
        flat = [(jax.tree_util.keystr(path), leaf) for path, leaf in paths]
    except Exception:
        flat = [("", value)]
    looked_at = [
        id(leaf) in objects or tuple(getattr(leaf, "shape", ()) or ()) in objects for _, leaf in flat
    ]
    marked = any(looked_at) and not all(looked_at)
    return [
        {"path": path, "id": id(leaf), "looked_at": marked and one, **_describe_leaf(leaf)}
        for (path, leaf), one in zip(flat, looked_at)  # noqa: B905  # Python 3.9 has no strict
    ]


def _is_named_array(value: Any) -> Any:
    """Return whether it is a NamedArray of haliax."""
    return hasattr(value, "axes") and hasattr(value, "array")


def _describe_leaf(leaf: Any) -> Any:
    told: dict[str, Any] = {"type": type(leaf).__name__, "array": False}
    try:
        if _is_named_array(leaf):
            told["axes"] = {axis.name: axis.size for axis in leaf.axes}
            leaf = leaf.array
        told["array"] = hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, type)
        if told["array"]:
            told |= {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
        if "Tracer" in type(leaf).__name__:
            told |= {"traced": True, "short": leaf.aval.str_short(), **_describe_type(leaf.aval)}
        elif hasattr(leaf, "is_deleted"):
            told["deleted"] = bool(leaf.is_deleted())
            told |= _describe_sharding(leaf.sharding)
            told["committed"] = bool(getattr(leaf, "_committed", True))
        elif type(leaf).__name__ == "ShapeDtypeStruct":
            told |= _describe_sharding(leaf.sharding)
        elif type(leaf).__name__ in ("Mesh", "AbstractMesh"):
            told |= {"layout": True, **_describe_mesh(leaf)}
        elif type(leaf).__name__ in ("PartitionSpec", "P"):
            told |= {"layout": True, "spec": _describe_spec(leaf)}
        elif hasattr(leaf, "spec") or hasattr(leaf, "device_set"):
            told |= {"layout": True, **_describe_sharding(leaf)}
        elif leaf is None or type(leaf) in (bool, int, float, str):
            told["value"] = repr(leaf)[:60]
    except Exception:  # an array of which less is known
        return told
    return told


def _describe_type(aval: Any) -> Any:
    """The layout of a traced array: its spec on axes that are not left to the compiler, and where it varies."""
    told: dict[str, Any] = {}
    sharding, manual = getattr(aval, "sharding", None), getattr(aval, "manual_axis_type", None)
    varying = getattr(manual, "varying", None) or getattr(aval, "vma", None)
    if varying:
        told["varying"] = sorted(map(str, varying))
    if sharding is not None and "Explicit" in str(getattr(sharding.mesh, "axis_types", "")):
        told |= {"spec": _describe_spec(sharding.spec), **_describe_mesh(sharding.mesh)}
    memory = str(getattr(aval, "memory_space", "")).rpartition(".")[2]
    if memory not in ("", "Device", "Any"):
        told["memory"] = memory
    return told


def _describe_sharding(sharding: Any) -> Any:
    told: dict[str, Any] = {}
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    if mesh is not None and spec is not None:
        told |= {"spec": _describe_spec(spec), **_describe_mesh(mesh)}
    memory = getattr(sharding, "memory_kind", None)
    if memory not in (None, "device", "unpinned_host"):
        told["memory"] = str(memory)
    if type(mesh).__name__ != "AbstractMesh" and hasattr(sharding, "device_set"):
        told["devices"] = sorted(device.id for device in sharding.device_set)[:4096]
        order = getattr(sharding, "_device_assignment", None)
        if order is not None:
            told["order"] = [device.id for device in order][:4096]
    return told


def _describe_mesh(mesh: Any) -> Any:
    kinds = getattr(mesh, "axis_types", None) or ()
    names = [str(one).rpartition(".")[2] for one in (kinds if isinstance(kinds, (tuple, list)) else ())]
    return {"mesh": {str(name): int(size) for name, size in dict(mesh.shape).items()}, "kinds": names}


def _describe_spec(spec: Any) -> Any:
    parts = [
        list(part) if isinstance(part, tuple) else part
        for part in map(_plain_entry, getattr(spec, "partitions", spec))
    ]
    more = [(name, sorted(map(str, getattr(spec, name, None) or ()))) for name in ("unreduced", "reduced")]
    return [*parts, *({name: axes} for name, axes in more if axes)]


def _plain_entry(part: Any) -> Any:
    return part if part is None or isinstance(part, (str, tuple)) else str(part)


def context_mesh() -> Any:
    """Return the axes of the mesh in context and their types; empty without one, None if that is not known."""
    try:
        return _describe_mesh(sys.modules["jax"].sharding.get_abstract_mesh())
    except Exception:
        return None

"""Arrays that surely lie over devices: placed by a NamedSharding, or made by a jitted function with out_shardings."""

from __future__ import annotations

import ast

from shardlint.model.values import CallResult, Place, Transformed, Value, options
from shardlint.rules_api.site import Site

_TARGET = {
    "jax.device_put": ("device", 1),
    "jax.lax.with_sharding_constraint": ("shardings", 1),
    "jax.make_array_from_process_local_data": ("sharding", 0),
    "jax.make_array_from_callback": ("sharding", 1),
    "jax.make_array_from_single_device_arrays": ("sharding", 1),
}
_NAMED = "jax.sharding.NamedSharding"


def spread(site: Site, node: ast.expr) -> bool:
    """Whether an expression is surely an array with a NamedSharding, of whatever spec."""
    found = options(site.value(node))
    return bool(found) and all(_sharding(site, one) is not None for one in found)


def split(site: Site, node: ast.expr) -> bool:
    """Whether it is surely split over the devices of all processes: by an axis of a mesh of all of them."""
    found = options(site.value(node))
    return bool(found) and all(_splits(site, _sharding(site, one)) for one in found)


def _sharding(site: Site, value: Value) -> Place | None:
    """The expression of the sharding of an array."""
    if not isinstance(value, CallResult) or value.call is None:
        return None
    if isinstance(value.by, Transformed) and value.by.api.name == "jax.jit" and value.by.call is not None:
        given = value.by.call.keywords.get("out_shardings")
    elif value.api in _TARGET:
        name, at = _TARGET[value.api]
        positional = value.call.positional
        given = value.call.keywords.get(name) or (positional[at] if at < len(positional) else None)
    else:
        return None
    if given is None:
        return None
    kinds = options(site.program.evaluator.value(given))
    return given if all(isinstance(one, CallResult) and one.api == _NAMED for one in kinds) else None


def _splits(site: Site, sharding: Place | None) -> bool:
    if sharding is None:
        return False
    for one in options(site.program.evaluator.value(sharding)):
        parts = site.sharding_parts(one)
        if parts is None or not _of_all(site, parts[0]):
            return False
        spec = site.spec_of(parts[1])
        if spec is None or not any(entry.axes for entry in spec.entries):
            return False
    return True


def _of_all(site: Site, mesh: Value) -> bool:
    """Whether a mesh is surely one of the devices of all processes."""
    if not isinstance(mesh, CallResult) or mesh.call is None:
        return False
    if mesh.api == "jax.make_mesh":
        return "devices" not in mesh.call.keywords and len(mesh.call.positional) < 3
    text = " ".join(one.text() for one in (*mesh.call.positional, *mesh.call.keywords.values()))
    return mesh.api == "jax.sharding.Mesh" and _asks_all(site, mesh, text)


def _asks_all(site: Site, mesh: CallResult, text: str) -> bool:
    assert mesh.call is not None
    given = mesh.call.keywords.get("devices") or (mesh.call.positional[0] if mesh.call.positional else None)
    if given is None:
        return False
    node, file = given.node, given.file
    for _ in range(4):  # np.array(jax.devices()).reshape(...)
        found = options(site.program.evaluator.value(Place(file, node)))
        if all(isinstance(one, CallResult) and one.api == "jax.devices" for one in found):
            return True
        if all(
            isinstance(one, CallResult) and one.api == "jax.experimental.mesh_utils.create_device_mesh"
            for one in found
        ):
            return "local_devices" not in text
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "reshape"
        ):
            node = node.func.value
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        else:
            return False
    return False

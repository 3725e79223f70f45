"""Arrays that surely lie over devices: placed by a NamedSharding, made by jit with out_shardings or by shard_map."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import CallArguments, CallResult, Place, Transformed, Value, options
from shardlint.rules_api.site import Site

_TARGET = {
    "jax.device_put": ("device", 1),
    "jax.lax.with_sharding_constraint": ("shardings", 1),
    "jax.make_array_from_process_local_data": ("sharding", 0),
    "jax.make_array_from_callback": ("sharding", 1),
    "jax.make_array_from_single_device_arrays": ("sharding", 1),
}
_MAP = "jax.shard_map"
_NAMED = "jax.sharding.NamedSharding"


def spread(site: Site, node: ast.expr) -> bool:
    """Whether an expression is surely an array with a NamedSharding, of whatever spec."""
    found = options(site.value(node))
    return bool(found) and all(list(_shardings(site, one)) for one in found)


def split(site: Site, node: ast.expr) -> bool:
    """Whether it is surely split over the devices of all processes: by an axis of a mesh of all of them."""
    found = options(site.value(node))
    return bool(found) and all(_splits(site, one) for one in found)


def _splits(site: Site, value: Value) -> bool:
    parts = list(_shardings(site, value))
    return bool(parts) and all(of_all(site, mesh) and _names_axis(site, spec) for mesh, spec in parts)


def _names_axis(site: Site, value: Value) -> bool:
    spec = site.spec_of(value)
    return spec is not None and any(entry.axes for entry in spec.entries)


def _shardings(site: Site, value: Value) -> Iterator[tuple[Value, Value]]:
    """The mesh and the spec of an array, for each sharding that it may have; none where one is not known."""
    if not isinstance(value, CallResult) or value.call is None:
        return
    made = value.by.call if isinstance(value.by, Transformed) else None
    if made is not None and isinstance(value.by, Transformed) and value.by.api.name == _MAP:
        found = {name: made.keywords.get(name) for name in ("mesh", "out_specs")}
        mesh, spec = (site.program.evaluator.value(one) if one is not None else None for one in found.values())
        if mesh is not None and spec is not None:
            yield mesh, spec
        return
    given = _given(value, made)
    kinds = options(site.program.evaluator.value(given)) if given is not None else ()
    if all(isinstance(one, CallResult) and one.api == _NAMED for one in kinds):
        parts = [site.sharding_parts(one) for one in kinds]
        yield from (one for one in parts if one is not None and None not in parts)


def _given(value: CallResult, made: CallArguments | None) -> Place | None:
    """The expression of the sharding of an array."""
    if made is not None:
        is_jit = isinstance(value.by, Transformed) and value.by.api.name == "jax.jit"
        return made.keywords.get("out_shardings") if is_jit else None
    if value.api not in _TARGET or value.call is None:
        return None
    name, at = _TARGET[value.api]
    positional = value.call.positional
    return value.call.keywords.get(name) or (positional[at] if at < len(positional) else None)


def of_all(site: Site, mesh: Value) -> bool:
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

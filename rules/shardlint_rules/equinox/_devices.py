"""Which devices an array is committed to, and which a placement asks for, as far as the text tells: for SL109."""

from __future__ import annotations

import ast

from shardlint.model import api
from shardlint.model.mesh.meshes import Mesh
from shardlint.model.values import Api, CallResult, Constant, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.nodes import walk
from shardlint_rules.equinox.placement import PLACING

_ARRAYS = ("numpy.array", "numpy.asarray", "builtins.list", "builtins.tuple")


@dataclass(frozen=True)
class Devices:
    """Devices of `jax.devices()`: one (`single`, with its number where known), or `part` of the list ("" is all)."""

    single: bool
    part: str
    words: str


def committed(site: Site, value: Value) -> Devices | None:
    """The devices an array surely was put on by the call that made it."""
    found = [_committed(site, option) for option in options(value)]
    first = found[0]
    return first if first is not None and all(one == first for one in found) else None


def _committed(site: Site, value: Value) -> Devices | None:
    if not isinstance(value, CallResult) or value.call is None or value.api not in PLACING:
        return None
    target = value.call.get(PLACING[value.api], api.SIGNATURES[value.api])
    if target is None or not isinstance(target.node, ast.expr):
        return None
    place = value.call.place
    if site.program.region(place.file, place.node).traced in ("always", "sometimes"):
        return None
    found = asked(site, target)
    if found is not None and value.api == "equinox.filter_shard" and site.allows("jax", "<0.8.3"):
        # Up to jax 0.6.2 a new array that lies on its device already comes back as it was: uncommitted.
        return None if found.single and found.part in ("0", "?") else found
    return found


def asked(site: Site, target: Place) -> Devices | None:
    """The devices that a device or a sharding stands for."""
    one = _device(site, target)
    if one is not None:
        return one
    found = [_of_sharding(site, option) for option in options(site.program.evaluator.value(target))]
    first = found[0]
    return first if first is not None and all(one == first for one in found) else None


def differ(one: Devices, two: Devices) -> bool:
    """Whether these are surely not the same devices in the same order."""
    if one.single != two.single:
        return True
    return one.part != two.part and "?" not in (one.part, two.part)


def _of_sharding(site: Site, value: Value) -> Devices | None:
    if not isinstance(value, CallResult) or value.call is None:
        return None
    if value.api == "jax.sharding.SingleDeviceSharding":
        device = value.call.get("device", api.SIGNATURES[value.api])
        return _device(site, device) if device is not None else None
    parts = site.sharding_parts(value)
    mesh = site.mesh_of(parts[0]) if parts is not None else None
    return _of_mesh(site, mesh, parts[0]) if mesh is not None and parts is not None else None


def _of_mesh(site: Site, mesh: Mesh, value: Value) -> Devices | None:
    if not isinstance(value, CallResult) or value.call is None:
        return None
    if mesh.api == "jax.make_mesh":
        if "devices" in value.call.keywords or value.call.open_keywords or not mesh.sizes:
            return None
        if None in mesh.sizes or all(size == 1 for size in mesh.sizes):
            return None
        # make_mesh may order the devices anew, and takes no more than it needs.
        return Devices(False, "?", "the devices of a mesh")
    if mesh.api != "jax.sharding.Mesh":
        return None
    place = value.call.get("devices", api.SIGNATURES[mesh.api])
    part = _part(site, place) if place is not None else None
    if part is None:
        return None
    return Devices(False, part, f"the devices{part} of a mesh" if part else "the devices of a mesh")


def _part(site: Site, place: Place) -> str | None:
    """The slice of `jax.devices()` that an array of devices holds, "" for all."""
    node = place.node
    while isinstance(node, ast.Call):
        method = isinstance(node.func, ast.Attribute) and node.func.attr == "reshape"
        value = site.program.evaluator.value(Place(place.file, node.func))
        if isinstance(value, Api) and value.name in api.DEVICE_LISTS:
            return "" if not node.args and not node.keywords else None
        if method and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(value, Api) and value.name in _ARRAYS and node.args:
            node = node.args[0]
        else:
            return None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        text = place.file.text(node.slice).replace(" ", "")
        inner = _part(site, Place(place.file, node.value))
        if text in (":1", "0:1") or inner != "" or not _literal(node.slice):
            return None
        return f"[{text}]"
    if isinstance(node, ast.Name):
        value = site.program.evaluator.value(Place(place.file, node))
        if isinstance(value, CallResult) and value.call is not None and value.api in (*api.DEVICE_LISTS, *_ARRAYS):
            return _part(site, value.call.place)
    return None


def _literal(node: ast.Slice) -> bool:
    parts = (
        part for bound in (node.lower, node.upper, node.step) if bound is not None for part in walk(bound)
    )
    return all(isinstance(part, ast.Constant | ast.UnaryOp | ast.USub) for part in parts)


def _device(site: Site, place: Place) -> Devices | None:
    """`jax.devices()[1]`, also behind a name."""
    node, file = place.node, place.file
    if isinstance(node, ast.Name):
        from shardlint.model.reach import lookup

        bindings, scope = lookup(file, node, node.id)
        if scope is None or len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
            return None
        if node.id in file.rebound_globals:
            return None
        return _device(site, Place(file, bindings[0].value))
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice | ast.Tuple):
        return None
    listed = site.program.evaluator.value(Place(file, node.value))
    if not isinstance(listed, CallResult) or listed.api not in api.DEVICE_LISTS or listed.call is None:
        return None
    if listed.call.positional or listed.call.keywords:
        return None  # of another backend
    index = site.program.evaluator.value(Place(file, node.slice))
    number = str(index.value) if isinstance(index, Constant) else "?"
    return Devices(True, number, f"jax.devices()[{number}]")

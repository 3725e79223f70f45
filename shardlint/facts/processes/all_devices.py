"""Meshes and shardings over the devices of all processes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.mesh.meshes import sharding_parts
from shardlint.model.values import CallResult, Place, Value, options

if TYPE_CHECKING:
    from shardlint.model import Program

_NAMED = "jax.sharding.NamedSharding"
_LAYOUT = "jax.experimental.mesh_utils.create_device_mesh"


def sharding_of_all(program: Program, place: Place) -> bool:
    """Return whether an expression is surely a NamedSharding over a mesh of the devices of all processes."""
    found = options(program.followed(program.evaluator.value(place)))
    return bool(found) and all(_is_over_all_devices(program, one) for one in found)


def _is_over_all_devices(program: Program, value: Value) -> bool:
    if not isinstance(value, CallResult) or value.api != _NAMED:
        return False
    parts = sharding_parts(value, program.evaluator)
    meshes = options(program.followed(parts[0])) if parts is not None else ()
    return bool(meshes) and all(mesh_of_all(program, one) for one in meshes)


def mesh_of_all(program: Program, mesh: Value) -> bool:
    """Return whether a mesh is surely one of the devices of all processes."""
    if not isinstance(mesh, CallResult) or mesh.call is None:
        return False
    if mesh.api == "jax.make_mesh":
        return "devices" not in mesh.call.keywords and len(mesh.call.positional) < 3
    text = " ".join(one.source_text() for one in (*mesh.call.positional, *mesh.call.keywords.values()))
    return mesh.api == "jax.sharding.Mesh" and _asks_for_all_devices(program, mesh, text)


def _asks_for_all_devices(program: Program, mesh: CallResult, text: str) -> bool:
    assert mesh.call is not None
    given = mesh.call.keywords.get("devices") or (mesh.call.positional[0] if mesh.call.positional else None)
    if given is None:
        return False
    node, file = given.node, given.file
    for _ in range(4):  # np.array(jax.devices()).reshape(...)
        found = options(program.evaluator.value(Place(file, node)))
        if all(isinstance(one, CallResult) and one.api == "jax.devices" for one in found):
            return True
        if all(isinstance(one, CallResult) and one.api == _LAYOUT for one in found):
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

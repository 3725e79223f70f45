"""SL227."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.meshes import Mesh
from shardlint.model.values import Api, CallResult, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings

_MESH = "jax.sharding.Mesh"
_MAKERS = (_MESH, "jax.make_mesh")
_DEVICES = ("jax.devices", "jax.local_devices", "jax.experimental.mesh_utils.create_device_mesh")
_KEEPING = (
    "numpy.array", "numpy.asarray", "numpy.reshape", "numpy.expand_dims", "numpy.squeeze", "builtins.list",
    "builtins.tuple", "jax.numpy.asarray",
)  # fmt: skip
_KEEPING_METHODS = ("reshape", "flatten", "ravel", "squeeze", "copy", "tolist")
_TURNING = ("numpy.transpose", "numpy.swapaxes", "numpy.moveaxis", "numpy.flip", "builtins.reversed")
_TURNING_METHODS = ("transpose", "swapaxes")
_STEPS = 12
_WORDS = r"(?:)\bMesh\(|\bmake_mesh\("


class TwoDeviceOrders(Rule):
    """Two meshes of one program have the same axes and the same devices, but in different orders.

    A jitted call that takes arrays of both meshes raises `ValueError: Received incompatible devices`.
    `with_sharding_constraint` raises the same error if the array is on one mesh and the sharding on the other.
    `jax.device_put` to the other mesh works, and moves the array between devices.

    ## Reports
    - `reordered-devices` (likely): a `Mesh` with reordered devices (`.T`, `transpose`, `swapaxes`, `[::-1]`,
      `reversed`), if another mesh of the program has the same axis names and the devices in the default order.

    ## Write instead
    Make the mesh once and pass this mesh to all code. An array also carries its mesh: `x.sharding.mesh`.

    ## Limits
    Not reported: tests, and programs that reorder the devices of all their meshes.
    """

    code = "SL227"
    name = "two-device-orders"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("reordered-devices",)
    assumptions: ClassVar[Mapping[str, str]] = {"reordered-devices": "Arrays of both meshes meet in one call."}
    triggers = (Calls(_MESH),)
    in_tests = False
    fixes = "none"
    by_hand = "which order is meant is for the author to decide"

    @detector("call", finds="reordered-devices")
    def report_mesh(self, site: Site) -> Finding | None:
        """A mesh whose devices are reordered."""
        devices = site.argument("devices")
        mesh = site.mesh_of(site.value(site.call))
        if devices is None or mesh is None or not mesh.axis_names:
            return None
        if 1 in mesh.sizes or not _are_devices_reordered(site, Place(site.file, devices)):
            return None
        other = next(_meshes_in_default_order(site, mesh), None)
        if other is None:
            return None
        where = site.where(other)
        names = ", ".join(f'"{name}"' for name in mesh.axis_names)
        return site.finding(
            site.call,
            f"A jitted call with arrays on this mesh and the mesh at {where} raises ValueError: device orders differ.",
            label="reordered devices",
            help="make the mesh once and use it everywhere",
            why=f"both meshes have the axes {names}, and only this one reorders the devices; checked for "
            f"{site.release('jax')}",
        )


def _meshes_in_default_order(site: Site, mesh: Mesh) -> Iterator[Place]:
    """Meshes with the same axes whose devices are taken as they come."""
    for file in site.program.project.files_holding(site.file.path, (_WORDS,)):
        if file is None:
            return
        if site.program.project.is_test(file.path):
            continue
        for call in _mesh_calls(site, file):
            if call is site.call:
                continue
            value = site.program.value(file, call)
            known = site.mesh_of(value)
            if (
                known is None
                or known.axis_names is None
                or set(known.axis_names) != set(mesh.axis_names or ())
            ):
                continue
            given = _devices_argument(value)
            if given is None or (_are_devices_reordered(site, given) is False):
                yield Place(file, call)


def _devices_argument(value: object) -> Place | None:
    """The devices that a maker is given; None where it takes all."""
    call = value.call if isinstance(value, CallResult) else None
    if call is None:
        return None
    first = (
        call.positional[0]
        if isinstance(value, CallResult) and value.api == _MESH and call.positional
        else None
    )
    return call.keywords.get("devices") or first


def _mesh_calls(site: Site, file: FileFacts) -> Iterator[ast.Call]:
    for word in ("Mesh", "make_mesh"):
        for node in file.find_mentions(word):
            call = file.parent(node)
            if (
                isinstance(node, ast.Name | ast.Attribute)
                and isinstance(call, ast.Call)
                and call.func is node
            ):
                if all(
                    isinstance(one, Api) and one.name in _MAKERS
                    for one in options(site.program.value(file, node))
                ):
                    yield call


def _are_devices_reordered(site: Site, place: Place) -> bool | None:
    """Return whether all devices, or those of this process, are reordered; None if that is not known."""
    file, node, turned = place.file, place.node, False
    for _ in range(_STEPS):
        match node:
            case ast.Attribute(attr="T", value=inner):
                node, turned = inner, True
            case ast.Subscript(
                value=inner, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub()))
            ):
                node, turned = inner, True
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in (
                *_KEEPING_METHODS,
                *_TURNING_METHODS,
            ) and not _called_api_names(site, file, node):
                node, turned = inner, turned or attr in _TURNING_METHODS
            case ast.Call(args=args):
                names = _called_api_names(site, file, node)
                if names <= {*_DEVICES} and names:
                    return turned
                if not args or not names or not names <= {*_KEEPING, *_TURNING}:
                    return None
                node, turned = args[0], turned or names <= {*_TURNING}
            case ast.Name():
                bindings, _ = lookup_bindings(file, node, node.id)
                if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].index is not None:
                    return None
                if bindings[0].value is None:
                    return None
                node = bindings[0].value
            case _:
                return None
    return None


def _called_api_names(site: Site, file: FileFacts, call: ast.Call) -> set[str]:
    """Return the library functions that a call may call; empty if there are none."""
    found = options(site.program.value(file, call.func))
    names = {one.name for one in found if isinstance(one, Api)}
    return names if all(isinstance(one, Api) for one in found) else set()

"""Meshes of one device that stand in for the mesh of the project. Part of SL304."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.mesh.meshes import Mesh, mesh_of
from shardlint.model.shapes import Shape, shape_of
from shardlint.model.values import Place, options
from shardlint.rules_api.site import Site

_MAKERS = ("Mesh", "make_mesh")


def fuller(site: Site) -> tuple[Mesh, str] | None:
    """The mesh that the project makes elsewhere with all axes of this one-device mesh and more, and one it lacks."""
    devices = site.argument("devices")
    own = next((one for one in _meshes(site, Place(site.file, site.call))), None)
    if devices is None or own is None or not own.axis_names or len(own.axis_names) < 2:
        return None
    shape = _proven_shape(site, devices)
    if not shape or any(size != 1 for size in shape) or site.program.project.is_test(site.file.path):
        return None
    for file in site.program.project.calling(site.file.path, _MAKERS):
        if file is None:
            return None
        for word in _MAKERS:
            for node in file.mentions(word):
                call = file.parent(node)
                if not isinstance(call, ast.Call) or call.func is not node or call is site.call:
                    continue
                for other in _meshes(site, Place(file, call)):
                    more = [name for name in other.axis_names or () if name not in own.axis_names]
                    if more and set(own.axis_names) < set(other.axis_names or ()):
                        return other, more[0]
    return None


def _proven_shape(site: Site, devices: ast.expr) -> Shape | None:
    """The shape of the devices where it rests on no default: sizes in a config are 1 until somebody sets them."""
    view = site.program.evaluator
    if not isinstance(view, Assuming):
        return shape_of(view, Place(site.file, devices))
    alone = Assuming(view.strict, view.callers, view.scope, view.way)
    shape = shape_of(alone, Place(site.file, devices))
    return shape if not alone.why else None


def _meshes(site: Site, place: Place) -> Iterator[Mesh]:
    for option in options(site.program.evaluator.value(place)):
        mesh = mesh_of(option, site.program.evaluator)
        if mesh is not None and mesh.axis_names is not None:
            yield mesh

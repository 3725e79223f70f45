"""The axes of a mesh whose names a configuration gives: what its files, or the defaults of flags, say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.mesh.meshes import Mesh
from shardlint.model.values import Items, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

_KEY = compile_lazily(r"axes|axis_names|mesh_names|dim_names")
_FLAGS = ("DEFINE_list", "DEFINE_multi_string", "DEFINE_spaceseplist")


@dataclass(frozen=True)
class Configured:
    """The names that any configuration gives the axes of a mesh, and where they are said."""

    axes: frozenset[str]
    said: str


def configured_axes(site: Site, mesh: ast.expr) -> Configured | None:
    """Return the axes that the configurations give a mesh which is made of them alone; None if they give none."""
    found: list[tuple[str, tuple[str, ...] | None]] = []
    for option in options(site.program.followed(site.value(mesh))):
        made = site.mesh_of(option)
        key = _configuration_key(site, made) if made is not None and made.axis_names is None else None
        if key is None:
            return None
        found += _all_configured_axes(site, key)
    if not found or any(axes is None for _, axes in found):
        return None
    said = "; ".join(f"{where}: {', '.join(axes or ())}" for where, axes in found[:3])
    return Configured(frozenset(axis for _, axes in found for axis in axes or ()), said)


def _configuration_key(site: Site, mesh: Mesh) -> str | None:
    """The entry of a configuration that gives a mesh the names of its axes."""
    call = mesh.place.node
    if not isinstance(call, ast.Call):
        return None
    arguments = site.program.evaluator.read_arguments(Place(mesh.place.file, call))
    given = arguments.argument_for("axis_names", ("axis_shapes", "axis_names"))
    node = given.node if given is not None else None
    while isinstance(node, ast.Call) and len(node.args) == 1 and getattr(node.func, "id", "") in ("tuple", "list"):
        node = node.args[0]
    match node:
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            pass
        case ast.Attribute(attr=key):
            pass
        case _:
            return None
    return key if _KEY.search(key) else None


def _all_configured_axes(site: Site, key: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    return site.program.once(
        site.file, ("configured axes", key), lambda: tuple(_configured_axis_names(site, key))
    )


def _configured_axis_names(site: Site, key: str) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    root = site.program.project.root
    for entry in site.program.project.configurations.find_entries(re.escape(key)):
        names = entry.value if entry.known and isinstance(entry.value, list | tuple) else None
        known = names is not None and all(isinstance(one, str) for one in names)
        where = f"{key} of {entry.path.relative_to(root).as_posix()}:{entry.line}"
        yield where, tuple(names) if names is not None and known else None
    for file in site.program.project.files_holding(site.file.path, (key,)):
        if file is None:
            continue
        for maker in (one for one in _FLAGS if file.contains_text(one)):
            for node in file.find_mentions(maker):
                call = file.parent(node)
                if not isinstance(call, ast.Call) or call.func is not node or len(call.args) < 2:
                    continue
                name, default = call.args[:2]
                if isinstance(name, ast.Constant) and name.value == key:
                    value = site.program.value(file, default)
                    yield f"the default of --{key}", _values_as_strings(value)


def _values_as_strings(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, Items) or value.open:
        return None
    found = [getattr(item, "value", None) for item in value.items]
    return tuple(one for one in found if isinstance(one, str)) if all(isinstance(x, str) for x in found) else None

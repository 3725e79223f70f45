"""A `shard_map` over the mesh that a call makes, of arrays that nothing has placed (SL307)."""

from __future__ import annotations

import ast

from shardlint.facts.shardings import literal_leaves
from shardlint.model.mesh.meshes import mesh_of, spec_of
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

_NAMES = ("jax.shard_map", "jax.experimental.shard_map.shard_map")
_PLACES = {"mesh": 1, "in_specs": 2}
# Any of these may bring arrays that are sharded as the in_specs say.
_PLACING = (
    "NamedSharding",
    "PositionalSharding",
    "device_put",
    "in_shardings",
    "out_shardings",
    "make_array_from",
    "set_mesh",
    "use_mesh",
    "reshard",
)


def find_map_over_mesh(site: Site) -> tuple[FileFacts, ast.Call] | None:
    """The first such call; None where there is none, or where something of the project may place arrays."""
    for file in site.program.project.files_with_attribute(site.file, "shard_map"):
        if file is None:
            return None
        for node in file.find_mentions("shard_map"):
            call = file.parent(node)
            if isinstance(call, ast.Call) and isinstance(node, ast.expr) and _is_over(site, file, node, call):
                return None if any(map(site.is_named_anywhere, _PLACING)) else (file, call)
    return None


def _is_over(site: Site, file: FileFacts, node: ast.expr, call: ast.Call) -> bool:
    if not any(isinstance(one, Api) and one.name in _NAMES for one in options(site.program.value(file, node))):
        return False
    given = {one.arg: one.value for one in call.keywords if one.arg is not None}
    if call.func is node and not any(isinstance(one, ast.Starred) for one in call.args):
        given |= {name: call.args[place] for name, place in _PLACES.items() if place < len(call.args)}
    elif call.func is not node and node not in call.args[:1]:
        return False
    if not {*_PLACES} <= set(given):
        return False
    evaluator = site.program.evaluator
    meshes = [mesh_of(one, evaluator) for one in options(site.program.value(file, given["mesh"]))]
    if not all(mesh is not None and mesh.place.node is site.call for mesh in meshes):
        return False
    value = site.program.value(file, given["in_specs"])
    specs = [spec_of(leaf, evaluator) for leaf in literal_leaves(value)] if len(options(value)) == 1 else []
    return any(entry.known and entry.axes for spec in specs if spec is not None for entry in spec.entries)

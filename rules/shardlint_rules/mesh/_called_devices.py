"""Variables that hold devices where a mesh is expected."""

from __future__ import annotations

import ast

from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import CallResult, Parameter, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings

_DEVICES = compile_lazily(r"(?:^|_)devices?(?:_(?:array|grid|list))?$|^devs$")


def reason_meant_as_devices(site: Site, node: ast.expr) -> str:
    """Why what is given as a mesh is surely meant as devices; empty where it may be a mesh."""
    if not isinstance(node, ast.Name):
        return ""
    if any(isinstance(one, CallResult) and one.api in MESH_MAKERS for one in options(site.value(node))):
        return ""
    made = _mesh_call_of_same_name(site, node)
    if made is not None:
        return f"line {made.lineno} makes a Mesh from `{node.id}`"
    value = site.value(node)
    if isinstance(value, Parameter) and _DEVICES.search(node.id):
        function = site.scope.enclosing_function()
        args = getattr(function.node, "args", None) if function is not None else None
        taken = (
            [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)] if args is not None else []
        )
        if node.id in taken and "mesh" in taken:
            return f"the function takes both `mesh` and `{node.id}`"
    return ""


def _mesh_call_of_same_name(site: Site, node: ast.Name) -> ast.Call | None:
    """The call that makes a mesh of the same name, bound by the same statements."""
    here, _ = lookup_bindings(site.file, node, node.id)
    for use in site.file.find_mentions(node.id):
        call = site.file.parent(use)
        if (
            not isinstance(call, ast.Call)
            or not call.args
            or call.args[0] is not use
            or last_name(call.func) != "Mesh"
        ):
            continue
        there, _ = lookup_bindings(site.file, use, node.id)
        if here and [one.node for one in here] == [one.node for one in there]:
            return call
    return None

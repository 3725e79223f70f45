"""Questions for the memory of each device of a list that is of all processes: a mesh's, or what callers give."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.values import CallResult, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.processes.passed_values import argument_values

_MESH = compile_lazily(r"(?i)mesh$")
_OWN = ("addressable", "local", "process_index")
_PASSING = ("enumerate", "list", "sorted", "reversed", "flatten", "ravel", "tolist", "reshape", "array", "asarray")


def whose_devices_asked(site: Site) -> str:
    """Whose the devices are that `memory_stats()` is asked of, in words; "" where nothing says they are of all."""
    func = site.call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return ""
    bindings, _ = lookup_bindings(site.file, func.value, func.value.id)
    if len(bindings) != 1:
        return ""
    target = bindings[0].node
    parent = site.file.parent(target)
    if isinstance(parent, ast.Tuple):
        target, parent = parent, site.file.parent(parent)
    if not isinstance(parent, ast.For | ast.comprehension) or parent.target is not target:
        return ""
    whole = parent if isinstance(parent, ast.For) else site.file.parent(parent)
    if whole is None or any(word in site.text(whole) for word in _OWN):
        return ""
    return _owner_of_listed_devices(site.program, site.file, parent.iter, 0)


def _owner_of_listed_devices(program: Program, file: FileFacts, node: ast.expr, depth: int) -> str:
    """Whose the devices of a list are. `jax.devices()` as it is, SL808 follows from there."""
    some = False
    while True:
        if isinstance(node, ast.Call) and last_name(node.func) in _PASSING:
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if inner is None or (node.args and last_name(node.func) in ("array", "asarray")):
                inner = node.args[0] if node.args else None
            if inner is None:
                return ""
            node = inner
        elif (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)) or (
            isinstance(node, ast.Attribute) and node.attr == "flat"
        ):
            some = True
            node = node.value
        else:
            break
    if isinstance(node, ast.Attribute) and node.attr == "devices" and _MESH.search(last_name(node.value)):
        return f"`{file.source_text(node)}` are the devices of a mesh"
    made = options(program.value(file, node)) if some else ()
    if any(isinstance(one, CallResult) and one.api == "jax.devices" for one in made):
        return "jax.devices() lists them"
    return _owner_given_by_callers(program, file, node, depth) if isinstance(node, ast.Name) and depth < 2 else ""


def _owner_given_by_callers(program: Program, file: FileFacts, node: ast.Name, depth: int) -> str:
    """Return the callers' value of a parameter."""
    bindings, scope = lookup_bindings(file, node, node.id)
    if scope is None or [one.kind for one in bindings] != ["param"]:
        return ""
    for place in argument_values(program, file, scope, node.id):
        if isinstance(place.node, ast.expr):
            found = _owner_of_listed_devices(program, place.file, place.node, depth + 1)
            if found:
                return f"{place.file.path.name}:{place.line} passes devices to `{scope.name}`: {found}"
    return ""

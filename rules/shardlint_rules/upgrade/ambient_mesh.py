"""A read of `thread_resources.env.physical_mesh`, the mesh of `with mesh:`, as one of jax.set_mesh's mesh."""

from __future__ import annotations

import ast

from shardlint.facts.name_uses import is_used_elsewhere
from shardlint.facts.set_mesh.host_code import runs_on_the_host
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.enclosing import enclosing_block

_ABSTRACT = "jax.sharding.get_abstract_mesh"
_CONCRETE = "jax.sharding.get_mesh"
_OTHERWISE = "only reads of thread_resources.env.physical_mesh are rewritten"
# What a mesh without devices answers as one with devices does.
_SHARED = frozenset({"axis_names", "axis_sizes", "axis_types", "empty", "shape", "shape_tuple", "size"})
_WIDTH = 60
_CALLS = 3  # so many calls back what a function returns is followed
_SHARD_MAP = "jax.shard_map"
_CONSTRAINT = "jax.lax.with_sharding_constraint"
_NAMED = "jax.sharding.NamedSharding"


def edits_for_new_context(site: Site, node: ast.expr) -> list[Edit] | str:
    """Edits that ask for the mesh of jax.set_mesh; or why they are not made."""
    env = site.file.parent(node)
    if isinstance(env, ast.Assign) and env.value is node:
        return _rewrite_named_resources(site, env)
    if not isinstance(env, ast.Attribute) or env.attr != "env":
        return _OTHERWISE
    kept = site.file.parent(env)
    if not isinstance(kept, ast.Assign):
        return _mesh_as_new(site, kept)
    uses = _reads_of_mesh(site, env)
    if not uses:
        return _OTHERWISE
    edits: list[Edit] = []
    for use in uses:  # `env = pxla.thread_resources.env`, and `env.physical_mesh` below
        new = _mesh_as_new(site, site.file.parent(use))
        if isinstance(new, str):
            return new
        edits += new
    gone = _remove_whole_line(site, kept)
    return [*edits, gone] if gone is not None else _OTHERWISE


def _rewrite_named_resources(site: Site, statement: ast.Assign) -> list[Edit] | str:
    """The same for `resources = pxla.thread_resources`, and `resources.env.physical_mesh` below."""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name) or is_used_elsewhere(site, target.id):
        return _OTHERWISE
    scope = site.file.evaluation_scope(target)
    if scope.kind == "class" or len(site.file.bindings(scope, target.id)) > 1:
        return _OTHERWISE
    edits: list[Edit] = []
    for use in site.file.find_mentions(target.id):
        if not isinstance(use, ast.Name) or lookup_bindings(site.file, use, target.id)[1] is not scope or use is target:
            continue
        env = site.file.parent(use)
        if not isinstance(env, ast.Attribute) or env.attr != "env":
            return _OTHERWISE
        new = _mesh_as_new(site, site.file.parent(env))
        if isinstance(new, str):
            return new
        edits += new
    gone = _remove_whole_line(site, statement)
    return [*edits, gone] if edits and gone is not None else _OTHERWISE


def _mesh_as_new(site: Site, mesh: ast.AST | None) -> list[Edit] | str:
    """The same for one `thread_resources.env.physical_mesh`."""
    if not isinstance(mesh, ast.Attribute) or not isinstance(mesh.ctx, ast.Load) or mesh.attr != "physical_mesh":
        return _OTHERWISE
    reads = _reads_of_mesh(site, mesh)
    if reads is None:
        return "the mesh is stored, and its later uses are not known"
    new = _ABSTRACT
    for read in reads:
        if (
            _works_without_devices(site, read)
            or _devices_shape_read(site, read) is not None
            or _answered_by_callers(site, read)
        ):
            continue
        if not site.allows("jax", ">=0.8.1") or not runs_on_the_host(site, read):
            what = site.text(site.file.parent(read) or read)
            return f"`{_shorten_text(what)}` may need the devices, which an abstract mesh does not have"
        new = _CONCRETE
    if new == _CONCRETE and not all(runs_on_the_host(site, read) for read in [mesh, *reads]):
        return "it is read in traced code, where jax.sharding.get_mesh() raises"
    name, imports = site.spell(new)
    edits = [*imports]
    for read in reads if new == _ABSTRACT else ():
        sizes = _devices_shape_read(site, read)
        if sizes is not None:
            text = f"{name}()" if read is mesh else site.text(read)
            edits.append(site.replace(sizes, f"{text}.axis_sizes"))
    if reads != [mesh] or new == _CONCRETE or _devices_shape_read(site, mesh) is None:
        edits.append(site.replace(mesh, f"{name}()"))
    return edits


def _devices_shape_read(site: Site, read: ast.expr) -> ast.Attribute | None:
    """`mesh.devices.shape` around a read of the mesh: a mesh without devices has the same as `axis_sizes`."""
    devices = site.file.parent(read)
    shape = site.file.parent(devices) if isinstance(devices, ast.Attribute) and devices.attr == "devices" else None
    return shape if isinstance(shape, ast.Attribute) and shape.attr == "shape" else None


def _answered_by_callers(site: Site, read: ast.expr, depth: int = _CALLS) -> bool:
    """Return whether a function returns the read, and all uses of its result in its callers work."""
    function = site.file.evaluation_scope(read).enclosing_function()
    node = function.node if function is not None else None
    if not isinstance(site.file.parent(read), ast.Return) or not isinstance(node, ast.FunctionDef) or not depth:
        return False
    if node.decorator_list:
        return False
    ends = site.program.flow.in_sight(site.file, node).found
    for end in ends:
        call = end.place.node
        if end.kind != "called" or end.wrappers or not isinstance(call, ast.Call):
            return False
        there = Site(site.program, end.place.file, call, Api("", ""), "name", site.targets, site.rule)
        reads = _reads_of_mesh(there, call)
        if reads is None:
            return False
        if not all(
            _works_without_devices(there, one) or _answered_by_callers(there, one, depth - 1) for one in reads
        ):
            return False
    return bool(ends)


def _remove_whole_line(site: Site, statement: ast.stmt) -> Edit | None:
    """The edit that takes a statement and its line away; None where it shares the line."""
    source = site.file.source
    start, end = source.line_starts[statement.lineno - 1], site.file.character_span(statement)[1]
    last = statement.end_lineno or statement.lineno
    stop = source.line_starts[last] if last < len(source.line_starts) else len(source.text)
    if source.text[start : site.file.character_span(statement)[0]].strip() or source.text[end:stop].strip():
        return None
    if enclosing_block(site.file, statement) == [statement]:
        return None
    return Edit(start, stop, "")


def _reads_of_mesh(site: Site, mesh: ast.expr) -> list[ast.expr] | None:
    """The mesh expression, or the reads of the name it is given."""
    parent = site.file.parent(mesh)
    if not isinstance(parent, ast.Assign):
        return [mesh]
    target = parent.targets[0]
    if len(parent.targets) != 1 or not isinstance(target, ast.Name):
        return None
    scope = site.file.evaluation_scope(target)
    if scope.kind != "function" or target.id in scope.outer_names:
        return None
    reads: list[ast.expr] = []
    for node in site.file.find_mentions(target.id):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        bindings, _ = lookup_bindings(site.file, node, target.id)
        if any(binding.node is target for binding in bindings):
            if len(bindings) > 1:
                return None
            reads.append(node)
    return reads


def _shorten_text(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _works_without_devices(site: Site, read: ast.expr) -> bool:
    """Return whether a mesh without devices is enough for a read."""
    parent = site.file.parent(read)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _SHARED
    if isinstance(parent, ast.Compare) and all(isinstance(one, ast.Is | ast.IsNot) for one in parent.ops):
        return all(
            one is read or (isinstance(one, ast.Constant) and one.value is None)
            for one in (parent.left, *parent.comparators)
        )
    call = site.file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is read:
        return False
    callee = options(site.value(call.func))
    if not all(isinstance(one, Api) for one in callee):
        return False
    names = {one.name for one in callee if isinstance(one, Api)}
    if names == {_SHARD_MAP}:
        return isinstance(parent, ast.keyword) or (len(call.args) > 1 and call.args[1] is read)
    if names != {_NAMED}:
        return False
    outer = site.file.parent(call)
    outer = site.file.parent(outer) if isinstance(outer, ast.keyword) else outer
    if isinstance(outer, ast.Call):
        constrains = options(site.value(outer.func))
        if all(isinstance(one, Api) and one.name == _CONSTRAINT for one in constrains):
            return True
    return site.program.region(site.file, read).traced == "always"

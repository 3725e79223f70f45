"""The fix of SL214 where no mesh has a name in the traced code: its calls on the host go under `jax.set_mesh(mesh)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from shardlint.model.mesh.contexts import BRING_A_MESH
from shardlint.model.mesh.meshes import Spec
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Place, Value, options
from shardlint.rewrite.indent import indent_unit
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.enclosing import block_of
from shardlint_rules.jit._mesh_meant import NO_MESH, mesh_meant

_DEPTH = 6
_MOST = 8
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


class NotWrapped(Exception):
    """Why the calls stay as they are."""


@dataclass(frozen=True)
class _Group:
    """Statements of one block that follow each other, or the loop that is all of them, and the mesh that they need."""

    statements: tuple[ast.stmt, ...]
    mesh: str


def under_the_mesh(site: Site, specs: Sequence[Spec]) -> tuple[list[Edit], str]:
    """The edits, and what they write. Raises `NotWrapped`.

    All calls are known, and in this file; each has a name for the mesh.
    """
    if site.region.traced != "always" or not site.region.proven:
        raise NotWrapped("it is not always traced")
    calls = list(dict.fromkeys(_host_calls(site, Place(site.file, site.call), 0)))
    if not calls or len(calls) > _MOST:
        raise NotWrapped("its calls are unknown" if not calls else "it is called in many places")
    return _wrapped(site, [(call, _mesh(site, call, specs)) for call in calls])


def around_call(site: Site, call: Place, specs: Sequence[Spec]) -> tuple[list[Edit], str]:
    """The same for one call of this file on the host. Raises `NotWrapped`."""
    if call.file is not site.file or site.program.region(call.file, call.node).traced not in ("never", "unknown"):
        raise NotWrapped("the call may be traced, or is in another file")
    return _wrapped(site, [(call, _mesh(site, call, specs))])


def _wrapped(site: Site, calls: Sequence[tuple[Place, str]]) -> tuple[list[Edit], str]:
    """The edits that put calls of this file under meshes, and what they write. Raises `NotWrapped`."""
    enter, imports = site.spell("jax.set_mesh") if site.allows("jax", ">=0.7.1") else ("", ())
    edits = list(imports)
    shown = ""
    for group in _grouped(site, calls):
        manager = f"{enter}({group.mesh})" if enter else group.mesh
        edits += _indented(site, group, manager)
        shown = shown or f"with {manager}:"
    return edits, shown


def _host_calls(site: Site, place: Place, depth: int) -> Iterator[Place]:
    """The calls outside traced code, without a mesh, that come to a place."""
    scope = place.file.home(place.node).function()
    if scope is None or depth > _DEPTH:
        raise NotWrapped("its calls are unknown")
    ends = site.program.flow.ends(place.file, scope.node)
    if not ends.complete:
        raise NotWrapped("unseen code may call it")
    for end in ends.found:
        if end.kind != "called":
            continue
        if any(one.api in BRING_A_MESH for one in end.wrappers):
            raise NotWrapped("a shard_map brings its own mesh")
        if list(site.program.contexts.entered(end.place.file, end.place.node)):
            continue  # that call has its mesh
        region = site.program.region(end.place.file, end.place.node)
        if region.traced == "always":
            yield from _host_calls(site, end.place, depth + 1)
        elif region.traced == "never" or end.place.file.home(end.place.node).function() is None:
            if end.place.file is not site.file:
                where = f"{end.place.file.path.name}:{end.place.line}"
                raise NotWrapped(f"the call without a mesh is in another file, {where}")
            yield end.place
        else:
            raise NotWrapped("it is not always called outside traced code")


def _mesh(site: Site, call: Place, specs: Sequence[Spec]) -> str:
    there = Site(site.program, call.file, call.node, Api("", ""), "name", site.targets, site.rule)
    name = mesh_meant(there, specs).name
    if name is None:
        raise NotWrapped(f"{NO_MESH}, nor at its calls")
    bindings, scope = lookup(call.file, call.node, name.partition(".")[0])
    here = call.file.home(call.node)
    if scope is here and any(one.kind != "param" and getattr(one.node, "lineno", 0) >= call.line for one in bindings):
        raise NotWrapped(f"`{name}` is assigned only after the call")
    if "." not in name and not all(map(partial(_takes_constraints, there), _values(there, name))):
        raise NotWrapped(f"not all axes of `{name}` are Auto, and a constraint to others raises")
    return name


def _values(there: Site, name: str) -> Iterator[Value]:
    """What a name may be at a place; for a parameter, what the calls that are seen give."""
    for binding in lookup(there.file, there.syntax, name)[0]:
        value = there.program.evaluator.binding(there.file, binding)
        yield from options(there.program.followed(value))


def _takes_constraints(there: Site, value: Value) -> bool:
    mesh = there.mesh_of(value)
    return mesh is None or there.shardings.axis_types(mesh) == "auto"


def _grouped(site: Site, calls: Sequence[tuple[Place, str]]) -> Iterator[_Group]:
    meshes = {site.file.statement(call.node): mesh for call, mesh in calls}
    done: set[ast.stmt] = set()
    for statement, mesh in sorted(meshes.items(), key=lambda one: one[0].lineno):
        if statement in done:
            continue
        block = _block(site, statement)
        run = [statement]
        for following in block[block.index(statement) + 1 :]:
            if meshes.get(following) != mesh:
                break
            run.append(following)
        done.update(run)
        loop = site.file.parent(statement)
        while isinstance(loop, ast.For | ast.While) and loop.body == run and not loop.orelse:
            run, loop = [loop], site.file.parent(loop)
        yield _Group(tuple(run), mesh)


def _block(site: Site, statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(site.file.parent(statement), ast.ClassDef):
        raise NotWrapped(f"no `with` fits around the call at line {statement.lineno}")
    return block_of(site.file, statement)


def _indented(site: Site, group: _Group, manager: str) -> Iterator[Edit]:
    """The `with`, and its block one step to the right; or more lines of the `with` that ends just above."""
    source, first, last = site.file.source, group.statements[0], group.statements[-1]
    begin, (start, _), (_, end) = source.line_starts[first.lineno - 1], site.file.span(first), site.file.span(last)
    indent = source.text[begin:start]
    rest = source.text[end : source.text.find("\n", end) if "\n" in source.text[end:] else len(source.text)].strip()
    if indent.strip() or (rest and not rest.startswith("#")):
        raise NotWrapped(f"the call at line {first.lineno} shares its line with another statement")
    for statement in group.statements:
        if not isinstance(statement, (*_SIMPLE, ast.For, ast.While)):
            raise NotWrapped(f"the statement of the call at line {statement.lineno} is compound")
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno != node.end_lineno:
                raise NotWrapped(f"the call at line {statement.lineno} has a string of several lines")
            if isinstance(node, ast.Lambda | ast.GeneratorExp | ast.Yield | ast.YieldFrom):
                raise NotWrapped(f"line {statement.lineno} has code that runs later")
    above = _above(site, first, manager)
    step = indent_unit(site.file, indent)
    yield Edit(begin, begin, step if above else f"{indent}with {manager}:{source.newline}{step}")
    for line in range(first.lineno + 1, (last.end_lineno or last.lineno) + 1):
        if source.line(line).strip():
            at = source.line_starts[line - 1]
            yield Edit(at, at, step)


def _above(site: Site, statement: ast.stmt, manager: str) -> ast.With | None:
    """The `with` of the same mesh that ends on the line above."""
    block = _block(site, statement)
    place = block.index(statement)
    before = block[place - 1] if place else None
    if not isinstance(before, ast.With) or len(before.items) > 1 or before.items[0].optional_vars is not None:
        return None
    same = site.text(before.items[0].context_expr) == manager and before.end_lineno == statement.lineno - 1
    return before if same and before.body[0].lineno > before.lineno and before.body[0].col_offset else None

"""Uses of single devices or coroutines under which `with jax.set_mesh(mesh):` changes the program.

Under jax.set_mesh new arrays are on the mesh, whatever the default device is, and so is every computation: an array
that is committed to one device, or to other devices, cannot take part. Under `with mesh:` both are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.location import Location
from shardlint.facts.set_mesh.calls_in_block import (
    BlockCalls,
    code_run_during_yield,
    find_calls_in_block,
    possible_api_names,
)
from shardlint.facts.single_devices import is_device, is_single_device
from shardlint.model.mesh.meshes import Mesh
from shardlint.model.signatures import parameters_of_definition
from shardlint.model.values import Api, CallResult, Constant, Place, options
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_DEFAULT = "jax.default_device"
_PUT = "jax.device_put"
_COPIES = ("numpy.", "jax.device_get")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
# `mesh.devices.flat[0]`, `mesh.devices[0, 0]`: one element of an array of devices.
_ELEMENT = compile_lazily(r"devices\b.*\[[^:\[\]]*\]$")
# `jax.devices()[:4]`, `devices[4:]`: some of the devices.
_SOME = compile_lazily(r"devices\b.*\[[^\]]*:[^\]]*\]")
_DEPTH = 3


def find_obstacle(location: Location, statement: ast.With | ast.AsyncWith, run: BlockCalls, mesh: Mesh | None) -> str:
    """Why a `with` block would be another program under jax.set_mesh, with the line that makes it one; else empty."""
    return (
        _coroutines_while_entered(location, statement)
        or _default_device(location, statement, run)
        or _committed_array_used(location, statement, run, mesh)
    )


def _coroutines_while_entered(location: Location, statement: ast.With | ast.AsyncWith) -> str:
    """Other coroutines that run while the block is entered."""
    blocks = [Place(location.file, statement)]
    if any(isinstance(part, ast.Yield) for part in _nodes_outside_functions(statement)):
        blocks += code_run_during_yield(location.program, blocks[0]) or ()
    for block in blocks:
        of_async = isinstance(block.file.evaluation_scope(block.node).node, ast.AsyncFunctionDef)
        for part in _nodes_outside_functions(block.node):
            waits = isinstance(part, _WAITS) or (isinstance(part, ast.comprehension) and part.is_async)
            if waits or (of_async and isinstance(part, ast.Yield)):
                node = part.iter if isinstance(part, ast.comprehension) else part
                what = "yield" if isinstance(part, ast.Yield) else "await"
                return (
                    f"the {what} at {location.where(Place(block.file, node))} lets other coroutines run inside the "
                    "block; jax.set_mesh sets the mesh of the thread, and the "
                    "first coroutine that leaves unsets it for all"
                )
    return ""


def _nodes_outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a block, except those in functions inside it."""
    assert isinstance(node, ast.With | ast.AsyncWith | ast.FunctionDef | ast.AsyncFunctionDef)
    rest: list[ast.AST] = [*node.body]
    while rest:
        part = rest.pop()
        yield part
        if not isinstance(part, _FUNCTIONS):
            rest += ast.iter_child_nodes(part)


def _default_device(location: Location, statement: ast.With | ast.AsyncWith, run: BlockCalls) -> str:
    """A default device that holds in the block: chosen by the configuration, around it, in it, or by a caller."""
    for file in _files_holding(location, "default_device"):
        for call in (one for scope in file.inner_scopes(file.module) for one in scope.calls):
            place = Place(file, call)
            if _sets_default(location, place) or (
                _DEFAULT in possible_api_names(location.program, place) and _holds_in(location, place, statement, run)
            ):
                text = " ".join(file.source_text(call).split())
                return (
                    f"`{text}` at {location.where(place)} puts new arrays on one device; under jax.set_mesh they are "
                    "replicated over the mesh"
                )
    return ""


def _sets_default(location: Location, place: Place) -> bool:
    """Return whether a call is `jax.config.update("jax_default_device", device)`."""
    match place.node:
        case ast.Call(func=ast.Attribute(attr="update"), args=[ast.Constant(value="jax_default_device"), device]):
            return location.program.value(place.file, device) != Constant(None)
    return False


def _holds_in(location: Location, place: Place, statement: ast.With | ast.AsyncWith, run: BlockCalls) -> bool:
    """Return whether a `jax.default_device(...)` is active where a block runs. True also if its own block is not
    known.
    """
    item = place.file.parent(place.node)
    outer = place.file.parent(item) if isinstance(item, ast.withitem) else None
    if not isinstance(outer, ast.With | ast.AsyncWith):
        return True
    if outer is statement or outer in location.file.ancestors(statement) or statement in place.file.ancestors(outer):
        return True
    inside = {part for part in walk_nodes(statement) if isinstance(part, ast.Call)}
    around = find_calls_in_block(location.program, Place(place.file, outer))
    return any(one.node in inside for one in around.calls) or any(one.node is place.node for one in run.calls)


def _committed_array_used(
    location: Location, statement: ast.With | ast.AsyncWith, run: BlockCalls, mesh: Mesh | None
) -> str:
    """An array of the program that is committed to one device, or to other devices than those of the mesh."""
    for file in _files_holding(location, "device_put", "device="):
        for place, target in _list_placements(location, file):
            if _is_unrelated(location, place, statement, run):
                continue
            text = " ".join(place.source_text().split())
            where = location.where(place)
            if _is_one_device(location, target, _DEPTH):
                return (
                    f"`{text}` at {where} commits an array to one device; under jax.set_mesh computing with it and an "
                    "array of the mesh raises"
                )
            if mesh is not None and _is_elsewhere(location, target, mesh):
                return (
                    f"`{text}` at {where} commits an array to the devices of another mesh; under jax.set_mesh "
                    "computing with it and an array of this mesh raises"
                )
    return ""


def _is_unrelated(location: Location, place: Place, statement: ast.With | ast.AsyncWith, run: BlockCalls) -> bool:
    """True if a placement is in a function that shares no caller, and no class, with the function around the block."""
    placing, around = place.scope.enclosing_function(), location.file.evaluation_scope(statement).enclosing_function()
    if placing is None or any(one.node is place.node for one in run.calls):
        return False
    if placing.node in location.file.ancestors(statement):
        return False
    if _is_test(location, place) or around is None:
        return _is_test(location, place)
    mine, theirs = (
        _find_callers(location, Place(location.file, around.node)),
        _find_callers(location, Place(place.file, placing.node)),
    )
    return mine.isdisjoint(theirs)


def _is_test(location: Location, place: Place) -> bool:
    function = place.scope.enclosing_function()
    name = getattr(function.node, "name", "") if function is not None else ""
    return name.startswith("test") and location.program.project.is_test(place.file.path)


def _find_callers(location: Location, function: Place, depth: int = _DEPTH) -> set[ast.AST]:
    """A function, its class, and the functions and modules that call it, directly or not."""
    found = {function.node, *(one for one in function.file.ancestors(function.node) if isinstance(one, ast.ClassDef))}
    assert isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for call in location.program.flow.ends(function.file, function.node).direct_calls() if depth else ():
        caller = call.scope.enclosing_function()
        found |= (
            {call.file.tree}
            if caller is None
            else _find_callers(location, Place(call.file, caller.node), depth - 1)
        )
    return found


def _list_placements(location: Location, file: FileFacts) -> Iterator[tuple[Place, Place]]:
    """The calls of a file that place arrays, each with where to."""
    for mention in file.find_mentions("device_put"):
        call = file.parent(mention)
        if isinstance(call, ast.Call) and call.func is mention and len(call.args) > 1:
            place = Place(file, call)
            if _PUT in possible_api_names(location.program, place) and not _leaves_the_device(location, file, call):
                yield place, Place(file, call.args[1])
    for keyword in file.find_mentions("device"):
        call = file.parent(keyword)
        if isinstance(keyword, ast.keyword) and isinstance(call, ast.Call):
            called = options(location.program.value(file, call.func))
            if any(isinstance(one, Api) and one.name.startswith(("jax.", "functools.")) for one in called):
                yield Place(file, call), Place(file, keyword.value)


def _leaves_the_device(location: Location, file: FileFacts, call: ast.Call) -> bool:
    """Return whether the result of a call is only copied on, to the host or elsewhere: `np.asarray(jax.device_put(x,
    cpu))`.
    """
    outer = file.parent(call)
    if not isinstance(outer, ast.Call) or call not in outer.args[:1]:
        return False
    return all(
        one == _PUT or one.startswith(_COPIES)
        for one in possible_api_names(location.program, Place(file, outer)) or {""}
    )


def _is_one_device(location: Location, target: Place, depth: int) -> bool:
    node = target.node
    at = Location(location.program, target.file, node, location.targets)
    if (
        is_device(at, node)
        or (is_single_device(at, node) and _is_a_call(at, node))
        or _ELEMENT.search(target.source_text())
    ):
        return True
    if not isinstance(node, ast.Name) or not depth:
        return False
    bindings, scope = lookup_bindings(target.file, node, node.id)
    if [one.kind for one in bindings] == ["assign"] and bindings[0].value is not None:
        return _is_one_device(location, Place(target.file, bindings[0].value), depth - 1)
    function = scope.node if scope is not None else None
    if [one.kind for one in bindings] != ["param"] or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    for called in location.program.flow.ends(target.file, function).direct_calls():
        arguments = location.program.evaluator.read_arguments(called)
        given = parameters_of_definition(function).bind_arguments(arguments) or {}
        if node.id in given and _is_one_device(location, given[node.id], depth - 1):
            return True
    return False


def _is_a_call(location: Location, node: ast.AST) -> bool:
    return any(isinstance(one, CallResult) for one in options(location.value(node)))


def _is_elsewhere(location: Location, target: Place, mesh: Mesh) -> bool:
    """Return whether a sharding is over another mesh, and one of the two is made of some of the devices."""
    at = Location(location.program, target.file, target.node, location.targets)
    for option in options(location.program.evaluator.value(target)):
        parts = at.sharding_parts(option)
        other = at.mesh_of(parts[0]) if parts is not None else None
        if other is not None and other.place.node is not mesh.place.node:
            if any(_SOME.search(one.place.source_text()) for one in (mesh, other)):
                return True
    return False


def _files_holding(location: Location, *texts: str) -> Iterator[FileFacts]:
    """The files that run with the location and hold a text, tests only where it is one."""
    project = location.program.project
    tests = project.is_test(location.file.path)
    for file in project.files_holding(location.file.path, texts):
        if file is not None and (file is location.file or tests or not project.is_test(file.path)):
            yield file

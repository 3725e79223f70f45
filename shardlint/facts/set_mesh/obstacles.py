"""Why a `with mesh:` cannot become `with jax.set_mesh(mesh):`, and what must change together with it."""

from __future__ import annotations

import ast

from shardlint.facts.explicit_axes import written_for_auto
from shardlint.facts.location import Location
from shardlint.facts.made_meshes import files_making_meshes, meshes_made_in
from shardlint.facts.name_uses import is_module_imported, uses_any
from shardlint.facts.set_mesh.argument_origins import why_arguments_refused
from shardlint.facts.set_mesh.calls_in_block import (
    BlockCalls,
    find_calls_in_block,
    goes_through_transform,
    possible_api_names,
)
from shardlint.facts.set_mesh.host_code import is_run_on_host
from shardlint.facts.set_mesh.old_context_readers import find_readers
from shardlint.facts.set_mesh.other_devices import find_obstacle
from shardlint.facts.shardings import CONSTRAINTS
from shardlint.model import Program
from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import Mesh, spec_of
from shardlint.model.values import Api, CallResult, Place, options
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_HALIAX = "haliax before 1.4.dev419 reads only the mesh of `with mesh:`"
_HALIAX_JITS = "`fsdp` and `named_jit(in_axis_resources=...)` of haliax reject arrays created under jax.set_mesh"
_FLAX = "flax before 0.11.2 reads only the mesh of `with mesh:`"
# The parts of Flax that look for a mesh in context.
_FLAX_READS = (
    "nnx",
    "Partitioned",
    "LogicallyPartitioned",
    "logical_axis_rules",
    "with_logical_constraint",
    "with_logical_partitioning",
    "with_partitioning",
)
_ARGUMENT_SHARDINGS = ("in_axis_resources", "fsdp")
_EAGER = (
    "`{}` at {} constrains outside jit by a bare spec, which raises under jax.set_mesh for an array on one device"
)
_PMAP = "`{}` at {} runs pmap, which raises under jax.set_mesh"
_FOR_PMAP = "`{}` at {} lays arrays out for pmap, which raises under jax.set_mesh"
# What makes an array of one row a device, which pmap takes.
_ROWS = frozenset({
    "flax.jax_utils.replicate", "flax.jax_utils.prefetch_to_device", "flax.training.common_utils.shard",
    "flax.training.common_utils.shard_prng_key", "jax.device_put_replicated", "jax.device_put_sharded",
})  # fmt: skip
_NEVER_ENTERED = "jax.sharding.AbstractMesh"  # a `with` statement that enters it raises


def code_changing_together(location: Location, node: ast.With | ast.AsyncWith) -> list[str]:
    """Return the code that must change together with a `with mesh:` when it becomes `with jax.set_mesh(mesh):`."""
    run = find_calls_in_block(location.program, Place(location.file, node))
    return [*find_readers(location).said, *libraries_of_old_context(location), *_code_run_in_block(location, run)]


def libraries_of_old_context(location: Location, joined: bool = False) -> list[str]:
    """Libraries that read only the old context on the project's releases, as far as code that runs with the location
    uses that part, and those that work differently under `jax.set_mesh`.

    `joined` counts all that must change together with its file.
    """
    found = []
    if is_module_imported(location, "haliax", joined):
        if haliax_reads_old_mesh(location):
            found.append(_HALIAX)
        elif location.program.once(
            location.file, "jits of haliax", lambda: _calls_haliax_jits(location, joined), joined
        ):
            found.append(_HALIAX_JITS)
    if not location.targets.is_release_in("flax", ">=0.11.2") and is_module_imported(location, "flax", joined):
        if uses_any(location, _FLAX_READS, joined):
            found.append(_FLAX)
    return found


def haliax_reads_old_mesh(location: Location) -> bool:
    """Return whether the project's haliax may read only the mesh of `with mesh:`. Of a pinned 1.4 the number of the
    development release is unknown.
    """
    return not location.allows("haliax", ">=1.4") or location.pinned("haliax", ">=1.4")


def _calls_haliax_jits(location: Location, joined: bool) -> bool:
    """Return whether code passes shardings of arguments to haliax, which jax.jit then compares with the arguments."""
    program = location.program
    for file in program.project.files_holding(location.file.path, _ARGUMENT_SHARDINGS, joined):
        if file is None:
            return True
        if any(isinstance(node, ast.keyword) for node in file.find_mentions("in_axis_resources")):
            return True
        for node in file.find_mentions("fsdp"):
            if isinstance(node, ast.Name | ast.Attribute):
                values = options(program.value(file, node))
                if any(isinstance(one, Api) and one.name == "haliax.fsdp" for one in values):
                    return True
    return False


def _code_run_in_block(location: Location, run: BlockCalls) -> list[str]:
    """Return the code that runs in a block, itself or in the functions it calls, and raises under jax.set_mesh."""
    found = []
    for place in run.calls:
        if _is_eager_bare_spec(location.program, place):
            found.append(_EAGER.format(_quote_place(place), location.where(place)))
            break
    for place in run.calls:
        if _is_made_by_pmap(location.program, place):
            found.append(_PMAP.format(_quote_place(place), location.where(place)))
            break
    else:
        rows = next((place for place in run.calls if possible_api_names(location.program, place) & _ROWS), None)
        if rows is not None:
            found.append(_FOR_PMAP.format(_quote_place(rows), location.where(rows)))
    return [*found, run.more] if run.more else found


def _quote_place(place: Place) -> str:
    assert isinstance(place.node, ast.Call)
    return place.file.source_text(place.node.func)


def _is_made_by_pmap(program: Program, place: Place) -> bool:
    assert isinstance(place.node, ast.Call)
    return any(goes_through_transform(one, "jax.pmap") for one in options(program.value(place.file, place.node.func)))


def _is_eager_bare_spec(program: Program, place: Place) -> bool:
    call = place.node
    assert isinstance(call, ast.Call)
    for name in possible_api_names(program, place) & set(CONSTRAINTS):
        given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == CONSTRAINTS[name])]
        values = [one for node in given for one in options(program.value(place.file, node))]
        if any(spec_of(one, program.evaluator) is not None for one in values):
            return True
    return False


def reason_to_keep(
    location: Location, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext
) -> str:
    """Why a `with mesh:` cannot become `with jax.set_mesh(mesh):`, whatever moves with it; empty where it can."""
    if item.optional_vars is not None and not _can_bind_first(location.file, statement, item):
        return (
            f"`as {location.text(item.optional_vars)}` at line {item.context_expr.lineno} takes the mesh, and "
            "jax.set_mesh returns None: bind the mesh in a statement above first"
        )
    return _find_reason_to_keep(location, statement, item.context_expr, context)


def reason_to_keep_stack(location: Location, call: ast.Call, entered: ast.expr, context: MeshContext) -> str:
    """Why `stack.enter_context(mesh)` cannot become that of `jax.set_mesh(mesh)`; empty where it can: the stack is one
    of a `with` of the same function, and nothing else must move with it."""
    stack = call.func.value if isinstance(call.func, ast.Attribute) else None
    bindings, scope = lookup_bindings(location.file, stack, stack.id) if isinstance(stack, ast.Name) else ((), None)
    item = location.file.parent(bindings[0].node) if len(bindings) == 1 else None
    statement = location.file.parent(item) if isinstance(item, ast.withitem) else None
    if (
        not isinstance(statement, ast.With)
        or not isinstance(item, ast.withitem)
        or scope is not location.file.evaluation_scope(call)
    ):
        name = location.text(stack) if stack is not None else ""
        return f"the stack `{name}` is not opened by a `with` of this function"
    opened = options(location.value(item.context_expr))
    made = [one.by if isinstance(one, CallResult) else one for one in opened]
    if not all(isinstance(one, Api) and one.name == "contextlib.ExitStack" for one in made):
        return f"`{location.text(item.context_expr)}` at line {item.context_expr.lineno} may not be an ExitStack"
    if not isinstance(location.file.parent(call), ast.Expr):
        return f"line {call.lineno} uses the mesh that enter_context returns, and jax.set_mesh returns None"
    if moves := [*find_readers(location).said, *libraries_of_old_context(location)]:
        return f"the program also reads the old mesh context: {'; '.join(moves)}"
    return _find_reason_to_keep(location, statement, entered, context)


def _find_reason_to_keep(
    location: Location,
    statement: ast.With | ast.AsyncWith,
    mesh: ast.expr,
    context: MeshContext,
) -> str:
    if not location.allows("jax", ">=0.7.1"):
        return f"{location.release('jax')} has no jax.set_mesh"
    followed = location.program.followed(location.value(mesh))
    meshes = [context.mesh] if context.mesh is not None else [location.mesh_of(one) for one in options(followed)]
    known = [mesh for mesh in meshes if mesh is not None]
    if (not known or len(known) < len(meshes)) and not _have_all_auto_axes(location):
        return (
            f"shardlint does not see where `{location.text(mesh)}` is made, and some mesh of the project may have "
            "Explicit axes, which change the types of arrays under jax.set_mesh"
        )
    explicit = next((one for one in known if not _has_auto_axes(location, one)), None)
    if explicit is not None:
        return f"the mesh made at {location.where(explicit.place)} has axes that are not Auto"
    run = find_calls_in_block(location.program, Place(location.file, statement))
    if location.program.region(location.file, statement).traced in ("always", "sometimes"):
        return f"line {statement.lineno} runs inside jit, where jax.set_mesh raises"
    if not is_run_on_host(location, statement, run):
        function = location.file.evaluation_scope(statement).enclosing_function()
        name = getattr(function.node, "name", "the function") if function is not None else "the function"
        return (
            f"`{name}` may be called inside jit, where jax.set_mesh raises: shardlint sees no caller outside jit"
        )
    other = find_obstacle(location, statement, run, known[0] if len(known) == 1 else None)
    mismatch = why_arguments_refused(location.program, run)
    return "; ".join(filter(None, [*_code_run_in_block(location, run), other, mismatch]))


def _has_auto_axes(location: Location, mesh: Mesh) -> bool:
    """Return whether all axes are Auto, or SL307 makes them so."""
    if location.shardings.axis_types(mesh) == "auto":
        return True
    return mesh.axis_types == "default" and written_for_auto(location, mesh.api)


def _have_all_auto_axes(location: Location) -> bool:
    """Return whether the project makes meshes, and all have Auto axes; those of tests count where it makes no other."""
    return location.program.once(location.file, "all meshes have Auto axes", lambda: _is_asked_for_all(location))


def _is_asked_for_all(location: Location) -> bool:
    for tests in (False, True):
        found = [
            kind
            for file in files_making_meshes(location.program, location.file.path, tests)
            for kind in (_mesh_kinds(location, file) if file is not None else ("",))
        ]
        if found:
            return all(kind == "auto" or (kind and written_for_auto(location, kind)) for kind in found)
    return False


def _mesh_kinds(location: Location, file: FileFacts) -> tuple[str, ...]:
    """Of each mesh made in a file: "auto", what makes it if it is asked for no type of axes, or nothing."""

    def kind_of_mesh(mesh: Mesh | None) -> str:
        if mesh is None:
            return ""
        types = location.shardings.axis_types(mesh)
        return "auto" if types == "auto" else mesh.api if mesh.axis_types == "default" else ""

    made = [mesh for mesh in meshes_made_in(location.program, file) if mesh is None or mesh.api != _NEVER_ENTERED]
    return location.program.answer_for_file(file, "axes of its meshes", lambda: tuple(map(kind_of_mesh, made)))


def item_to_move(location: Location, context: MeshContext) -> ast.withitem | None:
    """The `with` item that enters a mesh, where it can become `jax.set_mesh(mesh)` and nothing else must move with it.
    """
    node = context.place.node
    item = location.file.parent(node) if context.place.file is location.file else None
    statement = location.file.parent(item) if item is not None else None
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With | ast.AsyncWith):
        return None
    if code_changing_together(location, statement) or reason_to_keep(location, statement, item, context):
        return None
    return item


def _can_bind_first(file: FileFacts, statement: ast.With | ast.AsyncWith, item: ast.withitem) -> bool:
    """Return whether `with Mesh(...) as mesh:` can become `mesh = Mesh(...)` and a `with` below it."""
    before = file.source.text[file.source.offset_of(statement.lineno, 0) : file.character_span(statement)[0]]
    bound = {part.id for one in statement.items if one.optional_vars for part in walk_nodes(one.optional_vars)
             if isinstance(part, ast.Name)}  # fmt: skip
    mesh = item.context_expr
    return (
        isinstance(statement, ast.With)
        and (statement.items[0] is item or (isinstance(mesh, ast.Name) and mesh.id not in bound))
        and isinstance(item.optional_vars, ast.Name)
        and not before.strip()
    )

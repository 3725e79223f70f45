"""`with mesh:` and what reads it. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import MESH_MAKERS, Mesh, spec_of
from shardlint.model.mesh.table import files_making_meshes, meshes_made_in
from shardlint.model.reach import lookup_bindings
from shardlint.model.values import Api, CallResult, Constant, Parameter, Place, Value, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.mesh.axis_types import CONSTRAINTS, written_for_auto
from shardlint_rules.mesh.host import is_run_on_host
from shardlint_rules.mesh.one_device import find_obstacle
from shardlint_rules.mesh.origin import why_arguments_refused
from shardlint_rules.mesh.running import (
    Running,
    find_calls_in_block,
    goes_through_transform,
    possible_api_names,
)
from shardlint_rules.upgrade.readers import find_readers, is_module_imported, uses_any

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
_CALLS = 3  # so many calls back an argument is followed


def entered_meshes(
    program: Program, file: FileFacts
) -> Iterator[tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]]:
    """The `with` items of a file that enter a mesh itself."""
    for node in file.with_statements:
        yield from mesh_items(program, file, node)


def mesh_items(
    program: Program, file: FileFacts, node: ast.With | ast.AsyncWith
) -> Iterator[tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]]:
    """The items of one `with` statement that enter a mesh itself."""
    for item in node.items:
        found = program.contexts.context_of_manager(Place(file, item.context_expr))
        if found is not None and found.kind == "with mesh":
            yield node, item, found


def surely_a_mesh(program: Program, file: FileFacts, node: ast.expr) -> bool:
    """Return whether an expression is a mesh: made in the text, annotated as one, or passed by all visible callers."""
    value = program.value(file, node)
    followed = [one for one in options(program.followed(value)) if one != Constant(None)]
    if followed and all(_is_made(one) for one in followed):
        return True
    if program.contexts.said.is_mesh_expression(Place(file, node)):
        return True
    # Where there may be other callers, what it is called has to say the same.
    return last_name(node).lower().endswith("mesh") and all(_is_mesh_passed(program, one) for one in options(value))


def _is_made(value: Value) -> bool:
    return isinstance(value, CallResult) and value.api in MESH_MAKERS


def _is_mesh_passed(program: Program, value: Value, depth: int = _CALLS) -> bool:
    """Return whether there are visible calls, and all pass a mesh for a parameter."""
    if not isinstance(value, Parameter):
        return _is_made(value)
    if program.contexts.said.is_mesh_parameter(value):
        return True
    seen = [
        one
        for given in program.callers.visible_argument_values(value)
        for one in options(given)
        if one != Constant(None)
    ]
    return bool(seen) and depth > 0 and all(_is_mesh_passed(program, one, depth - 1) for one in seen)


def code_changing_together(site: Site, node: ast.With | ast.AsyncWith) -> list[str]:
    """Return the code that must change together with a `with mesh:` when it becomes `with jax.set_mesh(mesh):`."""
    run = find_calls_in_block(site.program, Place(site.file, node))
    return [*find_readers(site).said, *libraries_of_old_context(site), *_code_run_in_block(site, run)]


def libraries_of_old_context(site: Site, joined: bool = False) -> list[str]:
    """Libraries that read only the old context on the project's releases, as far as what runs with the site uses that
    part, and those that work differently under `jax.set_mesh`.

    `joined` counts all that must change together with the site's file.
    """
    found = []
    if is_module_imported(site, "haliax", joined):
        if haliax_reads_old_mesh(site):
            found.append(_HALIAX)
        elif site.program.once(site.file, "jits of haliax", lambda: _calls_haliax_jits(site, joined), joined):
            found.append(_HALIAX_JITS)
    if not site.targets.is_release_in("flax", ">=0.11.2") and is_module_imported(site, "flax", joined):
        if uses_any(site, _FLAX_READS, joined):
            found.append(_FLAX)
    return found


def haliax_reads_old_mesh(site: Site) -> bool:
    """Return whether the project's haliax may read only the mesh of `with mesh:`. Of a pinned 1.4 the number of the
    development release is unknown.
    """
    return not site.allows("haliax", ">=1.4") or site.pinned("haliax", ">=1.4")


def _calls_haliax_jits(site: Site, joined: bool) -> bool:
    """Return whether code passes shardings of arguments to haliax, which jax.jit then compares with the arguments."""
    program = site.program
    for file in program.project.files_holding(site.file.path, _ARGUMENT_SHARDINGS, joined):
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


def _code_run_in_block(site: Site, run: Running) -> list[str]:
    """Return the code that runs in a block, itself or in the functions it calls, and raises under jax.set_mesh."""
    found = []
    for place in run.calls:
        if _is_eager_bare_spec(site.program, place):
            found.append(_EAGER.format(_quote_place(place), site.where(place)))
            break
    for place in run.calls:
        if _is_made_by_pmap(site.program, place):
            found.append(_PMAP.format(_quote_place(place), site.where(place)))
            break
    else:
        rows = next((place for place in run.calls if possible_api_names(site.program, place) & _ROWS), None)
        if rows is not None:
            found.append(_FOR_PMAP.format(_quote_place(rows), site.where(rows)))
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


def reason_to_keep(site: Site, statement: ast.With | ast.AsyncWith, item: ast.withitem, context: MeshContext) -> str:
    """Why a `with mesh:` cannot become `with jax.set_mesh(mesh):`, whatever moves with it; empty where it can."""
    if item.optional_vars is not None and not _can_bind_first(site.file, statement, item):
        return (
            f"`as {site.text(item.optional_vars)}` at line {item.context_expr.lineno} takes the mesh, and jax.set_mesh "
            "returns None: bind the mesh in a statement above first"
        )
    return _find_reason_to_keep(site, statement, item.context_expr, context)


def reason_to_keep_stack(site: Site, call: ast.Call, entered: ast.expr, context: MeshContext) -> str:
    """Why `stack.enter_context(mesh)` cannot become that of `jax.set_mesh(mesh)`; empty where it can: the stack is one
    of a `with` of the same function, and nothing else must move with it."""
    stack = call.func.value if isinstance(call.func, ast.Attribute) else None
    bindings, scope = lookup_bindings(site.file, stack, stack.id) if isinstance(stack, ast.Name) else ((), None)
    item = site.file.parent(bindings[0].node) if len(bindings) == 1 else None
    statement = site.file.parent(item) if isinstance(item, ast.withitem) else None
    if (
        not isinstance(statement, ast.With)
        or not isinstance(item, ast.withitem)
        or scope is not site.file.evaluation_scope(call)
    ):
        return f"the stack `{site.text(stack) if stack is not None else ''}` is not opened by a `with` of this function"
    opened = options(site.value(item.context_expr))
    made = [one.by if isinstance(one, CallResult) else one for one in opened]
    if not all(isinstance(one, Api) and one.name == "contextlib.ExitStack" for one in made):
        return f"`{site.text(item.context_expr)}` at line {item.context_expr.lineno} may not be an ExitStack"
    if not isinstance(site.file.parent(call), ast.Expr):
        return f"line {call.lineno} uses the mesh that enter_context returns, and jax.set_mesh returns None"
    if moves := [*find_readers(site).said, *libraries_of_old_context(site)]:
        return f"the program also reads the old mesh context: {'; '.join(moves)}"
    return _find_reason_to_keep(site, statement, entered, context)


def _find_reason_to_keep(
    site: Site,
    statement: ast.With | ast.AsyncWith,
    mesh: ast.expr,
    context: MeshContext,
) -> str:
    if not site.allows("jax", ">=0.7.1"):
        return f"{site.release('jax')} has no jax.set_mesh"
    followed = site.program.followed(site.value(mesh))
    meshes = [context.mesh] if context.mesh is not None else [site.mesh_of(one) for one in options(followed)]
    known = [mesh for mesh in meshes if mesh is not None]
    if (not known or len(known) < len(meshes)) and not _have_all_auto_axes(site):
        return (
            f"shardlint does not see where `{site.text(mesh)}` is made, and some mesh of the project may have Explicit "
            "axes, which change the types of arrays under jax.set_mesh"
        )
    explicit = next((one for one in known if not _has_auto_axes(site, one)), None)
    if explicit is not None:
        return f"the mesh made at {site.where(explicit.place)} has axes that are not Auto"
    run = find_calls_in_block(site.program, Place(site.file, statement))
    if site.program.region(site.file, statement).traced in ("always", "sometimes"):
        return f"line {statement.lineno} runs inside jit, where jax.set_mesh raises"
    if not is_run_on_host(site, statement, run):
        function = site.file.evaluation_scope(statement).enclosing_function()
        name = getattr(function.node, "name", "the function") if function is not None else "the function"
        return (
            f"`{name}` may be called inside jit, where jax.set_mesh raises: shardlint sees no caller outside jit"
        )
    other = find_obstacle(site, statement, run, known[0] if len(known) == 1 else None)
    mismatch = why_arguments_refused(site.program, run)
    return "; ".join(filter(None, [*_code_run_in_block(site, run), other, mismatch]))


def _has_auto_axes(site: Site, mesh: Mesh) -> bool:
    """Return whether all axes are Auto, or SL307 makes them so."""
    if site.shardings.axis_types(mesh) == "auto":
        return True
    return mesh.axis_types == "default" and written_for_auto(site, mesh.api)


def _have_all_auto_axes(site: Site) -> bool:
    """Return whether the project makes meshes, and all have Auto axes; those of tests count where it makes no other."""
    return site.program.once(site.file, "all meshes have Auto axes", lambda: _is_asked_for_all(site))


def _is_asked_for_all(site: Site) -> bool:
    for tests in (False, True):
        found = [
            kind
            for file in files_making_meshes(site.program, site.file.path, tests)
            for kind in (_mesh_kinds(site, file) if file is not None else ("",))
        ]
        if found:
            return all(kind == "auto" or (kind and written_for_auto(site, kind)) for kind in found)
    return False


def _mesh_kinds(site: Site, file: FileFacts) -> tuple[str, ...]:
    """Of each mesh made in a file: "auto", what makes it if it is asked for no type of axes, or nothing."""

    def kind_of_mesh(mesh: Mesh | None) -> str:
        if mesh is None:
            return ""
        types = site.shardings.axis_types(mesh)
        return "auto" if types == "auto" else mesh.api if mesh.axis_types == "default" else ""

    made = [mesh for mesh in meshes_made_in(site.program, file) if mesh is None or mesh.api != _NEVER_ENTERED]
    return site.program.answer_for_file(file, "axes of its meshes", lambda: tuple(map(kind_of_mesh, made)))


def edits_to_set_mesh(site: Site, context: MeshContext) -> list[Edit] | None:
    """Edits that make `with mesh:` a `with jax.set_mesh(mesh):`, where nothing else must move with it."""
    node = context.place.node
    item = site.file.parent(node) if context.place.file is site.file else None
    statement = site.file.parent(item) if item is not None else None
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With | ast.AsyncWith):
        return None
    if code_changing_together(site, statement) or reason_to_keep(site, statement, item, context):
        return None
    return set_instead(site, item)


def set_instead(site: Site, item: ast.withitem) -> list[Edit]:
    """The edits themselves."""
    name, imports = site.spell("jax.set_mesh")
    node, target = item.context_expr, item.optional_vars
    if target is None:
        return [*site.wrap_in_call(node, name), *imports]
    statement = site.file.parent(item)
    assert isinstance(statement, ast.With)
    line = site.file.source.offset_of(statement.lineno, 0)
    start = site.file.character_span(statement)[0]
    indent = site.file.source.text[line:start]
    lead = f"{indent}{site.text(target)} = "
    text = _move_to_line(site.text(node), len(lead) - (site.file.character_span(node)[0] - line))
    bound = f"{lead}{text}{site.file.source.common_newline}"
    entered = Edit(
        site.file.character_span(node)[0], site.file.character_span(target)[1], f"{name}({site.text(target)})"
    )
    return [Edit(line, line, bound), entered, *imports]


def _move_to_line(text: str, by: int) -> str:
    """An expression whose lines stand below its bracket, written elsewhere on its line."""
    first, *others = text.split("\n")
    if first.rstrip().endswith(("(", "[", "{")) or '"""' in text or "'''" in text:
        return text
    if by < 0:
        others = [line[-by:] if not line[:-by].strip() else line for line in others]
    else:
        others = [" " * by + line for line in others]
    return "\n".join([first, *others])


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

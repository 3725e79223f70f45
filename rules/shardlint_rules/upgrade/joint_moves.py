"""Joint move of a project from `with mesh:` to jax.set_mesh, and the obstacles to it.

Three things read one another: `with mesh:` sets a mesh that pjit and thread_resources see and jax.jit does not,
jax.set_mesh one that only jax.jit and get_abstract_mesh() see. So all of a project's move, or none; the findings
that are in one file share one set of edits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from shardlint.facts.name_uses import is_used_elsewhere
from shardlint.facts.set_mesh.entered_meshes import entered_meshes, surely_a_mesh
from shardlint.facts.set_mesh.obstacles import libraries_of_old_context, reason_to_keep
from shardlint.facts.set_mesh.old_context_readers import manual_mesh_entries as entered_by_hand
from shardlint.facts.set_mesh.old_context_readers import (
    renamed_pjit_imports,
    sets_a_mesh,
    uses_of_pjit,
    uses_of_thread_resources,
)
from shardlint.model import Program
from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import Api, CallResult, Place, options
from shardlint.rules_api.rule import TOGETHER, Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.rules_api.with_items import enter_by_function
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.guards import expected_to_fail
from shardlint.syntax.nodes import child_nodes
from shardlint.syntax.release_guards import is_release_guarded
from shardlint_rules.upgrade import ambient_mesh, pjit

# Where any of it may stand. A docstring costs a parse and no more.
_WHERE = (
    "pjit", "thread_resources", "enter_context(", ".__enter__(", "shard_map", "set_mesh", "use_mesh",
    r"(?:)with\b[^:]{0,200}(?:[mM]esh|MESH)",
    r"(?:)\n[ \t]*+(?:async[ \t]++)?with[ \t(]++[\w.]++\s*+(?:as\b|[:,)\\])",
)  # fmt: skip
_TAKEN = "pjit: another file imports it from this one"
_BY_HAND = "a mesh is or may be entered, but not by a `with` statement of its own"
# Since when `with mesh:` is reported, and so rewritten.
_WARNS = ">=0.10.1"
_SHOWN_MOST = 3
_OTHER_MESH = "shard_map over a mesh that is not the one entered, which raises under jax.set_mesh"


@dataclass(frozen=True)
class Obstacle:
    """One thing that does not move, and why."""

    path: Path | None
    line: int
    why: str

    def describe_with_place(self, here: Path) -> str:
        """With its place, as people say it."""
        if self.path is None:
            return self.why
        return (
            f"line {self.line}: {self.why}"
            if self.path == here
            else f"{self.path.name}:{self.line}: {self.why}"
        )


@dataclass
class Plan:
    """All of a project that would move, and what keeps it. Some of it may have `moved` already."""

    contexts: int = 0
    moved: bool = False
    unsure: bool = False
    """Whether a mesh may be entered where that is not seen."""
    readers: int = 0
    files: list[Path] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)

    def add_file_part(self, part: Plan) -> None:
        """Count in what one file has of it."""
        self.contexts += part.contexts
        self.moved = self.moved or part.moved
        self.unsure = self.unsure or part.unsure
        self.readers += part.readers
        self.files += part.files
        self.obstacles += part.obstacles

    @property
    def can_move(self) -> bool:
        """True if there is something to move, and all of it can."""
        return self.enters_mesh and self.readers > 0 and not self.obstacles

    @property
    def enters_mesh(self) -> bool:
        """True if the project enters a mesh, the old way or the new one."""
        return self.contexts > 0 or self.moved


_Spot = tuple[Path, int, int]
"""Where something is made: a file, a line, a column."""


@dataclass
class _FilePlan:
    """Part of a plan in one file. `mapped` are its shard_maps, each with the places where its mesh is made, if they
    are visible.
    """

    plan: Plan
    made: set[_Spot] = field(default_factory=set)
    """Where the meshes are made that it enters."""
    mapped: list[tuple[Place, frozenset[_Spot]]] = field(default_factory=list)


_Block = tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]


def joint_plan(site: Site) -> Plan:
    """The plan for all that the site's file is joined to by imports."""
    return site.program.once(site.file, "joint plan", lambda: _plan_joint_move(site), joined=True)


def _plan_joint_move(site: Site) -> Plan:
    found = Plan()
    parts: dict[Path, _FilePlan] = {}
    for file in site.program.project.files_holding(site.file.path, _WHERE, joined=True):
        if file is None:
            found.unsure = True
            continue
        part = parts[file.path] = _plan_for_file(site, file)
        found.add_file_part(part.plan)
    if found.unsure:
        found.obstacles += _unsearched_files(site)
    entering = [path for path in found.files if parts[path].plan.contexts]
    made = {spot for part in parts.values() for spot in part.made}
    beside = {
        other
        for path in (entering if any(part.mapped for part in parts.values()) else ())
        for other in site.program.project.paths_holding(path, ("shard_map",))
    }
    found.obstacles += (
        Obstacle(path, call.line, _OTHER_MESH)
        for path, part in parts.items()
        for call, spots in (part.mapped if made and path in beside else ())
        if not spots & made
    )
    found.obstacles += (Obstacle(None, 0, why) for why in libraries_of_old_context(site, joined=True))
    if found.contexts:
        found.obstacles += (Obstacle(None, 0, why) for why in _obstacles_by_release(site))
    return found


def _obstacles_by_release(site: Site) -> list[str]:
    return [] if site.allows("jax", _WARNS) else [f"on {site.release('jax')} `with mesh:` is not yet deprecated"]


def _enters_mesh(site: Site) -> bool:
    """Return whether a file of the project surely enters a mesh by `with mesh:`."""
    return site.program.once(site.file, "enters a mesh", lambda: _find_entry(site), joined=True)


def _find_entry(site: Site) -> bool:
    files = site.program.project.files_holding(site.file.path, _WHERE, joined=True)
    return any(file is not None and any(True for _ in _find_moving_blocks(site, file)) for file in files)


def _unsearched_files(site: Site) -> Iterator[Obstacle]:
    """Yield the files that could not be searched."""
    for path in site.program.project.unreadable_files(site.file.path, _WHERE, joined=True):
        yield Obstacle(path, 1, "this file cannot be parsed, and may enter or read a mesh")


def _plan_for_file(site: Site, file: FileFacts) -> _FilePlan:
    """Return the part of the plan in one file, which is the same for every asking file."""
    return site.program.answer_for_file(file, "joint plan", lambda: _make_file_plan(site, file))


def _make_file_plan(site: Site, file: FileFacts) -> _FilePlan:
    part = _FilePlan(Plan())
    _add_file(site, file, part.plan)
    for _, item, _ in _find_moving_blocks(site, file):
        part.made |= _mesh_creation_places(site, file, item.context_expr)
    for call in _find_shard_maps(site.program, file):
        spots = _mesh_of_shard_map(site, file, call)
        if spots is not None:
            part.mapped.append((Place(file, call), spots))
    return part


def _add_file(site: Site, file: FileFacts, plan: Plan) -> None:
    """Count in what a file enters and reads."""
    plan.moved = plan.moved or sets_a_mesh(site.program, file)
    for what in _find_moving_blocks(site, file):
        plan.contexts += 1
        plan.obstacles += _obstacles_of_block(_site_at_node(site, file, what[1].context_expr), what)
    for node in uses_of_pjit(site.program, file):
        plan.readers += 1
        plan.obstacles += _obstacles_of_pjit(_site_at_node(site, file, node), node)
    for alias in renamed_pjit_imports(file):
        if alias.asname and is_used_elsewhere(_site_at_node(site, file, alias), alias.asname):
            plan.readers += 1
            plan.obstacles.append(Obstacle(file.path, alias.lineno, _TAKEN))
    for node in uses_of_thread_resources(site.program, file):
        plan.readers += 1
        plan.obstacles += _obstacles_of_mesh_read(_site_at_node(site, file, node), node)
    for by_hand in entered_by_hand(site.program, file):
        if any(_is_left_unchanged(file, part) for part in (by_hand, *child_nodes(by_hand))):
            continue  # `jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh`
        plan.unsure = True
        plan.obstacles.append(Obstacle(file.path, by_hand.lineno, _BY_HAND))
    parts = (_find_moving_blocks(site, file), _pjit_uses(site.program, file), _mesh_reads(site.program, file))
    if any(True for part in parts for _ in part):
        plan.files.append(file.path)


def _site_at_node(site: Site, file: FileFacts, node: ast.AST) -> Site:
    """A place elsewhere in the project, to be asked what the site is."""
    return Site(site.program, file, node, Api("", ""), "name", site.targets, site.rule)


def _is_left_unchanged(file: FileFacts, node: ast.AST) -> bool:
    return is_release_guarded(file, node) or expected_to_fail(file, node)


# with blocks


def _find_moving_blocks(site: Site, file: FileFacts) -> Iterator[_Block]:
    for what in entered_meshes(site.program, file):
        if not _is_left_unchanged(file, what[1].context_expr):
            yield what


def _obstacles_of_block(at: Site, block: _Block) -> Iterator[Obstacle]:
    statement, item, context = block
    node = item.context_expr
    text = f"`with {' '.join(at.text(node).split())}:`"
    if not surely_a_mesh(at.program, at.file, node):
        why = f"{text}: nothing shows that it is a mesh; annotate it as jax.sharding.Mesh"
        yield Obstacle(at.file.path, statement.lineno, why)
    elif why := reason_to_keep(at, statement, item, context):
        yield Obstacle(at.file.path, statement.lineno, f"{text}: {why}")


def _mesh_creation_places(site: Site, file: FileFacts, node: ast.expr) -> frozenset[_Spot]:
    """Where the calls are that make a mesh."""
    value = site.program.followed(site.program.value(file, node))
    calls = [one.call.place for one in options(value) if isinstance(one, CallResult) and one.call is not None]
    return frozenset((one.file.path, one.line, getattr(one.node, "col_offset", 0)) for one in calls)


def _find_shard_maps(program: Program, file: FileFacts) -> Iterator[ast.Call]:
    for node in file.find_mentions("shard_map"):
        call = file.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            if any(
                isinstance(one, Api) and one.name == "jax.shard_map"
                for one in options(program.value(file, node))
            ):
                yield call


def _mesh_of_shard_map(site: Site, file: FileFacts, call: ast.Call) -> frozenset[_Spot] | None:
    """Where the mesh of a shard_map is made; None where that is not seen."""
    given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "mesh")]
    if not given:
        return None
    made = options(site.program.value(file, given[0]))
    if not all(isinstance(one, CallResult) and one.api in MESH_MAKERS for one in made):
        return None
    return _mesh_creation_places(site, file, given[0])


# what reads the mesh


def _filter_moving_nodes(file: FileFacts, nodes: Iterable[ast.expr]) -> Iterator[ast.expr]:
    return (node for node in nodes if not _is_left_unchanged(file, node))


def _guard_obstacle(at: Site, node: ast.expr, what: str) -> Iterator[Obstacle]:
    if is_release_guarded(at.file, node) and not expected_to_fail(at.file, node):
        yield Obstacle(at.file.path, node.lineno, f"{what} is chosen by a test of the jax release")


def _obstacles_of_pjit(at: Site, node: ast.expr) -> Iterator[Obstacle]:
    if _is_left_unchanged(at.file, node):
        yield from _guard_obstacle(at, node, "pjit")
        return
    why = pjit.edits_for_jit(at, node, True)
    if isinstance(why, str):
        yield Obstacle(at.file.path, node.lineno, f"pjit: {why}")
        return
    root = _root_name(node)
    if root is not None and isinstance(node, ast.Name) and is_used_elsewhere(at, root.id):
        yield Obstacle(at.file.path, node.lineno, _TAKEN)


def _obstacles_of_mesh_read(at: Site, node: ast.expr) -> Iterator[Obstacle]:
    if _is_left_unchanged(at.file, node):
        yield from _guard_obstacle(at, node, "thread_resources")
        return
    written = {one.written for one in options(at.value(node)) if isinstance(one, Api)}
    why: list[Edit] | str = ambient_mesh.edits_for_new_context(at, node)
    if any("._src." in name for name in written):
        why = "it is imported from the private jax._src"
    if isinstance(why, str):
        yield Obstacle(at.file.path, node.lineno, f"thread_resources: {why}")


# what is done


def make_joint_fix(site: Site) -> Fix | str:
    """All that moves in the site's file, where all of the project can move; or why nothing does.

    A reason that holds for the whole project is the only one given: without it the others would not matter.
    """
    of_project = [*_obstacles_by_release(site), *libraries_of_old_context(site, joined=True)]
    if of_project and _enters_mesh(site):
        return f"{TOGETHER}: {'; '.join(of_project)}"
    kept = _blocked_plan_of_file(site)
    if kept is not None:
        return _describe_obstacles(site, kept)
    found = joint_plan(site)
    if found.can_move:
        return _fix_all_together(site, found)
    if found.enters_mesh or found.unsure:
        return _describe_obstacles(site, found)
    return _fix_pjit_alone(site)


def list_obstacles(site: Site) -> tuple[str, ...]:
    """Return the obstacles to moving the site's project, each with its file and line: in its own file, or else
    anywhere.
    """
    found = (_blocked_plan_of_file(site) or joint_plan(site)).obstacles
    return tuple(dict.fromkeys(reason_with_place(site, one.path, one.line, one.why) for one in found))


def _blocked_plan_of_file(site: Site) -> Plan | None:
    """Return the plan of the site's own file, if that alone keeps all from moving, so that no other file need be
    searched.

    None too for a file with pjit that enters no mesh: what pjit becomes depends on whether another file does.
    """
    here = _plan_for_file(site, site.file).plan
    decided = here.enters_mesh or not any(True for _ in _pjit_uses(site.program, site.file))
    return here if here.obstacles and decided else None


def reason_with_place(site: Site, path: Path | None, line: int, why: str) -> str:
    """A reason with its place, from the root of the project."""
    if path is None:
        return why
    root = site.program.project.root.as_posix()
    return f"{path.as_posix().removeprefix(f'{root}/')}:{line}: {why}"


def _fix_all_together(site: Site, plan: Plan) -> Fix | str:
    edits: list[Edit] = []
    file = site.file
    for _, item, _ in _find_moving_blocks(site, file):
        edits += enter_by_function(_site_at_node(site, file, item.context_expr), item, "jax.set_mesh")
    drops: set[str] = set()
    for node, new in (
        *(
            (node, pjit.edits_for_jit(_site_at_node(site, file, node), node, True))
            for node in _pjit_uses(site.program, file)
        ),
        *(
            (node, ambient_mesh.edits_for_new_context(_site_at_node(site, file, node), node))
            for node in _mesh_reads(site.program, file)
        ),
    ):
        if isinstance(new, str):
            return new
        edits += new
        drops |= _names_no_longer_used(node)
    if not edits:
        return "a test of the jax release chooses it, or a test expects it to fail"
    others = [path.name for path in plan.files if path != file.path]
    why = "new arrays are then replicated over the mesh, and jax.jit rejects them if in_shardings differ"
    if others:
        shown = ", ".join(others[:_SHOWN_MOST]) + (", ..." if len(others) > _SHOWN_MOST else "")
        why += f"; it works only together with the edits in {shown}"
    message = "replace together: `with mesh:` by jax.set_mesh, pjit by jax.jit, thread_resources by get_abstract_mesh"
    return site.fix(
        Safety.UNSAFE,
        message,
        _remove_duplicates(edits),
        why,
        sorted(drops),
        together=[str(path) for path in plan.files],
    )


def _pjit_uses(program: Program, file: FileFacts) -> Iterator[ast.expr]:
    return _filter_moving_nodes(file, uses_of_pjit(program, file))


def _mesh_reads(program: Program, file: FileFacts) -> Iterator[ast.expr]:
    return _filter_moving_nodes(file, uses_of_thread_resources(program, file))


def _fix_pjit_alone(site: Site) -> Fix | str:
    """pjit as jax.jit in a project that enters no mesh by `with`: there the two are the same."""
    edits: list[Edit] = []
    drops: set[str] = set()
    for node in _pjit_uses(site.program, site.file):
        at = _site_at_node(site, site.file, node)
        new = pjit.edits_for_jit(at, node, False)
        root = _root_name(node)
        if isinstance(new, str):
            return Obstacle(site.file.path, node.lineno, new).describe_with_place(site.file.path)
        if not pjit.needs_no_context(at, node):
            return "nothing in the program enters a mesh, so its callers decide"
        if root is not None and isinstance(node, ast.Name) and is_used_elsewhere(at, root.id):
            return Obstacle(site.file.path, node.lineno, _TAKEN).describe_with_place(site.file.path)
        edits += new
        drops |= _names_no_longer_used(node)
    if not edits:
        return "nothing in the program enters a mesh, so its users decide"
    why = "the two differ under a `with mesh:` that other code enters"
    return site.fix(Safety.UNSAFE, "write jax.jit", _remove_duplicates(edits), why, sorted(drops))


def _describe_obstacles(site: Site, plan: Plan) -> str:
    if not plan.obstacles:
        return "a test of the jax release chooses what reads the mesh, or a test expects it to fail"
    first = sorted(plan.obstacles, key=lambda one: one.path != site.file.path)
    shown = "; ".join(one.describe_with_place(site.file.path) for one in first[:_SHOWN_MOST])
    more = f"; and {len(first) - _SHOWN_MOST} more" if len(first) > _SHOWN_MOST else ""
    return f"{TOGETHER}: {shown}{more}"


def _root_name(node: ast.expr) -> ast.Name | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _names_no_longer_used(node: ast.expr) -> set[str]:
    root = _root_name(node)
    return {root.id} if root is not None and root.id != "jax" else set()


def _remove_duplicates(edits: Iterable[Edit]) -> list[Edit]:
    return list(dict.fromkeys(edits))

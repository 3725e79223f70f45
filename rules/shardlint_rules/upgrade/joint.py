"""What moves together when a project leaves `with mesh:` for jax.set_mesh, and what keeps it from moving.

Three things read one another: `with mesh:` sets a mesh that pjit and thread_resources see and jax.jit does not,
jax.set_mesh one that only jax.jit and get_abstract_mesh() see. So all of a project's move, or none; the findings
that are in one file share one set of edits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shardlint.facts import FileFacts
from shardlint.program import Program
from shardlint.program.contexts import MeshContext
from shardlint.program.guards import expected_to_fail, guarded
from shardlint.program.meshes import MESH_MAKERS
from shardlint.program.values import Api, Made, options
from shardlint.rule import Edit, Fix, Safety
from shardlint.site import Site
from shardlint_rules.mesh.legacy import entered, libraries, set_instead, stays, surely_a_mesh
from shardlint_rules.upgrade import ambient, pjit
from shardlint_rules.upgrade.elsewhere import taken_elsewhere

# Where any of it may stand. A docstring costs a parse and no more.
_WHERE = (
    "pjit", "thread_resources", "enter_context(", ".__enter__(", "shard_map", r"(?:)with\b[^:]{0,200}[mM]esh",
)  # fmt: skip
_BY_HAND = re.compile(r"enter_context\(\s*[\w.]*[mM]esh\b|\b[\w.]*[mM]esh\.__enter__\(")
# Since when `with mesh:` is reported, and so rewritten.
_WARNS = ">=0.10.1"
_SHOWN = 3


@dataclass(frozen=True)
class Obstacle:
    """One thing that does not move, and why."""

    path: Path | None
    line: int
    why: str

    def shown(self, here: Path) -> str:
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
    readers: int = 0
    files: list[Path] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)

    @property
    def moves(self) -> bool:
        """Whether there is something to move, and all of it can."""
        return self.entered and self.readers > 0 and not self.obstacles

    @property
    def entered(self) -> bool:
        """Whether the project enters a mesh, the old way or the new one."""
        return self.contexts > 0 or self.moved


_Block = tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]


def plan(site: Site) -> Plan:
    """The plan for the site's project."""
    return site.program.once("joint plan", lambda: _plan(site))


def _plan(site: Site) -> Plan:
    found = Plan(moved=any(map(site.program.project.anywhere, ("set_mesh", "use_mesh"))))
    entered_meshes: set[ast.AST] = set()
    shard_maps: list[tuple[FileFacts, ast.Call]] = []
    for file in site.program.project.holding(_WHERE):
        if file is None:
            found.obstacles.append(Obstacle(None, 0, "too many files have to do with it to look at them all"))
            return found
        before = (found.contexts, found.readers)
        for what in _blocks(site, file):
            found.contexts += 1
            entered_meshes |= _made_at(site, file, what[1].context_expr)
            found.obstacles += _kept_block(_at(site, file, what[1].context_expr), what)
        for node in _pjits(site.program, file):
            found.readers += 1
            found.obstacles += _kept_pjit(_at(site, file, node), node)
        for node in _reads(site.program, file):
            found.readers += 1
            found.obstacles += _kept_read(_at(site, file, node), node)
        found.obstacles += _by_hand(file)
        shard_maps += ((file, call) for call in _shard_maps(site.program, file))
        if before != (found.contexts, found.readers):
            found.files.append(file.path)
    for file, call in shard_maps:
        if _on_another_mesh(site, file, call, entered_meshes):
            why = "shard_map over a mesh that is not the one entered, which raises under jax.set_mesh"
            found.obstacles.append(Obstacle(file.path, call.lineno, why))
    found.obstacles += (Obstacle(None, 0, why) for why in libraries(site.program, site.targets))
    if found.contexts and not site.runs("jax", _WARNS):
        found.obstacles.append(Obstacle(None, 0, f"on {site.on('jax')} `with mesh:` is not yet deprecated"))
    return found


def _at(site: Site, file: FileFacts, node: ast.AST) -> Site:
    """A place elsewhere in the project, to be asked what the site is."""
    return Site(site.program, file, node, Api("", ""), "name", site.targets, site.rule)


def _left(file: FileFacts, node: ast.AST) -> bool:
    return guarded(file, node) or expected_to_fail(file, node)


# with blocks


def _blocks(site: Site, file: FileFacts) -> Iterator[_Block]:
    for what in entered(site.program, file):
        if not _left(file, what[1].context_expr):
            yield what


def _kept_block(at: Site, block: _Block) -> Iterator[Obstacle]:
    statement, item, context = block
    node = item.context_expr
    text = f"`with {' '.join(at.text(node).split())}:`"
    if not surely_a_mesh(at.program, at.file, node):
        yield Obstacle(at.file.path, statement.lineno, f"{text}: the text does not show that it is a mesh")
    elif why := stays(at, statement, item, context):
        yield Obstacle(at.file.path, statement.lineno, f"{text}: {why}")


def _by_hand(file: FileFacts) -> Iterator[Obstacle]:
    for match in _BY_HAND.finditer(file.source.text):
        line = file.source.position(match.start())[0]
        yield Obstacle(file.path, line, "a mesh is entered, but not by a `with` statement")


def _made_at(site: Site, file: FileFacts, node: ast.expr) -> set[ast.AST]:
    """The calls that make a mesh."""
    value = site.program.followed(site.program.value(file, node))
    return {one.call.place.node for one in options(value) if isinstance(one, Made) and one.call is not None}


def _shard_maps(program: Program, file: FileFacts) -> Iterator[ast.Call]:
    for node in file.mentions("shard_map"):
        call = file.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            if any(
                isinstance(one, Api) and one.name == "jax.shard_map"
                for one in options(program.value(file, node))
            ):
                yield call


def _on_another_mesh(site: Site, file: FileFacts, call: ast.Call, entered_meshes: set[ast.AST]) -> bool:
    given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "mesh")]
    if not given or not entered_meshes:
        return False
    made = options(site.program.value(file, given[0]))
    return all(isinstance(one, Made) and one.api in MESH_MAKERS for one in made) and not (
        _made_at(site, file, given[0]) & entered_meshes
    )


# what reads the mesh


def _pjits(program: Program, file: FileFacts) -> Iterator[ast.expr]:
    return (node for node in pjit.uses(program, file) if not _left(file, node))


def _kept_pjit(at: Site, node: ast.expr) -> Iterator[Obstacle]:
    why = pjit.as_jit(at, node, True)
    if isinstance(why, str):
        yield Obstacle(at.file.path, node.lineno, f"pjit: {why}")
        return
    root = _root(node)
    if root is not None and isinstance(node, ast.Name) and taken_elsewhere(at, root.id):
        yield Obstacle(at.file.path, node.lineno, "pjit: another file takes it from this one")
    fresh = pjit.fresh_argument(at, node)
    if fresh is not None:
        why = (
            "an array made there is replicated over the mesh under jax.set_mesh, and in_shardings refuses it"
        )
        yield Obstacle(fresh.file.path, fresh.line, f"{why}; put it in place with jax.device_put first")


def _reads(program: Program, file: FileFacts) -> Iterator[ast.expr]:
    return (node for node in ambient.uses(program, file) if not _left(file, node))


def _kept_read(at: Site, node: ast.expr) -> Iterator[Obstacle]:
    written = {one.written for one in options(at.value(node)) if isinstance(one, Api)}
    why: list[Edit] | str = ambient.as_new(at, node)
    if any("._src." in name for name in written):
        why = "it is taken from the inside of jax, which is left alone"
    if isinstance(why, str):
        yield Obstacle(at.file.path, node.lineno, f"thread_resources: {why}")


# what is done


def fix(site: Site) -> Fix | None:
    """All that moves in the site's file, where all of the project can move."""
    found = plan(site)
    if not found.moves:
        return None if found.entered else _alone(site)
    edits: list[Edit] = []
    file = site.file
    for _, item, _ in _blocks(site, file):
        edits += set_instead(_at(site, file, item.context_expr), item)
    drops: set[str] = set()
    for node, new in (
        *((node, pjit.as_jit(_at(site, file, node), node, True)) for node in _pjits(site.program, file)),
        *((node, ambient.as_new(_at(site, file, node), node)) for node in _reads(site.program, file)),
    ):
        if isinstance(new, str):
            return None  # the file is not what it was when the plan was made
        edits += new
        drops |= _dropped(node)
    others = [path.name for path in found.files if path != file.path]
    why = "fresh arrays are then replicated over the mesh, and jax.jit refuses them where in_shardings differ"
    if others:
        shown = ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
        why += f"; it works only together with what moves in {shown}"
    return site.fix(
        Safety.UNSAFE,
        "write jax.set_mesh, jax.jit and get_abstract_mesh() together",
        _once(edits),
        why,
        sorted(drops),
    )


def _alone(site: Site) -> Fix | None:
    """pjit as jax.jit in a project that enters no mesh by `with`: there the two are the same."""
    edits: list[Edit] = []
    drops: set[str] = set()
    for node in _pjits(site.program, site.file):
        at = _at(site, site.file, node)
        new = pjit.as_jit(at, node, False)
        root = _root(node)
        if isinstance(new, str) or not pjit.needs_no_context(at, node):
            return None
        if root is not None and isinstance(node, ast.Name) and taken_elsewhere(at, root.id):
            return None
        edits += new
        drops |= _dropped(node)
    if not edits or any(_by_hand(site.file)):
        return None
    why = "only under a `with mesh:` that is entered elsewhere are they not the same"
    return site.fix(Safety.UNSAFE, "write jax.jit", _once(edits), why, sorted(drops))


def kept(site: Site, said: Collection[str] = ()) -> str:
    """Why nothing moves, as a clause; empty where all moves, or nothing is to be said beyond what was."""
    found = plan(site)
    if not found.entered and not found.obstacles and found.readers:
        return "not rewritten: nothing in the project enters a mesh, so its callers decide"
    new = [one for one in found.obstacles if one.path is not None or one.why not in said]
    if not new or not found.readers:
        return ""
    shown = "; ".join(one.shown(site.file.path) for one in new[:_SHOWN])
    more = f"; and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
    return f"not rewritten, as all of it moves together or nothing does: {shown}{more}"


def _root(node: ast.expr) -> ast.Name | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _dropped(node: ast.expr) -> set[str]:
    root = _root(node)
    return {root.id} if root is not None and root.id != "jax" else set()


def _once(edits: Iterable[Edit]) -> list[Edit]:
    return list(dict.fromkeys(edits))

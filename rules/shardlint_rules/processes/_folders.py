"""Folders of checkpoints that are made of what each process has its own of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from shardlint.model.process.whole_program import COLLECTIVES, joined, saver_of
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.processes._own_clock import CLOCKS
from shardlint_rules.processes.alone import BARRIER
from shardlint_rules.processes.differing import Differing, sources

FOLDERS = ("orbax.checkpoint.CheckpointManager",)
DATED = (
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "time.strftime",
    "uuid.uuid4",
    "secrets.token_hex",
)
"""What gives a name of a run that no other run has."""
_SAYS = tuple(f"{name.rpartition('.')[2]}(" for name in FOLDERS)
_INDEX = ("process_index", "host_id")
_MEETS = tuple(name.rpartition(".")[2] for name in COLLECTIVES)
_JOINS = ("join", "joinpath", "Path")

What = Literal["manager", "saved", "parts"]


@dataclass(frozen=True)
class Folder:
    """A folder in another function that is made of what each process has its own of: its text, and where it stands."""

    text: str
    file: str
    line: int
    what: What


Spot = tuple[str, int, int]


def folder_of(site: Site) -> Folder | None:
    """The folder in another function that is made of what a site gives, and that all processes must have alike."""
    found = site.program.once(site.file, "folders by process", lambda: dict(_differing_folders(site)))
    return found.get(_spot(Place(site.file, site.call)))


def _spot(place: Place) -> Spot:
    return str(place.file.path), place.line, getattr(place.node, "col_offset", 0)


def _differing_folders(site: Site) -> Iterator[tuple[Spot, Folder]]:
    """All such folders, each by what it is made of."""
    for file in site.program.project.holding(site.file.path, (*_SAYS, ".save(", "process_index(", "host_id(")):
        if file is None or site.program.project.is_test(file.path):
            continue
        for what, folder in (*_managed(site, file), *_saved(site, file), *_parted(file)):
            apart = [one for one in sources(site.program, folder) if not _beside(one.place, folder)]
            if apart and (what != "parts" or _meets(site, folder)):
                text = " ".join(folder.text().split())
                for found in apart:
                    yield _spot(found.place), Folder(text, folder.file.path.name, folder.line, what)


def beside(site: Site, found: Differing) -> bool:
    """Whether what differs stands in the function that the site is in: it is told at the site."""
    return _beside(found.place, Place(site.file, site.call))


def dated(site: Site, found: Differing) -> bool:
    """Whether it is told where it stands, for it is one of the calls that are asked about themselves."""
    place = found.place
    func = place.node.func if isinstance(place.node, ast.Call) else None
    callees = options(site.program.value(place.file, func)) if func is not None else ()
    return any(isinstance(one, Api) and one.name in (*DATED, *CLOCKS) for one in callees)


def _beside(one: Place, other: Place) -> bool:
    return one.file is other.file and one.file.home(one.node).function() is other.file.home(other.node).function()


def _managed(site: Site, file: FileFacts) -> Iterator[tuple[What, Place]]:
    """The folders that checkpoint managers are given."""
    for name in FOLDERS:
        for mention in file.mentions(name.rpartition(".")[2]):
            call = file.parent(mention)
            if not isinstance(call, ast.Call) or call.func is not mention:
                continue
            callees = options(site.program.value(file, call.func))
            if any(isinstance(one, Api) and one.name in FOLDERS for one in callees):
                given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "directory")]
                yield from (("manager", Place(file, one)) for one in given)


def _saved(site: Site, file: FileFacts) -> Iterator[tuple[What, Place]]:
    """The folders that checkpointers of Orbax save to."""
    for mention in file.mentions("save"):
        call = file.parent(mention)
        if isinstance(call, ast.Call) and call.func is mention and call.args:
            if saver_of(site.program, Place(file, call)) == "checkpointer":
                yield "saved", Place(file, call.args[0])


def _parted(file: FileFacts) -> Iterator[tuple[What, Place]]:
    """The folders in which each process writes a part named by its index."""
    for name in _INDEX:
        for mention in file.mentions(name):
            path = _path_around(file, mention)
            if path is not None:
                yield "parts", Place(file, path)


def _meets(site: Site, place: Place) -> bool:
    """Whether a place is in a function whose processes meet at a barrier."""
    function = place.file.home(place.node).function()
    if function is None:
        return False
    calls = [one for one in walk(function.node) if isinstance(one, ast.Call)]
    if any(last_name(one.func) in _MEETS or BARRIER.match(last_name(one.func)) for one in calls):
        return True
    return any(one.sure and not one.computes for one in joined(site.program, place.file, function.statements))


def _path_around(file: FileFacts, mention: ast.AST) -> ast.expr | None:
    """The folder in front of a name with the index in it: `folder / f"part-{process_index()}"`."""
    inner: ast.AST = mention
    for outer in file.ancestors(mention):
        match outer:
            case ast.BinOp(op=ast.Div(), left=left, right=right) if right is inner:
                return left
            case ast.Call(func=func, args=[first, *rest]) if inner in rest and last_name(func) in _JOINS:
                return first
            case ast.Call(func=ast.Attribute(attr="joinpath", value=value)) if inner is not outer.func:
                return value
            case ast.JoinedStr(values=[ast.FormattedValue(value=first), ast.Constant(value=str(text)), *_]):
                if text.startswith("/") and inner is not outer.values[0]:
                    return first
            case ast.stmt():
                return None
        inner = outer
    return None


def made_of(site: Site) -> ast.expr:
    """What is made of a time at once: the whole value that a name is bound to, or the time."""
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.Assign | ast.AnnAssign) and outer.value is not None:
            return outer.value
        if isinstance(outer, ast.stmt):
            break
    return site.call

"""Folders of checkpoints that are made of what each process has its own of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, Place, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
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


def folder_of(site: Site) -> Place | None:
    """The folder of a checkpoint in another function that is made of what a site gives."""
    for file in site.program.project.holding(site.file.path, _SAYS):
        if file is None or site.program.project.is_test(file.path):
            continue
        for folder in _folders(site, file):
            for found in sources(site.program, folder):
                if found.place.node is site.call and not _beside(found.place, folder):
                    return folder
    return None


def beside(site: Site, found: Differing) -> bool:
    """Whether what differs stands in the function that the site is in: it is told at the site."""
    return _beside(found.place, Place(site.file, site.call))


def dated(site: Site, found: Differing) -> bool:
    """Whether it is told where it stands, for it is one of the calls that are asked about themselves."""
    place = found.place
    func = place.node.func if isinstance(place.node, ast.Call) else None
    callees = options(site.program.value(place.file, func)) if func is not None else ()
    return any(isinstance(one, Api) and one.name in DATED for one in callees)


def _beside(one: Place, other: Place) -> bool:
    return one.file is other.file and one.file.home(one.node).function() is other.file.home(other.node).function()


def _folders(site: Site, file: FileFacts) -> Iterator[Place]:
    for name in FOLDERS:
        for mention in file.mentions(name.rpartition(".")[2]):
            call = file.parent(mention)
            if not isinstance(call, ast.Call) or call.func is not mention:
                continue
            callees = options(site.program.value(file, call.func))
            if any(isinstance(one, Api) and one.name in FOLDERS for one in callees):
                given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "directory")]
                yield from (Place(file, one) for one in given)


def made_of(site: Site) -> ast.expr:
    """What is made of a time at once: the whole value that a name is bound to, or the time."""
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.Assign | ast.AnnAssign) and outer.value is not None:
            return outer.value
        if isinstance(outer, ast.stmt):
            break
    return site.call

"""The bodies that a site maps, run over what varies from device to device. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from shardlint.model import Program
from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual import elsewhere as model
from shardlint.model.manual.mapped import Ran, definition
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.values import Api, options
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Mapped
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name

_MAPS = ("shard_map", "pmap")
_FILES = 12
"""How many files are asked what they map of a file."""

IN_BODIES = (*MAPPING, Mapped())
"""For rules that report what happens in mapped functions where these are written, in whatever file."""


def runs(site: Site) -> tuple[Ran, ...]:
    """The bodies that the site's call maps; of a helper of the project, where its specs are given.

    Of a function that another file maps, the runs of it alone.
    """
    # jax sums gradients of what does not vary since 0.6.1, where the check is on.
    summed = site.allows("jax", ">=0.6.1")
    if site.by is not None:
        found = site.program.ran(site.by.file, site.by.call, site.by.form, summed)
        return tuple(one for one in found if _written(site, one) is site.syntax)
    call = mapping_call(site)
    return site.program.ran(site.file, *call, summed) if call is not None else ()


def mapping_call(site: Site) -> tuple[ast.expr, str] | None:
    """The call or bare decorator that maps, and its form: the site's own, or that of a helper of the project."""
    return model.mapping_call(site.program, site.file, (site.syntax, site.form))


def _written(site: Site, ran: Ran) -> ast.AST | None:
    place = definition(site.program, ran.mapped.inner)
    return place.node if place is not None else None


def told_there(site: Site, ran: Ran) -> bool:
    """Whether what happens in the body is reported where that is written: in another file, of which it is asked too."""
    if site.by is not None or not any(isinstance(one, Mapped) for one in site.rule.triggers):
        return False
    place = definition(site.program, ran.mapped.inner)
    if place is None or place.file is site.file or not isinstance(place.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return site.file.path in site.program.project.mappers(place.file.path)


def events(site: Site, *kinds: str, inside: Collection[str] = ()) -> Iterator[tuple[Ran, Event, ast.AST]]:
    """What happens in the bodies and is not divided away, each with the node in the site's file that leads to it.

    Of a body that is written in another file, where that is not asked of it. What happens in a call of one of the names
    `inside` is told where that stands, also in a helper of the body in another file: the rule is asked about those
    calls too.
    """
    if site.api in inside:
        for ran, event in _brought_in(site, kinds):
            yield ran, event, site.call
        return
    for ran in runs(site):
        if told_there(site, ran):
            continue
        for number, event in enumerate(ran.events):
            if event.kind in kinds and number not in ran.cancelled:
                place = event.seen_from(site.file)
                if place is not None and not (inside and _told_in_helper(site, event, inside)):
                    yield ran, event, place.node


def _brought_in(site: Site, kinds: tuple[str, ...]) -> Iterator[tuple[Ran, Event]]:
    """What happens at a call in the bodies that other files map."""
    if site.form != "call":
        return
    for ran in mapped_elsewhere(site):
        for number, event in enumerate(ran.events):
            if event.place.node is site.call and event.kind in kinds and number not in ran.cancelled:
                yield ran, event


def mapped_elsewhere(site: Site, maps: tuple[str, ...] = _MAPS) -> tuple[Ran, ...]:
    """The bodies mapped in other files that run with this one, as far as they come here; none where much is assumed.

    `maps` are the names of what maps them.
    """
    if isinstance(site.program.evaluator, Assuming):
        return ()
    gradients = site.allows("jax", ">=0.6.1")

    def look() -> tuple[Ran, ...]:
        found: list[Ran] = []
        for file in _mapping_files(site.program, site.file, maps):
            come = _come_to(site.program, file, maps, gradients)
            for (node, form), paths in zip(_mappings(file, maps), come, strict=True):
                if site.file.path in paths:
                    found += site.program.ran(file, node, form, gradients)
        return tuple(one for one in found if any(event.place.file is site.file for event in one.events))

    return site.program.of_node(("mapped elsewhere", site.file.path, gradients, maps), look)


def _come_to(
    program: Program, file: FileFacts, maps: tuple[str, ...], gradients: bool
) -> tuple[frozenset[Path], ...]:
    """The files in which something happens of what a file maps, for each call that maps."""

    def look() -> tuple[frozenset[Path], ...]:
        ran = (program.ran(file, node, form, gradients) for node, form in _mappings(file, maps))
        return tuple(frozenset(event.place.file.path for one in found for event in one.events) for found in ran)

    return program.of_file(file, ("mapped come to", maps, gradients), look)


def _mapping_files(program: Program, file: FileFacts, maps: tuple[str, ...] = _MAPS) -> list[FileFacts]:
    """The files that run with one and map something, by their texts."""
    paths = [path for path in program.project.saying(file.path, maps) if path != file.path]
    return [one for path in paths[:_FILES] if (one := program.project.facts(path)) is not None]


def _mappings(file: FileFacts, maps: tuple[str, ...]) -> Iterator[tuple[ast.expr, str]]:
    """The calls of what maps, partials of them and bare decorators in a file, by name."""
    for mention in (one for name in maps for one in file.mentions(name)):
        parent = file.parent(mention)
        match parent:
            case ast.Call() if parent.func is mention:
                yield parent, "call"
            case ast.Call(args=[first, *_]) if first is mention and last_name(parent.func) == "partial":
                yield parent, "partial"
            case ast.FunctionDef() if mention in parent.decorator_list and isinstance(mention, ast.expr):
                yield mention, "name"


def _told_in_helper(site: Site, event: Event, inside: Collection[str]) -> bool:
    """Whether an event in another file is told there."""
    call, file = event.place.node, event.place.file
    if file is site.file or not isinstance(call, ast.Call) or site.form == "keyword":
        return False
    found = options(site.program.value(file, call.func))
    if len(found) != 1 or not isinstance(found[0], Api) or found[0].name not in inside:
        return False
    maps = site.file if site.by is None else site.by.file
    made = mapping_call(site) if site.by is None else (site.by.call, site.by.form)
    near = any(one is maps for one in _mapping_files(site.program, file))
    strict = site.program.ran(maps, *made, site.allows("jax", ">=0.6.1")) if made is not None and near else ()
    return any(
        (other.kind, other.place) == (event.kind, event.place) and number not in ran.cancelled
        for ran in strict
        for number, other in enumerate(ran.events)
    )


def shown(axes: Iterable[Axis]) -> str:
    """Axes in words."""
    names = [f'"{one}"' if isinstance(one, str) else f"`{one.name}`" for one in axes]
    return " and ".join(sorted(names))


def elsewhere(site: Site, event: Event) -> str:
    """Where an event is, if that is in another file."""
    if event.place.file is site.file:
        return ""
    return f" (at {event.place.file.path.name}:{event.place.line})"


def devices(ran: Ran, axes: Iterable[Axis]) -> str:
    """How many devices there are along axes, in words: "8", or "as many as ..."."""
    mesh, count = ran.mapped.mesh, 1
    for axis in axes:
        if mesh is None or mesh.axis_names is None or axis not in mesh.axis_names:
            return f"the number of devices along {shown(axes)}"
        size = mesh.sizes[mesh.axis_names.index(str(axis))]
        if size is None:
            return f"the number of devices along {shown(axes)}"
        count *= size
    return str(count)

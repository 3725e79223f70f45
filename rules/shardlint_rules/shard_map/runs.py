"""The bodies that a site maps, run over what varies from device to device. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.values import Api, Function, options
from shardlint.rules_api.rule import Calls, Keywords
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name

_MAPS = ("shard_map", "pmap")
_FILES = 12
"""How many files are asked what they map of a file, the nearest first."""

MAPPING = (
    Calls("jax.shard_map", "jax.pmap"),
    # A helper of the project that maps: it is told by the specs that it is given.
    Keywords("in_specs"),
)


def runs(site: Site) -> tuple[Ran, ...]:
    """The bodies that the site's call maps; of a helper of the project, where its specs are given."""
    found = mapping_call(site)
    if found is None:
        return ()
    # jax sums gradients of what does not vary since 0.6.1, where the check is on.
    return site.program.ran(site.file, *found, site.allows("jax", ">=0.6.1"))


def mapping_call(site: Site) -> tuple[ast.expr, str] | None:
    """The call or bare decorator that maps, and its form: the site's own, or that of a helper of the project."""
    if site.form == "name":
        return (site.syntax, "name") if site.decorated is not None and isinstance(site.syntax, ast.expr) else None
    if site.form != "keyword":
        return site.call, site.form
    helper = isinstance(site.value(site.call.func), Function)
    return (site.call, "call") if helper else None


def events(site: Site, *kinds: str, inside: Collection[str] = ()) -> Iterator[tuple[Ran, Event, ast.AST]]:
    """What happens in the bodies and is not divided away, each with the node in the site's file that leads to it.

    What happens in a call of one of the names `inside` is told where that stands, also in another file than the body
    is mapped in: the rule is asked about those calls too.
    """
    if site.api in inside:
        for ran, event in _brought_in(site, kinds):
            yield ran, event, site.call
        return
    for ran in runs(site):
        for number, event in enumerate(ran.events):
            if event.kind in kinds and number not in ran.cancelled:
                place = event.seen_from(site.file)
                if place is not None and not (inside and _told_there(site, event, inside)):
                    yield ran, event, place.node


def _brought_in(site: Site, kinds: tuple[str, ...]) -> Iterator[tuple[Ran, Event]]:
    """What happens at a call in the bodies that other files map."""
    if site.form != "call":
        return
    for ran in mapped_elsewhere(site):
        for number, event in enumerate(ran.events):
            if event.place.node is site.call and event.kind in kinds and number not in ran.cancelled:
                yield ran, event


def mapped_elsewhere(site: Site) -> tuple[Ran, ...]:
    """The bodies mapped in other files that run with this one, as far as they come here; none where much is assumed."""
    if isinstance(site.program.evaluator, Assuming):
        return ()
    gradients = site.allows("jax", ">=0.6.1")

    def look() -> tuple[Ran, ...]:
        found: list[Ran] = []
        files = [one for one in site.program.together(site.file) if one is not site.file and any(map(one.says, _MAPS))]
        for file in files[:_FILES]:
            for node, form in _mappings(file):
                found += site.program.ran(file, node, form, gradients)
        return tuple(one for one in found if any(event.place.file is site.file for event in one.events))

    return site.program.of_node(("mapped elsewhere", site.file.path, gradients), look)


def _mappings(file: FileFacts) -> Iterator[tuple[ast.expr, str]]:
    """The calls of `shard_map` and `pmap`, partials of them and bare decorators in a file, by name."""
    for mention in (one for name in _MAPS for one in file.mentions(name)):
        parent = file.parent(mention)
        match parent:
            case ast.Call() if parent.func is mention:
                yield parent, "call"
            case ast.Call(args=[first, *_]) if first is mention and last_name(parent.func) == "partial":
                yield parent, "partial"
            case ast.FunctionDef() if mention in parent.decorator_list and isinstance(mention, ast.expr):
                yield mention, "name"


def _told_there(site: Site, event: Event, inside: Collection[str]) -> bool:
    """Whether an event in another file is told there."""
    call, file = event.place.node, event.place.file
    if file is site.file or not isinstance(call, ast.Call) or site.form == "keyword":
        return False
    found = options(site.program.value(file, call.func))
    if len(found) != 1 or not isinstance(found[0], Api) or found[0].name not in inside:
        return False
    made = mapping_call(site)
    near = any(one is site.file for one in list(site.program.together(file))[:_FILES])
    strict = site.program.ran(site.file, *made, site.allows("jax", ">=0.6.1")) if made is not None and near else ()
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

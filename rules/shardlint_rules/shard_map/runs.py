"""The bodies that a site maps, run over what varies from device to device. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardlint.model.manual.mapped import Ran
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.values import Function
from shardlint.rules_api.rule import Calls, Keywords
from shardlint.rules_api.site import Site

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


def events(site: Site, *kinds: str) -> Iterator[tuple[Ran, Event, ast.AST]]:
    """What happens in the bodies and is not divided away, each with the node in the site's file that leads to it."""
    for ran in runs(site):
        for number, event in enumerate(ran.events):
            if event.kind in kinds and number not in ran.cancelled:
                place = event.seen_from(site.file)
                if place is not None:
                    yield ran, event, place.node


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

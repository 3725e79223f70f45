"""The bodies that a site maps, run over what varies from device to device. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual import elsewhere as model
from shardlint.model.manual.mapped import Ran, definition
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Mapped
from shardlint.rules_api.site import Site

_LONGEST_SHOWN = 30


def runs(site: Site) -> tuple[Ran, ...]:
    """The bodies that the site's call maps; of a helper of the project, where its specs are given.

    Of a function that another file maps, the runs of it alone.
    """
    # jax sums gradients of what does not vary since 0.6.1, where the check is on.
    summed = site.allows("jax", ">=0.6.1")
    if site.by is not None and site.by.called:
        return ()
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
    if (
        place is None
        or place.file is site.file
        or not isinstance(place.node, ast.FunctionDef | ast.AsyncFunctionDef)
    ):
        return False
    return site.file.path in site.program.project.mappers(place.file.path)


def events(
    site: Site, *kinds: str, inside: Collection[str] | None = ()
) -> Iterator[tuple[Ran, Event, ast.AST]]:
    """What happens in the bodies and is not divided away, each with the node in the site's file that leads to it.

    Of a body that is written in another file, where that is not asked of it. What happens in a call of one of the names
    `inside` is told where that stands, also in a helper of the body in another file, of which the rule is asked too:
    `Mapped(calling=...)` among its triggers; None stands for anything.
    """
    for ran in called_in(site):
        for event in _happened(ran, kinds):
            if (
                event.place.file is site.file
                and is_in(site, event.place)
                and _names(site, event.place, inside)
            ):
                yield ran, event, event.place.node
    for ran in runs(site):
        if told_there(site, ran):
            continue
        for event in _happened(ran, kinds):
            place = event.seen_from(site.file)
            if place is not None and not (inside != () and _told_in_helper(site, event, inside)):
                yield ran, event, place.node


def _happened(ran: Ran, kinds: tuple[str, ...]) -> Iterator[Event]:
    for number, event in enumerate(ran.events):
        if event.kind in kinds and number not in ran.cancelled:
            yield event


def called_in(site: Site) -> tuple[Ran, ...]:
    """The bodies mapped in another file that call the function which the site is; none of one that is mapped."""
    if site.by is None or not site.by.called or isinstance(site.program.evaluator, Assuming):
        return ()
    return site.program.ran(site.by.file, site.by.call, site.by.form, site.allows("jax", ">=0.6.1"))


def is_in(site: Site, place: Place) -> bool:
    """Whether a place is in the function that the site is, and in no other one within it."""
    return model.defined_around(place) is site.syntax


def _names(site: Site, place: Place, names: Collection[str] | None) -> bool:
    """Whether a place is a call of one of some library functions, or of any."""
    if names is None:
        return True
    if not isinstance(place.node, ast.Call):
        return False
    found = options(site.program.value(place.file, place.node.func))
    return len(found) == 1 and isinstance(found[0], Api) and found[0].name in names


def _told_in_helper(site: Site, event: Event, inside: Collection[str] | None) -> bool:
    """Whether an event in another file is told there."""
    file = event.place.file
    if (
        file is site.file
        or not _names(site, event.place, inside)
        or model.defined_around(event.place) is None
    ):
        return False
    if not any(isinstance(one, Mapped) and one.is_said(file.says) for one in site.rule.triggers):
        return False
    maps = site.file if site.by is None else site.by.file
    made = mapping_call(site) if site.by is None else (site.by.call, site.by.form)
    near = maps.path in model.mapping_files(site.program, file.path)
    strict = site.program.ran(maps, *made, site.allows("jax", ">=0.6.1")) if made is not None and near else ()
    return any(
        (other.kind, other.place) == (event.kind, event.place) and number not in ran.cancelled
        for ran in strict
        for number, other in enumerate(ran.events)
    )


def shown(axes: Iterable[Axis]) -> str:
    """The names of axes, quoted. The axis of a `pmap` without an `axis_name` has none."""
    names = [
        f"`{axis if isinstance(axis, str) else axis.name}`" if axis else "the pmap axis" for axis in axes
    ]
    return " and ".join(sorted(names))


def as_argument(axes: Iterable[Axis]) -> str:
    """Axes as the argument of a collective; `axis_name` for that of a `pmap` without a name."""
    names = sorted(
        (f'"{axis}"' if axis else "axis_name") if isinstance(axis, str) else axis.name for axis in axes
    )
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def describe_location(site: Site, event: Event) -> str:
    """The file and line of an event in another file, as a reason; "" for one in the file of the site."""
    if event.place.file is site.file:
        return ""
    return f"it runs at {event.place.file.path.name}:{event.place.line}"


def join_reasons(*reasons: str) -> str:
    """The reasons that are not empty, as one `why`."""
    return "; ".join(filter(None, reasons))


def operand(event: Event, before: str) -> str:
    """The first argument of a collective, quoted after `before` (" of "); "" if it is long."""
    node = event.place.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    text = event.place.file.text(given) if given is not None else ""
    return f"{before}`{text}`" if 0 < len(text) <= _LONGEST_SHOWN and "\n" not in text else ""

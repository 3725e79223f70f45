"""SL410."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.mapped import Ran, against
from shardlint.model.manual.varying import Axis
from shardlint.model.values import Function, Transformed
from shardlint.rules_api.mapping import BY_JAX
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map.runs import runs, shown

# A dimension that is made to hold an entry for each device.
_ON_PURPOSE = regex(
    r"\[(?:\w+\.)?(?:None|newaxis)|expand_dims|broadcast_to|reshape\(\(?1\b|atleast_1d|stack\("
)


class ReplicatedAsSharded(Rule):
    """A result of `shard_map` that is the same on all devices is declared to be split over them.

    ## What it does
    Follows the values of the body of a `shard_map` to its results, and reports one that was reduced over an axis
    (`psum`, `pmean`) and varies no more along it, where its out spec names that axis. Possible: some declare so on
    purpose, above all what `all_gather` made. Likely, at the reduction: one call that sums over axes of which the out
    spec names some and not the others, since who means copies names all of them. Not in tests, which look at
    copies.

    ## Why it hurts
    The copies are put one after another: the result is as many times longer as there are devices along the axis. It
    raises where its shape matters, and is wrong where it does not: a norm, a sum, a broadcast. The check does not ask
    for it.

    ## Evidence
    Run on jax 0.4.38 to 0.12 with 8 devices: a gradient of 4 numbers comes back with 32, its sum is 8 times too large.
    A dimension that is made for the devices (`loss[None]`) is left alone, and so is what goes through code that is not
    seen.
    """

    code = "SL410"
    name = "replicated-as-sharded"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("beyond",)
    assumes = True
    triggers = BY_JAX
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each axis."""
        done: set[str] = set()
        for ran in runs(site):
            if ran.mapped.api != "jax.shard_map" or _on_purpose(ran):
                continue
            for axes, node, named in _whole(site, ran):
                if shown(axes) in done:
                    continue
                done.add(shown(axes))
                beyond = _beyond(site, ran, axes, named)
                if beyond is not None:
                    yield _added_up(site, axes, beyond[0] or node, beyond[1])
                    continue
                yield site.finding(
                    node,
                    f"On {site.release('jax')} the copies are put one after another: the result is as many times as "
                    f"long as what each device returns as there are devices along {shown(axes)}.",
                    label=f"the same on all devices along {shown(axes)}",
                    help=f"leave {shown(axes)} out of this out spec",
                    form="reduced" if _summed(ran, axes) else "gathered",
                    why="a collective reduced it, and nothing after that tells the devices apart",
                )


def _added_up(site: Site, axes: list[Axis], reduction: ast.AST, others: list[Axis]) -> Finding:
    return site.finding(
        reduction,
        f"On {site.release('jax')} different parts of the array are added up: all devices along {shown(axes)} "
        "return the same, and these copies are put one after another.",
        label=f"reduced over {shown(axes)} too, along which the result is declared to be split",
        help=f"reduce over {shown(others)} only",
        form="beyond",
        why=f"the out spec names {shown(axes)} and not {shown(others)}: the parts along {shown(axes)} are to differ",
    )


def _summed(ran: Ran, axes: list[Axis]) -> bool:
    """Whether nothing but sums, means and extremes goes over the axes: what was gathered may be meant to be so."""
    names = {event.note for event in ran.events if event.kind == "collective" and set(event.axes) & set(axes)}
    return names <= {"psum", "pmean", "pmax", "pmin", "axis_index"}


def _beyond(
    site: Site, ran: Ran, axes: list[Axis], named: frozenset[Axis]
) -> tuple[ast.AST | None, list[Axis]] | None:
    """The axes beside some that each reduction over these is over too, though the out spec does not name them.

    And the reduction, where it is one.
    """
    over = [event for event in ran.events if event.kind == "collective" and set(event.axes) & set(axes)]
    others = [[axis for axis in event.axes if axis not in named] for event in over]
    if not over or any(event.note not in ("psum", "pmean") for event in over) or not all(others):
        return None
    place = over[0].seen_from(site.file) if len(over) == 1 else None
    return place.node if place is not None else None, others[0]


def _whole(site: Site, ran: Ran) -> Iterator[tuple[list[Axis], ast.AST, frozenset[Axis]]]:
    """The axes that out specs name along which their results do not vary, where to say so, and all that they name."""
    mesh = ran.mapped.mesh
    sizes = dict(zip(mesh.axis_names or (), mesh.sizes, strict=False)) if mesh is not None else {}
    settings = ran.mapped.settings.keywords.get("out_specs")
    for leaf, named, spec in against(site.program, ran.result, ran.mapped.out_specs):
        if not leaf.traced:
            continue
        same = [
            one for one in named if leaf.same_over(one) and one in leaf.reduced and sizes.get(str(one)) != 1
        ]
        if not same:
            continue
        call = getattr(spec, "call", None)
        node: ast.AST = site.call
        if settings is not None and settings.file is site.file:
            node = settings.node
            place = call.place if call is not None else None
            if place is not None and place.file is site.file:
                node = next((one for one in walk(settings.node) if one is place.node), node)
        yield same, node, named


def _on_purpose(ran: Ran) -> bool:
    """Whether the body makes a dimension for the devices."""
    inner = ran.mapped.inner
    while isinstance(inner, Transformed):
        inner = inner.inner
    return not isinstance(inner, Function) or bool(_ON_PURPOSE.search(inner.place.file.text(inner.node)))

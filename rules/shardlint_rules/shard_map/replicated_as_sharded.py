"""SL410."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.mapped import Ran, against
from shardlint.model.manual.varying import Axis
from shardlint.model.values import Function, Transformed
from shardlint.rules_api.mapping import BY_JAX
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map.runs import function_name, runs, shown

# A dimension that is made to hold an entry for each device.
_ON_PURPOSE = regex(
    r"\[(?:\w+\.)?(?:None|newaxis)|expand_dims|broadcast_to|reshape\(\(?1\b|atleast_1d|stack\("
)


class ReplicatedAsSharded(Rule):
    """A replicated result of `shard_map` is declared sharded.

    The copies are concatenated: the result is too long by the number of devices along the axis. This raises if its
    shape matters, and is wrong if it does not: a norm, a sum, a broadcast. `check_vma` does not detect it.

    ## Reports
    - `beyond` (likely): a `psum` or `pmean` over several axes, if the out spec names some of them and not the others.
    - `reduced` (possible): a result of `psum`, `pmean`, `pmax` or `pmin` whose out spec names the reduced axis.
    - `gathered` (possible): the same for a result of `all_gather`.

    ## Limits
    Tests are not reported, nor results with a new dimension for the devices (`loss[None]`).
    """

    code = "SL410"
    name = "replicated-as-sharded"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("beyond",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "beyond": "The shards along the axis that the out spec names differ."
    }
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
                    f"The result of {function_name(ran)} repeats one block along {shown(axes)}: it is replicated.",
                    label="concatenates equal copies",
                    help=f"leave {shown(axes)} out of this out spec",
                    form="reduced" if _summed(ran, axes) else "gathered",
                    why=f"a collective over {shown(axes)} made it equal on these devices",
                )


def _added_up(site: Site, axes: list[Axis], reduction: ast.AST, others: list[Axis]) -> Finding:
    return site.finding(
        reduction,
        f"Different shards along {shown(axes)} are summed, and the sum is repeated on each device.",
        label=f"also reduces over {shown(axes)}",
        help=f"reduce over {shown(others)} only",
        form="beyond",
        why=f"the out spec shards the result over {shown(axes)}",
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

"""SL402."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual.mapped import Ran, against, definition
from shardlint.model.manual.varying import Axes, Axis, Event, Leaf, Local, Record, Tree, leaves
from shardlint.model.values import Function, Place, Transformed
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map.returned import returned
from shardlint_rules.shard_map.runs import (
    IN_BODIES,
    as_argument,
    describe_location,
    function_name,
    join_reasons,
    runs,
    shown,
    told_there,
)

# Axes along which the examples of one batch are split; members of a population have another.
_SPLIT = regex(r"(?i)batch|data|device|replica|host|(^|_)(dp|core|cores|shards?)($|_)")
_UNREDUCED = ("unreduced gradient", "own gradient")
_MAKE_SAME = ("psum", "pmean", "pmax", "pmin", "all_gather")


class MissingReduction(Rule):
    """A value that differs on each device is declared replicated, or updates replicated parameters.

    The array says that it is replicated and holds other numbers on each device. Printing shows the first copy, a
    later jit reads any of them, and parameters updated this way drift apart.

    ## Reports
    - proven: a result of a `shard_map` with `check_vma=False` that varies over an axis which its out spec does not
      name, without a collective over that axis. The values are followed through helpers, loops and tree maps.
    - `again` (likely): the same, if the devices compute with their own shard after the last collective.
    - `gradients` (likely): such a result made of the gradients of a loss through a model that is not in sight.
    - `other-axis` (likely): a `psum` over the axis that the out spec names, if the result differs along another one.
    - `pmap` (likely): unreduced gradients that update the state in a `pmap` with an axis name, in a file that
      replicates a state.
    - `pmap-named` (likely): the same, if the axis is named after the batch, the data or the devices.
    - `check-not-known` (possible): a result as above, if the value of `check_vma` is not known.

    ## Limits
    Not reported: values that go through code that is not in sight, values that are gathered, permuted or exchanged,
    and values that depend on a branch.
    """

    code = "SL402"
    name = "missing-reduction"
    harm = Harm.SILENT
    assumes = True
    behind = ("SL403",)
    likely = ("pmap", "pmap-named", "gradients", "other-axis", "again")
    assumptions: ClassVar[Mapping[str, str]] = {
        "pmap-named": "The devices along an axis with this name train one model.",
        "gradients": "The model in the loss does not reduce gradients.",
        "other-axis": "The program calls the function as a call site shows.",
        "again": "The shards differ on the devices.",
    }
    triggers = IN_BODIES
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each place from which results vary."""
        done: set[tuple[ast.AST, str]] = set()
        for ran in runs(site):
            if ran.mapped.api == "jax.pmap" and not told_there(site, ran):
                yield from self._pmapped(site, ran)
            if ran.mapped.api != "jax.shard_map" or ran.mapped.check == "on":
                continue
            for leaf, named, axes, node in _unreduced(site, ran):
                other = _summed_otherwise(site, ran, leaf, named)
                node = other.place.node if other is not None else node
                if (node, shown(axes)) not in done:
                    done.add((node, shown(axes)))
                    yield self._finding(site, ran, leaf, axes, node, other)
            if not done and not told_there(site, ran):
                yield from self._own_gradients(site, ran)

    def _own_gradients(self, site: Site, ran: Ran) -> Iterator[Finding]:
        """Parameters that are declared the same everywhere, made of gradients through a model that is not seen."""
        if ran.mapped.check != "off" or not site.wants("gradients"):
            return
        sizes = _sizes(ran)
        for leaf, named, _ in against(site.program, ran.result, ran.mapped.out_specs):
            left = frozenset(axis for axis in leaf.own_gradient - named if sizes.get(str(axis)) != 1)
            for event in ran.events:
                place = event.seen_from(site.file)
                axes = left & frozenset(event.axes)
                if event.kind in _UNREDUCED and axes and place is not None:
                    yield site.finding(
                        place.node,
                        f"The parameters drift apart: each device applies its own gradients along {shown(axes)}.",
                        label="unreduced gradients",
                        help=f"average them first: grads = jax.lax.pmean(grads, {as_argument(axes)})",
                        certainty=Certainty.POSSIBLE,
                        form="gradients",
                        why=join_reasons(
                            f"the out spec does not name {shown(axes)}, and check_vma is off",
                            describe_location(site, event),
                        ),
                    )
                    return

    def _pmapped(self, site: Site, ran: Ran) -> Iterator[Finding]:
        """Gradients of a pmapped step that are given to the optimizer as each device has them."""
        for event in ran.events:
            place = event.seen_from(site.file)
            if event.kind not in _UNREDUCED or place is None or not ran.mapped.axis:
                continue
            if any(not one.axes for one in ran.events if one.kind == "collective"):
                continue
            if not _kept(ran, event):
                continue
            files = (site.file, event.place.file, *((site.by.file,) if site.by is not None else ()))
            copied = any(file.says("replicate") for file in files)
            reduced = {axis for one in ran.events if one.kind == "collective" for axis in one.axes}
            if not copied and reduced - {ran.mapped.axis}:
                continue  # over an axis that nothing binds, as SL406 says, or one bound inside
            if not copied and not any(_SPLIT.search(str(axis)) for axis in event.axes):
                continue  # each device may train a model of its own
            yield site.finding(
                place.node,
                f"The parameters drift apart: each device applies its own gradients along {shown(event.axes)}.",
                label="unreduced gradients",
                help=f"average them first: grads = jax.lax.pmean(grads, {as_argument(event.axes)})",
                certainty=Certainty.POSSIBLE,
                form="pmap" if copied else "pmap-named",
                why=join_reasons(
                    "no collective reduces them over the axis of the pmap",
                    "the file replicates the state" if copied else "",
                    describe_location(site, event),
                ),
            )
            return

    def _finding(
        self, site: Site, ran: Ran, leaf: Leaf, axes: Axes, node: ast.AST, other: Event | None = None
    ) -> Finding:
        off, assumed = ran.mapped.check == "off", isinstance(site.program.evaluator, Assuming)
        updated = leaf.origin is not None and leaf.origin.node is node and isinstance(node, ast.Call)
        updated = updated and "axis_index" not in site.text(node).partition("(")[0]
        again = other is None and not updated and bool(axes & leaf.reduced)
        if other is not None:
            evidence = f"the out spec names {shown(other.axes)}, over which this sums"
        elif again:
            evidence = "each device computes with its own shard after the last collective"
        else:
            evidence = f"no collective over {shown(axes)} reduces it"
        form = "again" if again else "other-axis" if other is not None else "gradients" if updated else ""
        return site.finding(
            node,
            f"A result of {function_name(ran)} is declared replicated over {shown(axes)} but differs on each device.",
            label=f"differs along {shown(axes)}",
            help=f"reduce it over {shown(axes)} with jax.lax.psum or pmean, or name the axis in its out spec",
            certainty=Certainty.PROVEN if off and not again else Certainty.POSSIBLE,
            form="check-not-known" if not off else form if again or assumed else "",
            why=f"{evidence}; check_vma is {'off' if off else 'not known to be on'}",
        )


def _kept(ran: Ran, event: Event) -> bool:
    """Whether the parameters that are made of gradients leave the body as each device has them.

    An optimizer's `update` gives its state beside them; where that alone differs, the parameters were averaged later.
    """
    call = event.place.node
    separate = (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "update"
    )
    other = ("mean", "updated") if separate else ("mean",)
    axes = frozenset(event.axes)
    if event.kind == "own gradient":
        return any(leaf.own_gradient & axes and leaf.kind not in other for leaf in leaves(ran.result))
    differ = [leaf for leaf in leaves(ran.result) if leaf.sure & axes]
    return any(leaf.kind not in other for leaf in differ)


def _summed_otherwise(site: Site, ran: Ran, leaf: Leaf, named: Axes) -> Event | None:
    """The sum in this file over an axis that the out spec of its result names: that over which it is split."""
    over = named & leaf.reduced
    sums = [
        one
        for one in ran.events
        if one.kind == "collective" and one.note in ("psum", "pmean") and over and frozenset(one.axes) == over
    ]
    return sums[0] if len(sums) == 1 and sums[0].place.file is site.file and not leaf.over & over else None


def _unreduced(site: Site, ran: Ran) -> Iterator[tuple[Leaf, Axes, Axes, ast.AST]]:
    """The leaves that vary, the axes that their out spec names, those over which they vary, and where that is told."""
    sizes = _sizes(ran)
    for leaf, named, spec in against(site.program, ran.result, ran.mapped.out_specs):
        left = frozenset(
            axis
            for axis in leaf.sure - named
            if sizes.get(str(axis)) != 1 and (axis not in leaf.reduced or _varies_again(ran, leaf, axis))
        )
        if not left:
            continue
        origin = leaf.origin
        if (
            origin is not None
            and origin.file is site.file
            and isinstance(origin.node, ast.Call)
            and leaf.kind != "mask"
        ):
            yield leaf, named, left, origin.node
            continue
        if (given_back := _returned(site, ran, leaf)) is not None:
            yield leaf, named, left, given_back
            continue
        if site.by is not None or _told_there(site, ran, leaf):
            continue
        call = getattr(spec, "call", None)
        place: Place | None = call.place if call is not None else None
        settings = ran.mapped.settings.keywords.get("out_specs")
        inside = (
            place is not None
            and place.file is site.file
            and settings is not None
            and _in(settings.node, place.node)
        )
        at = (
            place.node
            if inside and place is not None
            else settings.node
            if settings is not None
            else site.call
        )
        yield leaf, named, left, at if settings is None or settings.file is site.file else site.call


def _varies_again(ran: Ran, leaf: Leaf, axis: Axis) -> bool:
    """Whether a result surely differs along an axis though something it is made of was the same along it.

    Not where the body hands arrays round: after as many turns as there are devices all may hold the same.
    """
    made_whole = all(
        event.note in _MAKE_SAME for event in ran.events if event.kind == "collective" and axis in event.axes
    )
    return axis in leaf.firm and made_whole


def _told_there(site: Site, ran: Ran, leaf: Leaf) -> bool:
    """Whether the body is written in another file, and shows there where the leaf comes from."""
    written = definition(site.program, ran.mapped.inner)
    if written is None or not told_there(site, ran):
        return False
    made = (
        leaf.origin is not None
        and leaf.origin.file is written.file
        and isinstance(leaf.origin.node, ast.Call)
    )
    return (made and leaf.kind != "mask") or _given_back(ran, leaf) is not None


def _returned(site: Site, ran: Ran, leaf: Leaf) -> ast.expr | None:
    """Where the body gives a leaf of its result back, if it stands in this file and returns once."""
    written = definition(site.program, ran.mapped.inner)
    return _given_back(ran, leaf) if written is not None and written.file is site.file else None


def _given_back(ran: Ran, leaf: Leaf) -> ast.expr | None:
    inner = ran.mapped.inner
    while isinstance(inner, Transformed):
        inner = inner.inner
    if not isinstance(inner, Function):
        return None
    given = returned(inner) if isinstance(inner.node, ast.FunctionDef) else None
    return _part(given, ran.result, leaf) if given is not None else None


def _part(node: ast.expr, result: Local, leaf: Leaf) -> ast.expr | None:
    """The part of a returned expression that is a leaf of what it is."""
    match node, result:
        case ast.Tuple(elts=parts), Tree(items=items) if len(parts) == len(items):
            found = [_part(part, item, leaf) for part, item in zip(parts, items, strict=True)]
        case ast.Dict(values=values), Record(entries=entries) if len(values) == len(entries):
            found = [_part(part, item, leaf) for part, (_, item) in zip(values, entries, strict=True)]
        case _:
            return node if any(one is leaf for one in leaves(result)) else None
    return next((one for one in found if one is not None), None)


def _in(whole: ast.AST, part: ast.AST) -> bool:
    return any(node is part for node in walk(whole))


def _sizes(ran: Ran) -> dict[str, int | None]:
    mesh = ran.mapped.mesh
    return dict(zip(mesh.axis_names or (), mesh.sizes, strict=False)) if mesh is not None else {}

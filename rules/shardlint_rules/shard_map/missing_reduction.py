"""SL402."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.assume import Assuming
from shardlint.model.manual.mapped import Ran, against, definition
from shardlint.model.manual.varying import Axes, Axis, Event, Leaf, Local, Record, Tree, leaves
from shardlint.model.values import Function, Place, Transformed
from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map.returned import returned
from shardlint_rules.shard_map.runs import IN_BODIES, as_argument, elsewhere, runs, shown, told_there

# Axes along which the examples of one batch are split; members of a population have another.
_SPLIT = regex(r"(?i)batch|data|device|replica|host|(^|_)(dp|core|cores|shards?)($|_)")
_UNREDUCED = ("unreduced gradient", "own gradient")
_MAKE_SAME = ("psum", "pmean", "pmax", "pmin", "all_gather")


class MissingReduction(Rule):
    """A result of `shard_map` is declared the same on all devices, and each computes its own.

    ## What it does
    Follows the values of the body of a `shard_map` whose check is off, through helpers, loops and tree maps, from
    the arguments and their `in_specs` to the results. Reports a result that varies over an axis which its out spec
    does not name, where no collective over that axis is on its way. Likely: where collectives that make values the
    same are on its way, and each device computes with its own part again behind them. And gradients in the body of
    a `pmap` with an axis name that are given to the optimizer as each device has them, where the file makes copies
    of a state for all devices, or takes one of them, or the axis is called that of a batch, data or devices;
    possible elsewhere: each device may train a model of its own. Likely too: such gradients in the body of a
    `shard_map` whose check is off, of a loss that calls a model which is not seen; and, reported at the `psum`, a
    sum over the axis that the out spec names in place of the one along which the result differs.

    ## Why it hurts
    The array says that it is replicated, and holds other numbers on each device. Printing it shows those of the first
    one; a later jit reads whichever copy is at hand; parameters updated so drift apart. With the check on, jax
    raises instead.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Values that go through code which is not seen, that are gathered, permuted or exchanged,
    or that depend on a branch, are left alone. Where the check is given by a configuration, the finding says what that
    most likely is.
    """

    code = "SL402"
    name = "missing-reduction"
    harm = Harm.SILENT
    assumes = True
    behind = ("SL403",)
    likely = ("pmap", "pmap-named", "gradients", "other-axis", "again")
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
                        f"On {site.release('jax')} each device updates its parameters with the gradients of its own "
                        "part of the batch, and the check that would raise is off: they drift apart.",
                        label=(
                            f"gradients that were reduced over no axis{elsewhere(site, event)}, declared the same along "
                            f"{shown(axes)}"
                        ),
                        help=f"average them first: grads = jax.lax.pmean(grads, {as_argument(axes)})",
                        certainty=Certainty.POSSIBLE,
                        form="gradients",
                        why="what the loss calls and is not seen does not reduce gradients, as models do not",
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
            split = any(_SPLIT.search(str(axis)) for axis in event.axes)
            yield site.finding(
                place.node,
                f"On {site.release('jax')} every device updates its parameters with the gradients of its own part of "
                "the batch: they drift apart, and what is saved is the first one's.",
                label=f"gradients that were reduced over no axis{elsewhere(site, event)}",
                help=f"average them first: grads = jax.lax.pmean(grads, {as_argument(event.axes)})",
                certainty=Certainty.POSSIBLE,
                form="pmap" if copied else "pmap-named" if split else "pmap-alone",
                why="the pmap has an axis name"
                + (", and its state is copied to all devices" if copied else "")
                + (", that of the batch" if split and not copied else ""),
            )
            return

    def _finding(
        self, site: Site, ran: Ran, leaf: Leaf, axes: Axes, node: ast.AST, other: Event | None = None
    ) -> Finding:
        off, assumed = ran.mapped.check == "off", isinstance(site.program.evaluator, Assuming)
        updated = leaf.origin is not None and leaf.origin.node is node and isinstance(node, ast.Call)
        updated = updated and not site.text(node).startswith(
            ("jax.lax.axis_index", "lax.axis_index", "axis_index")
        )
        what = "gradients that were reduced over no axis" if updated else "a result that differs along"
        label = f"{what}, declared the same along {shown(axes)}" if updated else f"varies over {shown(axes)}"
        if other is not None:
            over = shown(other.axes)
            return site.finding(
                node,
                f"On {site.release('jax')} the result is declared split over {over} and the same along {shown(axes)}: "
                f"it is the same along {over} now, every device along {shown(axes)} holds its own, and the check that "
                "would raise is off.",
                label=f"sums over {over} what differs along {shown(axes)}",
                help=f"reduce it over {shown(axes)}",
                certainty=Certainty.PROVEN if off else Certainty.POSSIBLE,
                form="check-not-known" if not off else "other-axis" if assumed else "",
                why="the out spec names the axis that it is summed over, and not the one along which it differs",
            )
        again = not updated and bool(axes & leaf.reduced)
        on_the_way = (
            "each device computes with its own part again" if again else "no collective is on its way"
        )
        return site.finding(
            node,
            f"On {site.release('jax')} the result counts as replicated over {shown(axes)}, and every device holds its "
            f"own: {on_the_way}, and the check that would raise is off.",
            label=label,
            help=f"reduce it (`jax.lax.psum` or `pmean` over {shown(axes)}), or name the axis in its out spec",
            certainty=Certainty.PROVEN if off and not again else Certainty.POSSIBLE,
            form="check-not-known"
            if not off
            else "again"
            if again
            else "gradients"
            if updated and assumed
            else "",
            why="the collectives over it stand before that" if again else "",
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

"""SL426."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.varying import Event
from shardlint.model.values import Place, api_name
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._first_labels import Labels, first_labels
from shardlint_rules.shard_map.runs import as_argument, elsewhere, events, shown

_INDEX = "jax.lax.axis_index"
_COUNTS = ("jax.numpy.arange",)
_CHOOSING = ("jax.nn.one_hot",)
_NEAR = ("cos(", "sin(", "shard_map", "psum(")
_GATHER = "jax.lax.all_gather"


class ShardOffset(Rule):
    """Where a shard begins in the whole is counted along another axis, or not at all.

    ## What it does
    Reports, in the bodies of `shard_map`,

    - `jax.lax.axis_index("data") * table.shape[0]` where that dimension of `table` is split over other axes only;
    - the same where `table.shape[0]` is taken around the body, of the table before it is split: that is the size of
      the whole;
    - a table that every device holds whole, of which a body takes the rows `[:x.shape[0]]` or `[jnp.arange(n)]`, where
      `n` is the length of a dimension that is split: each device takes the rows of the first;
    - such numbers whose sine or cosine is taken, as rotary embeddings do, or that a mask compares with those of
      what was gathered over the axis: the positions of each device begin at 0;
    - numbers that are the same on all devices, looked for among the entries of a split dimension from 0 on:
      `jax.nn.one_hot(ids, up.shape[0])`, `ids == jnp.arange(up.shape[0])`;
    - labels `jnp.arange(n)` of a loss whose logits are the rows of one device against what `all_gather` brought of
      all: the label of row 0 is 0 on every device.

    ## Why it hurts
    Rows are looked up, or compared, that are another device's. All shapes are right and nothing raises; with one
    device along the axis it is right.

    ## Use instead
    `jax.lax.axis_index("model") * table.shape[0]`, and `jax.lax.axis_index(axis) * n + jnp.arange(n)`.

    ## Evidence
    Run on jax 0.12 with 8 devices: 80 of 80 rows of an embedding are wrong, and a contrastive loss differs from that
    of one device. Labels that are moved, and logits of which both sides were gathered, are left alone.
    """

    code = "SL426"
    name = "shard-offset"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("other-axis", "labels", "rows", "positions", "whole", "numbers")
    assumes = True
    triggers = (
        Calls(_INDEX),
        Calls(_GATHER, function_says=("arange",)),
        *MAPPING,
        Mapped(calling=(("arange", "one_hot"), _NEAR)),
    )
    forms = ("call", "partial", "keyword", "mapped")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an index, or for the labels of a loss."""
        if site.api == _GATHER:
            found = first_labels(site)
            if found is not None:
                yield self._labels(site, found)
            return
        if site.api != _INDEX:
            yield from self._rows(site)
            yield from self._positions(site)
            yield from self._chosen(site)
            if site.api not in _COUNTS:
                yield from self._wholes(site)
            return
        event = self._of_others(site)
        if event is not None:
            yield site.finding(
                site.call,
                f"counts along {shown(event.axes)} what is split over {event.note}",
                f"On {site.release('jax')} this begins at the shard of another device: the dimension is split over "
                f"{event.note}, and is the same along {shown(event.axes)}.",
                help=f"take the index along {event.note}",
                form="other-axis",
                why=f"the in_specs of the shard_map split it over {event.note}",
            )

    def _rows(self, site: Site) -> Iterator[Finding]:
        """Tables of which each device takes the first rows."""
        done: set[ast.AST] = set()
        for _, event, node in events(site, "rows from 0", inside=_COUNTS) if site.wants("rows") else ():
            if node in done:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"the first rows, on every device along {shown(event.axes)}{elsewhere(site, event)}",
                f"On {site.release('jax')} all devices hold the whole table, and the rows that they need begin where "
                f"their shard does: the dimension that counts them is split over {shown(event.axes)}.",
                help=f"begin at jax.lax.axis_index({as_argument(event.axes[:1])}) * n, or give the table an in spec "
                "that splits it",
                form="rows",
                why="the in_specs split the dimension whose length it takes",
            )

    def _chosen(self, site: Site) -> Iterator[Finding]:
        """Numbers that count the whole of a dimension, looked for among those of each device's part."""
        done: set[ast.AST] = set()
        for _, event, node in events(site, "numbers of all", inside=_CHOOSING) if site.wants("numbers") else ():
            if node in done:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"the same numbers, on every device along {shown(event.axes)}{elsewhere(site, event)}",
                f"On {site.release('jax')} the dimension that they choose from is split over {shown(event.axes)}: each "
                "device takes its first entry for the first of all, and the numbers beyond its own entries choose "
                "nothing.",
                help=f"subtract where its entries begin: jax.lax.axis_index({as_argument(event.axes[:1])}) * n",
                form="numbers",
                why="the in_specs split the dimension whose length it takes, and the numbers are the same on all "
                "devices",
            )

    def _wholes(self, site: Site) -> Iterator[Finding]:
        """Shards that are counted by the size that the whole dimension has."""
        done: set[ast.AST] = set()
        for _, event, node in events(site, "index by whole") if site.wants("whole") else ():
            if node in done:
                continue
            done.add(node)
            yield site.finding(
                node,
                f"counts shards along {shown(event.axes)} by the size of the whole{elsewhere(site, event)}",
                f"On {site.release('jax')} the size is taken outside of the body, of the array before it is split over "
                f"{shown(event.axes)}: every device but the first begins beyond the end.",
                help="take the size of the shard, in the body",
                form="whole",
                why="the in_specs split the dimension whose size it is",
            )

    def _positions(self, site: Site) -> Iterator[Finding]:
        """Numbers of rows that begin at 0 on every device, and count as their places in the whole."""
        done: set[ast.AST] = set()
        kinds = ("rows turned", "rows against all") if site.wants("positions") else ()
        for _, event, node in events(site, *kinds, inside=_COUNTS) if kinds else ():
            if node in done:
                continue
            done.add(node)
            angles = event.kind == "rows turned"
            yield site.finding(
                node,
                f"positions that begin at 0 on every device along {shown(event.axes)}{elsewhere(site, event)}",
                f"On {site.release('jax')} the dimension that they count is split over {shown(event.axes)}: each "
                "device takes its rows for "
                + ("the first of the sequence." if angles else "the first, and masks what was gathered by that."),
                help=f"begin at jax.lax.axis_index({as_argument(event.axes[:1])}) * n",
                form="positions",
                why="the in_specs split the dimension whose length it takes"
                + ("" if angles else ", and what they are compared with counts the whole of it"),
            )

    def _of_others(self, site: Site) -> Event | None:
        """What running the body that the index is in says of it."""
        steps = site.region.steps
        place = steps[-1].place if steps else None
        call = _mapping(site, place) if place is not None else None
        if place is None or call is None:
            return None
        form = "partial" if _named(site, place, call.func) == "functools.partial" else "call"
        for ran in site.program.ran(place.file, call, form, site.allows("jax", ">=0.6.1")):
            for event in ran.events:
                if event.kind == "index of others" and event.leaf.origin is not None:
                    if event.leaf.origin.node is site.call:
                        return event
        return None

    def _labels(self, site: Site, found: Labels) -> Finding:
        axis = found.axis
        return site.finding(
            found.node,
            "counts from 0 on every device",
            f"On {site.release('jax')} each device compares its rows with those of the first: "
            f"`{found.logits}` has the columns of all devices, gathered at line {site.call.lineno}.",
            help=f"add where its rows begin: jax.lax.axis_index({axis}) * n + {site.text(found.node)}",
            form="labels",
            why="the columns are gathered and the rows are not",
        )


def _mapping(site: Site, place: Place) -> ast.Call | None:
    """The call of `shard_map` that a place is, or is in."""
    for node in (place.node, *place.file.ancestors(place.node)):
        if isinstance(node, ast.Call):
            names = {_named(site, place, one) for one in (node.func, *node.args[:1])}
            if "jax.shard_map" in names:
                return node
        if isinstance(node, ast.stmt):
            return None
    return None


def _named(site: Site, place: Place, node: ast.expr) -> str:
    return api_name(site.program.value(place.file, node))

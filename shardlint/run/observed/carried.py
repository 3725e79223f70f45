"""Arrays that stay on one device while the function that takes them runs on several: copied to all at each call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from shardlint.run.dumps import Compiled
from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, array, first, function, line
from shardlint.run.rules import different
from shardlint.run.run import Run, is_state
from shardlint.verify.report import size_text


def carried(functions: Sequence[Sequence[Compiled]], run: Run, events: Events, told: set[str]) -> Iterator[Found]:
    """Large arrays that no one has placed and that a function of several devices keeps whole, though it gives none like
    them back; those of `told` are known to already.

    State is none: after the first call it lies where the function left it.
    """
    groups: dict[tuple[str, int], list[Compiled]] = defaultdict(list)
    for each in functions:
        for version in different(each):
            groups[version.function.line.file, version.function.line.line].append(version)
    seen = set()
    for one in events.of("ran"):
        if one["devices"] < 2 or one.get("pmap") or not one["lines"] or not one["defined"] or one["name"] in told:
            continue
        compiled = groups.get((str(one["defined"][0]), int(one["defined"][1])), [])
        if not compiled:
            continue
        names = set.intersection(*(_whole(version, run) for version in compiled))
        leaves = [
            leaf
            for leaf in one["taken"]
            if leaf["devices"] == 1 and not leaf["placed"] and leaf["name"] in names
        ]
        if not leaves or one["name"] in seen:
            continue
        seen.add(one["name"])
        leaves.sort(key=lambda leaf: -leaf["bytes"])
        made = next((leaf["made"] for leaf in leaves if leaf["made"]), None)
        total = sum(leaf["bytes"] for leaf in leaves)
        count = "1 array" if len(leaves) == 1 else f"{len(leaves)} arrays"
        where = first(made or one["lines"])
        see = [("taken", first(one["lines"]))] if made else []
        see += [("called", line(place)) for place in (made or one["lines"])[1:2]]
        yield Found(
            "one-device", function((made or one["lines"])[0]), where,
            f"{count} ({size_text(total)}) that no one has placed: they lie on one device, and each call of "
            f"{one['name']} copies them whole to all {one['devices']}",
            tuple(f"{leaf['name']} {array(leaf)}" for leaf in leaves[:12]),
            "place them once, with jax.device_put and their shardings", total, code="SL205",
            see=(*see, ("defined", line(one["defined"]))),
        )  # fmt: skip


def _whole(one: Compiled, run: Run) -> set[str]:
    """The arguments that were never placed and lie whole on every device, but for state."""
    return {
        leaf.where
        for leaf in one.arguments
        if leaf.where in one.unplaced and run.is_whole(leaf, one) and not is_state(leaf, one)
        if not any(result.array == leaf.array for result in one.results)
    }

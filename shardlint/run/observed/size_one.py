"""Weights whose specs name only mesh axes of size 1, where the batch has a larger axis beside those."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, make_line
from shardlint.verify.texts import size_text

_SHARE = 10


def find_copies_by_size_one(events: Events, least: int) -> Iterator[RunFinding]:
    """Large arrays that come whole because their axes have size 1, though other weights are split over a larger axis
    that takes the place of those in the batch.

    Configurations say size 1 on purpose, and pure data parallelism has an axis of size 1 along its weights. That a
    dimension of the batch is split over `("data", "expert")` says what "expert" stands beside, and that other weights
    are split over it says that it is no axis for whole copies.
    """
    told = set()
    for one in events.events_of_kind("ran"):
        taken = [leaf for leaf in one["taken"] if leaf["devices"] > 1]
        entries = [(leaf, entry) for leaf in taken for entry in leaf["entries"]]
        for batch, entry in entries:
            single = {name for name, size in entry.items() if size == 1}
            over = {name: size for name, size in entry.items() if size > 1}
            if not any(over.keys() & other.keys() and not single & other.keys() for _, other in entries):
                continue
            lost = [leaf for leaf in taken if _is_left_whole(leaf, single, math.prod(over.values()), least)]
            if sum(leaf["bytes"] for leaf in lost) * _SHARE < sum(leaf["held"] for leaf in taken) or not lost:
                continue
            found = _make_finding(one, batch, over, sorted(lost, key=lambda leaf: -int(leaf["bytes"])), events)
            if found.line not in told:
                told.add(found.line)
                yield found
            break


def _is_left_whole(leaf: dict[str, Any], single: set[str], parts: int, least: int) -> bool:
    """Return whether an array is large, its spec names only axes of size 1, and it could be split."""
    names = {name for entry in leaf["entries"] for name in entry}
    whole = bool(names) and names <= single and leaf["held"] == leaf["bytes"] >= least
    return whole and any(size % parts == 0 for size in leaf["shape"])


def _make_finding(
    one: dict[str, Any], batch: dict[str, Any], over: Mapping[str, int], lost: Sequence[dict[str, Any]], events: Events
) -> RunFinding:
    names = tuple(lost[0]["entries"][0])
    sizes = {**lost[0]["entries"][0], **over}.items()
    meshes = [each["line"] for each in events.events_of_kind("mesh") if sizes <= dict(each["axes"]).items()]
    called, held = first_line(one["lines"]), sum(leaf["bytes"] for leaf in lost)
    shown, more = " and ".join(map(repr, names)), " and ".join(map(repr, over))
    return RunFinding(
        "replicated", one["name"], first_line([*meshes, *one["lines"]]),
        f"{len(lost)} array{' is' if len(lost) == 1 else 's are'} replicated on {lost[0]['devices']} devices "
        f"({size_text(held)} a device): their specs name {shown}, which has size 1 in this mesh. {batch['name']} is "
        f"{batch['spec']}",
        tuple(f"{leaf['name']} {format_array(leaf)} {leaf['spec']}" for leaf in lost[:12]),
        f"name {more} in their specs too, P({(*names, *over)}), or give {shown} more devices", held,
        see=(*(("its sharding", make_line(each)) for each in lost[0]["decided"][:2]), ("called", called)),
    )  # fmt: skip

"""Batches that every device gets whole, where their like is split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, make_line

_BATCH = 2**14


def find_replicated_batches(events: Events, compiled: Sequence[Compiled], least: int) -> Iterator[RunFinding]:
    """Arguments from the host that every device gets whole, where another function gets their like split."""
    split: dict[Any, dict[str, Any]] = {}
    for one in events.events_of_kind("ran"):
        for leaf in one["taken"]:
            if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"] and leaf["placed"]:
                split.setdefault(_batch_key(leaf), {**leaf, "by": one["name"], "at": one["defined"]})
    told = set()
    for one in events.events_of_kind("ran"):
        place = first_line(one["lines"])
        if one["devices"] < 2 or not one["defined"] or one["moves"] or place in told:
            continue
        lost = [
            leaf
            for leaf in one["taken"]
            if leaf["devices"] < 2
            and not leaf["placed"]
            and leaf["bytes"] >= min(least, _BATCH)
            and split.get(_batch_key(leaf), {"at": one["defined"]})["at"] != one["defined"]
            and is_whole(leaf, one, compiled)
        ]
        if lost:
            told.add(place)
            like = split[_batch_key(lost[0])]
            yield RunFinding(
                "replicated", one["name"], place,
                f"every device gets all of {lost[0]['name']} {format_array(lost[0])} and does the same work: "
                f"{like['by']} gets {like['name']} as {like['spec']}",
                tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in lost),
                f"place it first: jax.device_put(x, NamedSharding(mesh, {like['spec']}))",
                sum(leaf["bytes"] for leaf in lost), see=(("defined", make_line(one["defined"])),),
            )  # fmt: skip


def _batch_key(leaf: dict[str, Any]) -> Any:
    """Return the common key of two similar batches: the argument, its type, and the shape of one example."""
    return leaf["name"], leaf["dtype"], tuple(leaf["shape"][1:])


def is_whole(leaf: dict[str, Any], one: dict[str, Any], compiled: Sequence[Compiled]) -> bool:
    """Return whether an argument of a compiled function is replicated."""
    file, number, _ = one["defined"]
    return any(
        argument.where == leaf["name"] and argument.copies == each.partitions
        for each in compiled
        if each.partitions > 1 and each.function.line.file == file and each.function.line.line == number
        for argument in each.arguments
    )


def last_batch_whole(events: Events) -> Iterator[RunFinding]:
    """Batches whose rows the devices do not divide, placed whole where the others of their function are split."""
    ran = [one for one in events.events_of_kind("ran") if one["devices"] > 1 and one["defined"] and one["work"]]
    split: dict[Any, dict[str, Any]] = {}
    for one in ran:
        for leaf in one["taken"]:
            if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"] and leaf["placed"]:
                split.setdefault((tuple(one["defined"]), *_batch_key(leaf)), leaf)
    told = set()
    for one in ran:
        for leaf in one["taken"]:
            other = split.get((tuple(one["defined"]), *_batch_key(leaf)))
            if other is None or leaf["devices"] < 2 or leaf["held"] < leaf["bytes"] or leaf["bytes"] < _BATCH:
                continue
            parts = other["bytes"] // other["held"]
            place = first_line(leaf["put"] or one["lines"])
            if leaf["shape"][0] % parts == 0 or place in told:
                continue
            told.add(place)
            yield RunFinding(
                "replicated", one["name"], place,
                f"every device gets all of {leaf['name']} {format_array(leaf)} and does the same work: {parts} "
                f"devices do not divide its {leaf['shape'][0]} rows. Other calls pass it as {other['spec']}, "
                "so this one also compiles another program",
                (f"{leaf['name']} {format_array(leaf)}",),
                f"drop such a batch, or pad it to a multiple of {parts} rows and mask the padding",
                leaf["bytes"], see=(("taken", first_line(one["lines"])), ("defined", make_line(one["defined"]))),
            )  # fmt: skip

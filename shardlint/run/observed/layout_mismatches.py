"""Arrays that lie otherwise than those they come with: a part of the batch that is whole on every device, and a part of
a tree of weights that nobody has placed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding
from shardlint.run.observed.batches import is_whole
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.run import is_state, root_of_name
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_ROWS = 16
_SHARE = 4


def part_of_batch_whole(events: Events, compiled: Sequence[Compiled], least: int) -> Iterator[RunFinding]:
    """Arguments of a training step that every device gets whole, with as many rows as others that are split."""
    told = set()
    times = {str(one["lines"]): int(one["times"]) for one in events.events_of_kind("placed-times")}
    for one in events.events_of_kind("ran"):
        if one["devices"] < 2 or not one["defined"] or one["pmap"] or one["moves"]:
            continue
        state = _returned_arguments(one, compiled)
        if not state:
            continue
        roots = {root_of_name(name) for name in state}
        batch = [leaf for leaf in one["taken"] if leaf["shape"] and leaf["name"] not in state]
        batch = [leaf for leaf in batch if root_of_name(leaf["name"]) not in roots]
        split = [leaf for leaf in batch if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"]]
        rows = {leaf["shape"][0] for leaf in split}
        spec = {leaf["spec"].partition(",")[0].rstrip(")") for leaf in split}
        if len(rows) != 1 or len(spec) != 1 or min(rows) < _ROWS or spec & {"P(", "P(None"}:
            continue
        lost = [
            leaf for leaf in batch
            if leaf["shape"][0] in rows and leaf["held"] == leaf["bytes"] and _is_part_of_batch(leaf, split, times)
            and leaf["bytes"] >= least
        ]  # fmt: skip
        place = first_line(lost[0]["put"] or one["lines"]) if lost else Line()
        if not lost or place in told:
            continue
        told.add(place)
        like = split[0]
        called = first_line(one["lines"])
        yield RunFinding(
            "replicated", one["name"], place,
            f"every device gets all {lost[0]['shape'][0]} rows of {lost[0]['name']} {format_array(lost[0])} "
            f"({size_text(lost[0]['bytes'])}) and uses its shard of them: {like['name']} is sharded as "
            f"{like['spec']}",
            tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in lost), f"place it as {like['name']} is: "
                                                                     f"{like['spec']}",
            sum(leaf["bytes"] for leaf in lost),
            see=((("taken", called),) if called != place else ()) + (("defined", make_line(one["defined"])),),
        )  # fmt: skip


def _returned_arguments(one: dict[str, Any], compiled: Sequence[Compiled]) -> set[str]:
    """The arguments of a function that it gives back."""
    file, number, _ = one["defined"]
    return {
        leaf.where
        for each in compiled
        if each.function.line.file == file and each.function.line.line == number
        for leaf in each.arguments
        if leaf.shape and is_state(leaf, each)
    }


def _is_part_of_batch(leaf: dict[str, Any], split: Sequence[dict[str, Any]], times: Mapping[str, int]) -> bool:
    """Return whether an array belongs to the batch by more evidence than its number of rows. It is in one tree with a
    part of the batch, or was placed repeatedly as that was. Weights that are only used are placed once.
    """
    if any(root_of_name(leaf["name"]) == root_of_name(each["name"]) != each["name"] for each in split):
        return True
    often = max((times.get(str(each["put"]), 1) for each in split), default=1)
    return often > 1 and times.get(str(leaf["put"]), 1) * 2 >= often


def find_unplaced_subtrees(
    events: Events, compiled: Sequence[Compiled], least: int, told: Collection[tuple[str, int]]
) -> Iterator[RunFinding]:
    """Large parts of a tree that were made on one device and never placed, while the others of it are split; `told` are
    lines of which a finding says so already. What the function itself splits is meant to be.
    """
    seen = set(told)
    for one in events.events_of_kind("ran"):
        if one["devices"] < 2 or not one["defined"] or one["pmap"] or one["moves"]:
            continue
        # The state of an optimizer is made as the weights are.
        types = set[str]()
        split = [leaf for leaf in one["taken"] if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"]]
        back = {format_array(leaf) for leaf in one["given"]}
        for leaf in one["taken"]:
            made = first_line(leaf["made"])
            if leaf["devices"] != 1 or leaf["placed"] or not made.file or (made.file, made.line) in seen:
                continue
            beside = [
                each
                for each in split
                if root_of_name(each["name"]) == root_of_name(leaf["name"]) != each["name"]
            ]
            largest = max((each["bytes"] for each in beside), default=0)
            if not beside or format_array(leaf) not in back or leaf["bytes"] < max(least, largest // _SHARE):
                continue
            if format_array(leaf) in types or not is_whole(leaf, one, compiled):
                continue
            types.add(format_array(leaf))
            seen.add((made.file, made.line))
            other = max(beside, key=lambda each: int(each["bytes"]))
            called = first_line(one["lines"])
            yield RunFinding(
                "one-device", function_of_place([made.file, made.line, made.function]), made,
                f"{leaf['name']} {format_array(leaf)} ({size_text(leaf['bytes'])}) is created on one device and never "
                f"placed: {one['name']} takes it together with {other['name']}, which is sharded as "
                f"{other['spec']}",
                (f"{leaf['name']} {format_array(leaf)}",),
                "place it as the rest of its tree is: jax.device_put(x, NamedSharding(mesh, P(...)))", leaf["bytes"],
                code="SL205", see=((f"taken by {one['name']}", called),) if called != made else (),
            )  # fmt: skip

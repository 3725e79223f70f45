"""Rows that fill up a batch and are counted."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, function_of_place, make_line


def find_padding_mistakes(events: Events) -> Iterator[RunFinding]:
    """Each at the line that takes the rows together."""
    told = set()
    for one in events.events_of_kind("padded"):
        place = first_line(one["lines"])
        if place in told:
            continue
        told.add(place)
        why = f"the last {one['count']} of {one['rows']} rows of its batch ({one['how']}) change its result"
        advice = "pass which rows are valid, and divide by their count: (x * valid).sum() / valid.sum()"
        if one.get("ones"):
            why += f". {one['ones'][0]} is 1 for them"
            advice = f"set {one['ones'][0]} to 0 for these rows"
        if "mask" in one:
            rows = f"{one['count']} of {one['rows']} rows of {one['batch']}"
            why = f"{rows} are padding by {one['mask']}, which it does not read"
        see = [("padded, placed", first_line(one["put"])), ("called", first_line(one["called"]))]
        see += [("defined", make_line(one["defined"]))] if one["defined"] else []
        yield RunFinding(
            "padded", function_of_place(one["lines"][0]), place,
            f"{one['name']} counts padding: {why}",
            advice=advice,
            see=tuple((word, where) for word, where in see if where.file and where != place),
        )  # fmt: skip

"""Rows that fill up a batch and are counted."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, first, function, line


def padded(events: Events) -> Iterator[Found]:
    """Each at the line that takes the rows together."""
    told = set()
    for one in events.of("padded"):
        place = first(one["lines"])
        if place in told:
            continue
        told.add(place)
        how = "masked elsewhere" if one["masked"] else "zeros"
        see = [("padded, placed", first(one["put"])), ("called", first(one["called"]))]
        see += [("defined", line(one["defined"]))] if one["defined"] else []
        yield Found(
            "padded", function(one["lines"][0]), place,
            f"{one['name']} counts padding: the last {one['count']} of {one['rows']} rows of its batch ({how}) "
            "change its result",
            advice="pass which rows are valid, and divide by their count: (x * valid).sum() / valid.sum()",
            see=tuple((word, where) for word, where in see if where.file and where != place),
        )  # fmt: skip

"""Functions that close over arrays which lie split: an argument would keep its placement, a constant does not."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, make_line
from shardlint.run.syntax import reads_outer_name
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text


def find_captured(events: Events, least: int) -> Iterator[RunFinding]:
    """Yield the large arrays that jit closes over, once for each function."""
    told = set()
    for one in sorted(events.events_of_kind("captured"), key=lambda one: -int(one["bytes"])):
        lines = [make_line(each) for each in one["lines"]]
        defined = make_line(one["defined"])
        # A helper is given them by the line that takes them from outside.
        place = next((each for each in lines if reads_outer_name(each)), next(iter(lines), Line()))
        if one["bytes"] < least or not place.file or (key := (defined if defined.file else place)) in told:
            continue
        told.add(key)
        count = "an array" if one["count"] == 1 else f"{one['count']} arrays"
        see = (("defined", defined), ("called", first_line(one["called"])))
        yield RunFinding(
            "captured", one["name"], place,
            f"every device gets a full copy ({size_text(one['bytes'])}): {one['name']} closes over {count} "
            f"sharded as {one['spec']} ({format_array(one)}), and jit stores constants. Later changes have no effect",
            (format_array(one),), "pass the arrays to the function as arguments", one["bytes"], code="SL105",
            see=tuple((word, where) for word, where in see if where.file and where.line != place.line),
        )  # fmt: skip

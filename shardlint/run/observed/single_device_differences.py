"""Functions of `shard_map` that give other numbers on one device than on several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, function_of_place, make_line
from shardlint.run.syntax import loop_count_line
from shardlint.verify.facts import Line

_MEANT = "if this function is meant to compute per device, ignore this"


def find_deviations(events: Events) -> Iterator[RunFinding]:
    """Each at the operation where the numbers part, but for functions of which more is known."""
    known = {
        str(region[key])
        for region in events.events_of_kind("region")
        for key in ("defined", "made")
        if region[key]
    }
    known |= {
        str(seen["lines"][0])
        for region in events.events_of_kind("region")
        for seen in region["seen"]
        if seen["lines"]
    }
    read = set(known)
    known |= {
        str(place)
        for one in (*events.events_of_kind("unequal"), *events.events_of_kind("parted"))
        for place in one["regions"]
    }
    for one in events.events_of_kind("alone"):
        if (read if one["taken"] == "left" else known) & {str(each) for each in _event_places(one)}:
            continue
        place = loop_count_line(first_line(one["lines"])) if one["taken"] == "unreached" else first_line(one["lines"])
        see = [("the loop", first_line(one["lines"]))] if one["taken"] == "unreached" else []
        see += [("mapped", make_line(one["made"])), ("called", first_line(one["called"]))]
        see += [("inside, called", make_line(each)) for each in one["lines"][1:3]]
        message, advice = _describe_deviation(one)
        see += [("in the loop", make_line(each)) for each in one["inside"]]
        yield RunFinding(
            "differs-from-one-device", function_of_place(one["defined"]), place, message, advice=advice,
            see=tuple((word, where) for word, where in see if where.file and where != place),
        )  # fmt: skip


def reduced_in_part(events: Events) -> set[Line]:
    """Where regions are made of which it is known which reduction leaves out an axis."""
    return {make_line(one["made"]) for one in events.events_of_kind("alone") if one["taken"] == "left" and one["made"]}


def _event_places(one: dict[str, Any]) -> list[Any]:
    return [one["defined"], one["made"], *one["lines"][:1]]


def _describe_deviation(one: dict[str, Any]) -> tuple[str, str]:
    axes = " and ".join(map(repr, one["axes"]))
    axis = next(iter(one["axes"]), "")
    devices = one["devices"]
    times = one["times"]
    what = f"{_format_ratio(times)} times the value" if times else "other values"
    message = (
        f"on {devices} devices, result {one['result'] or one['shape']} of {function_of_place(one['defined'])} differs "
        f"from a run on one device ({what}): "
    )
    step, taken = one["step"], one["taken"]
    if taken == "unreached":
        return (
            f"the loop is too short: rows {one['rows']} of the result {one['result'] or one['shape']} do not depend on "
            f"the input of {function_of_place(one['defined'])}. The loop passes microbatches from stage to stage along "
            f"{axes}, and ends before one reaches these rows (shown by a second run on other arrays)",
            "make the loop run (microbatches + stages - 1) rounds",
        )
    if step == "iota":
        return (
            message + f"this counts from 0 on each device, not from its offset along {axes}",
            "add jax.lax.axis_index(axis) * n, where n is the size of the shard; "
            + _MEANT,
        )
    if step == "axis_index":
        return (
            message + "the devices differ where this uses the device index",
            "check that the data is sharded over the axis whose index this uses; " + _MEANT,
        )
    if taken == "left":
        rest = " and ".join(repr(axis) for axis in one["axes"] if axis not in one["over"])
        over = " and ".join(map(repr, one["over"]))
        return message + f"this reduces over {over} only, and the values differ along {rest}", (
            f"name all axes that shard the data: jax.lax.pmean(x, {tuple(one['axes'])})"
        )
    if step in ("argmax", "argmin", "top_k"):
        return message + (
            f"{step} gives an index within one device's shard, and this uses it as a global index"
        ), (
            f"add jax.lax.axis_index({axis!r}) * n to the index, where n is the size of the shard; {_MEANT}"
        )
    if one["collective"] and taken == "mean":
        return message + f"{step} adds up {devices} per-device means", (
            f"write jax.lax.pmean(x, {axis!r}), or divide by the count of all rows first; {_MEANT}"
        )
    if taken == "counted":
        return message + (
            f"this value is equal on all devices, and the sum over {axes} counts it once per "
            "device"
        ), (
            f"divide the value by jax.lax.axis_size({axis!r}), or add it after the sum; {_MEANT}"
        )
    if taken == "mean of sums":
        return message + (
            f"this averages over {axes} a value that is already divided by the count of all rows, "
            "or is a sum"
        ), (
            f"write jax.lax.psum(x, {axis!r}), or divide by the count of one device's rows first; {_MEANT}"
        )
    return message + f"the devices differ from here on, at {step}", _MEANT


def _format_ratio(times: float) -> str:
    return f"{times:.0f}" if abs(times - round(times)) < 0.01 and times > 0.5 else f"{times:.3g}"

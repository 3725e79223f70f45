"""Functions of `shard_map` that give other numbers on one device than on several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, first, function, line
from shardlint.run.syntax import counted
from shardlint.verify.facts import Line

_MEANT = "if each device is meant to work by itself here, nothing is wrong"


def alone(events: Events) -> Iterator[Found]:
    """Each at the operation where the numbers part, but for functions of which more is known."""
    known = {str(region[key]) for region in events.of("region") for key in ("defined", "made") if region[key]}
    known |= {str(seen["lines"][0]) for region in events.of("region") for seen in region["seen"] if seen["lines"]}
    read = set(known)
    known |= {str(place) for one in (*events.of("unequal"), *events.of("parted")) for place in one["regions"]}
    for one in events.of("alone"):
        if (read if one["taken"] == "left" else known) & {str(each) for each in _places(one)}:
            continue
        place = counted(first(one["lines"])) if one["taken"] == "unreached" else first(one["lines"])
        see = [("the loop", first(one["lines"]))] if one["taken"] == "unreached" else []
        see += [("mapped", line(one["made"])), ("called", first(one["called"]))]
        see += [("inside, called", line(each)) for each in one["lines"][1:3]]
        message, advice = _said(one)
        see += [("in the loop", line(each)) for each in one["inside"]]
        yield Found(
            "other-alone", function(one["defined"]), place, message, advice=advice,
            see=tuple((word, where) for word, where in see if where.file and where != place),
        )  # fmt: skip


def reduced_in_part(events: Events) -> set[Line]:
    """Where regions are made of which it is known which reduction leaves out an axis."""
    return {line(one["made"]) for one in events.of("alone") if one["taken"] == "left" and one["made"]}


def _places(one: dict[str, Any]) -> list[Any]:
    return [one["defined"], one["made"], *one["lines"][:1]]


def _said(one: dict[str, Any]) -> tuple[str, str]:
    axes = " and ".join(map(repr, one["axes"]))
    axis = next(iter(one["axes"]), "")
    devices = one["devices"]
    times = one["times"]
    much = f"is {_number(times)} times" if times else "is not"
    message = (
        f"result {one['result'] or one['shape']} of {function(one['defined'])}, run once more on such arrays, {much} "
        f"what the same function gives on one device instead of {devices}: "
    )
    step, taken = one["step"], one["taken"]
    if taken == "unreached":
        return (
            f"rows {one['rows']} of result {one['result'] or one['shape']} of {function(one['defined'])}, run once "
            "more on other arrays, are the same for all of them: "
            f"this loop, which hands pieces on along {axes}, ends before anything comes to them",
            "a pipeline takes a round for each microbatch and one more for each stage but the first",
        )
    if step == "iota":
        return (
            message + f"this counts from 0 on each, whatever part along {axes} it has",
            "begin at jax.lax.axis_index(axis) * size of the part, or count it from there in what it is compared with; "
            + _MEANT,
        )
    if step == "axis_index":
        return (
            message + "they part at what is made of this device's number",
            "is it the axis that splits this? " + _MEANT,
        )
    if taken == "left":
        rest = " and ".join(repr(axis) for axis in one["axes"] if axis not in one["over"])
        over = " and ".join(map(repr, one["over"]))
        return message + f"this reduces it over {over} alone, and along {rest} each has its own", (
            f"name all axes that split the data: jax.lax.pmean(x, {tuple(one['axes'])})"
        )
    if step in ("argmax", "argmin", "top_k"):
        return message + f"{step} gives the place in the part of one device, and that goes into what all of them say", (
            f"add the first place of the part before: jax.lax.axis_index({axis!r}) * its size; {_MEANT}"
        )
    if one["collective"] and taken == "mean":
        return message + f"what each has is a mean already, and {step} adds {devices} of them", (
            f"jax.lax.pmean(x, {axis!r}), or divide by the count of all rows before; {_MEANT}"
        )
    if taken == "counted":
        return message + f"this is the same on all of them, and is added to what a sum over {axes} adds up", (
            f"divide it by jax.lax.axis_size({axis!r}), or add it after the sum; {_MEANT}"
        )
    if taken == "mean of sums":
        return message + f"what is averaged over {axes} is a sum over all rows, divided by their count, or a sum", (
            f"jax.lax.psum(x, {axis!r}), or divide by the count of rows of one device before; {_MEANT}"
        )
    return message + f"they part here, at {step}", _MEANT


def _number(times: float) -> str:
    return f"{times:.0f}" if abs(times - round(times)) < 0.01 and times > 0.5 else f"{times:.3g}"

"""Placements the program asked for, and did not get: thrown away, without effect, refused, written too late."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, array, first, function, line
from shardlint.run.syntax import hands_on, keyword, returned, tree
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_OFTEN = 3
_PART = 4
_WHAT_IS_READ = {
    "backend": "jax has already created its devices and does not read it again",
    "import": "jax has already been imported, and reads it at import",
}


def discarded(events: Events) -> Iterator[Found]:
    """Results of placements that nobody takes."""
    # Of one that calls another the outer is the user's, and written last.
    last = {(tuple(one["line"])): one for one in events.of("discarded")}
    for one in last.values():
        place = line(one["line"])
        what = f" of {one['what']}" if one["what"] else ""
        yield Found(
            "discarded", function(one["line"]), place,
            f"the result of {one['name']}{what} is discarded: its argument stays where it is",
            advice=f"use the result: `x = {one['name']}(x, ...)`", bytes=one["bytes"], code="SL203",
        )  # fmt: skip


def undone(events: Events, least: int) -> Iterator[Found]:
    """Placements that another one takes back before a function has taken what was placed."""
    groups: dict[Line, list[dict[str, Any]]] = {}
    # Whole copies for a first look, beside what is trained as it was placed, are meant.
    kept = {
        array(leaf)
        for one in events.of("ran")
        if one["defined"]
        for leaf in one["taken"]
        if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"]
    }
    for one in events.of("placement-overridden"):
        groups.setdefault(first(one["lines"]), []).append(one)
    for place, each in groups.items():
        # One for each array, where each is placed by itself.
        one = {**max(each, key=lambda one: one["bytes"]), "bytes": sum(one["bytes"] for one in each)}
        number = sum(one["count"] for one in each)
        if one["bytes"] < least or not place.file or array(one) in kept:
            continue
        count = "1 array" if number == 1 else f"{number} arrays"
        yield Found(
            "placement-overridden", function(one["lines"][0]), place,
            f"this replicates {count} ({size_text(one['bytes'])} on every device) that had just been sharded: "
            f"{array(one)} was {one['spec']}, and no function has used it yet",
            advice="remove this placement, or use the same shardings here", bytes=one["bytes"],
            see=(("sharded", first(one["before"])),),
        )  # fmt: skip
    yield from _placed_again(events, least)


def _placed_again(events: Events, least: int) -> Iterator[Found]:
    """Batches that one line places split, and another one otherwise, time after time."""
    times = {str(one["lines"]): int(one["times"]) for one in events.of("placed-times")}
    told = set()
    for one in events.of("placed-again"):
        place, before = first(one["lines"]), first(one["before"])
        often = min(times.get(str(one[key]), 1) for key in ("put", "before"))
        if often < _OFTEN or one["bytes"] < least or place in told:
            continue
        told.add(place)
        same = one["spec"] == one["now"]
        see = [("placed first", before), *(("its first sharding", line(each)) for each in one["decided"])]
        if same and one["mesh"]:
            see, place = [("placed again", place), *see], line(one["mesh"])
            yield Found(
                "placement-overridden", function(one["mesh"]), place,
                f"{array(one)} is sent to other devices for this mesh ({size_text(one['bytes'])}, {often} "
                "times): the device order of this mesh differs from that of the mesh in use",
                advice="make one mesh, and place the arrays on it", bytes=one["bytes"], see=tuple(see),
            )  # fmt: skip
            continue
        how = f"from {one['spec']} to {one['now']}" if not same else "to devices in another order"
        yield Found(
            "placement-overridden", function(one["lines"][0]), place,
            f"this sends {array(one)} twice: another line has just placed it, and this moves it {how} "
            f"({size_text(one['bytes'])}, {often} times)",
            advice="place it once, with the sharding that the function expects", bytes=one["bytes"],
            see=tuple((word, where) for word, where in see if where.file and where != place),
        )  # fmt: skip


def filled_alike(events: Events) -> Iterator[Found]:
    """Arrays of which every device was given the same part."""
    seen = set()
    for one in events.of("same-shards"):
        called = place = first(one["lines"])
        if made := one.get("callback"):
            place = line([made[0], returned(made[0], made[1]) or made[1], made[2]])
        if place in seen:
            continue
        seen.add(place)
        yield Found(
            "same-rows", function(one["lines"][0]), place,
            f"all {one['parts']} shards of this {array(one)} have the same values: the callback returns the "
            f"same data for each device. Its sharding is {one['spec']}",
            advice="return the requested part, as in lambda index: data[index]", bytes=one["bytes"],
            see=(("called", called),) if called != place else (),
        )  # fmt: skip


def filled_apart(events: Events) -> Iterator[Found]:
    """Arrays of which devices that hold the same part were given other numbers."""
    seen = set()
    for one in events.of("copies-differ"):
        place = first(one["lines"])
        if place in seen:
            continue
        seen.add(place)
        pair = " and ".join(map(str, one["pair"]))
        yield Found(
            "differs", function(one["lines"][0]), place,
            f"results depend on the device: devices {pair} have the same shard of this {array(one)} "
            f"({one['spec']}), with different values",
            advice="compute each shard from its index, not from the device or process",
            bytes=one["bytes"], see=tuple(("called", line(each)) for each in one["lines"][1:3]),
        )  # fmt: skip


def without_effect(events: Events, least: int) -> Iterator[Found]:
    """Constraints that gave back what they were given, wherever they were reached."""
    done = {first(one["lines"]) for one in events.of("effect")}
    seen = set()
    for one in events.of("no-op"):
        place = first(one["lines"])
        if place in done or place in seen:
            continue
        seen.add(place)
        names = f"({', '.join(map(repr, one['names']))})" if one["names"] else ""
        flax = one["name"].startswith("nn.")
        why = (
            "flax finds no mesh or no rules in context"
            if flax
            else "no axis mapping, or no mesh, is in context"
        )
        yield Found(
            "no-effect", function(one["lines"][0]), place,
            f"{one['name']}{names} does nothing: {why}",
            advice="run this under `with jax.set_mesh(mesh), nn.logical_axis_rules(rules):`" if flax else
            "run this under `with jax.set_mesh(mesh), hax.axis_mapping(mapping):`",
            bytes=one["bytes"], code="SL501" if flax else "SL601",
        )  # fmt: skip
    for one in events.of("put-none"):
        place = first(one["lines"])
        if place not in seen and one["bytes"] >= least:
            seen.add(place)
            yield Found(
                "no-effect", function(one["lines"][0]), place,
                f"{one['name']} leaves {one['what']} on one device: the sharding is None",
                advice="pass a sharding in place of None", bytes=one["bytes"],
            )  # fmt: skip


def asked(events: Events) -> Iterator[Found]:
    """Yield the requests of traced code that have no effect."""
    for one in events.of("asked"):
        place = first(one["lines"])
        shown = array(one)
        if one["what"] == "indivisible":
            axes = " and ".join(map(repr, one["axes"]))
            yield Found(
                "indivisible", function(one["lines"][0]), place,
                f"dimension {one['dimension']} of {shown} is padded: its size {one['size']} is not divisible "
                f"by the {one['parts']} parts of mesh axis {axes}",
                advice=f"make the size a multiple of {one['parts']}, or replicate the dimension", code="SL216",
            )  # fmt: skip
        elif one["what"] == "put-in-jit":
            yield Found(
                "no-effect", function(one["lines"][0]), place,
                f"device_put of {shown} to {one['target']} has no effect in traced code",
                advice="write jax.lax.with_sharding_constraint(x, sharding)", code="SL201",
            )  # fmt: skip


def asking(lines: Sequence[Line]) -> Line:
    """Of the lines that led to a constraint, innermost first, the one that says what is asked for."""
    return next((one for one in lines if not hands_on(one)), lines[0])


def short(events: Events, least: int) -> Iterator[Found]:
    """Constraints that name fewer dimensions than their array has, and split another one than it was split along."""
    told = set()
    for one in events.of("asked"):
        if one["what"] != "short" or one["bytes"] < least:
            continue
        lines = [line(each) for each in one["lines"]]
        place, before = asking(lines), asking([line(each) for each in one["before"]])
        if place in told:
            continue
        told.add(place)
        axes = " and ".join(map(repr, one["axes"]))
        see = dict.fromkeys((("before", before), *(("constrained", each) for each in lines[:1] if each != place)))
        yield Found(
            "exchanged", function([place.file, place.line, place.function]), place,
            f"this moves {axes} to another dimension: the spec has fewer entries than {array(one)} has "
            f"dimensions. The array was {one['was']} and is now {one['spec']}",
            advice="write one entry per dimension, None for replicated ones", bytes=one["bytes"],
            see=tuple(see),
        )  # fmt: skip


def drawn_whole(events: Events) -> Iterator[Found]:
    """Random numbers that each device draws all of, on an Explicit mesh, for what is split."""
    told = set()
    for one in events.of("asked"):
        place = first(one["lines"])
        if one["what"] != "drawn-whole" or place in told or one["bytes"] * _PART < events.largest:
            continue
        told.add(place)
        how = "pass out_sharding=spec to the random function" if one["named"] else (
            "reshard the numbers: write "
            "jax.sharding.reshard(numbers, spec)"
        )
        yield Found(
            "replicated", function(one["lines"][0]), place,
            f"every device draws all of {array(one)} ({size_text(one['bytes'])}): on an Explicit mesh random "
            "numbers are replicated by default. They are used with an array that is sharded over "
            f"{' and '.join(map(repr, one['axes']))}",
            advice=f"{how}, with spec = jax.typeof(x).sharding.spec of that array x", bytes=one["bytes"],
        )  # fmt: skip


def swallowed(events: Events) -> Iterator[Found]:
    """Errors of placements that the program caught, and went on without."""
    seen = set()
    for one in events.of("raised"):
        for place in one["lines"]:
            handler = _handler(place[0], place[1])
            if handler and first(one["lines"]) not in seen:
                seen.add(first(one["lines"]))
                what = f" of {one['what']}" if one["what"] else ""
                yield Found(
                    "swallowed", function(one["lines"][0]), first(one["lines"]),
                    f"the array continues without its sharding: {one['name']}{what} raised, and line {handler} "
                    f"caught it. The error: {one['error']}",
                    advice="let it raise, or place the array with a sharding that its shape allows",
                    see=(("caught", line([place[0], handler, place[2]])),),
                )  # fmt: skip


@cache
def _handler(file: str, number: int) -> int:
    """The line of the handler around a line that does not raise again; 0 without one."""
    found = 0
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Try) and node.body[0].lineno <= number <= (node.body[-1].end_lineno or 0):
            for handler in node.handlers:
                if not any(isinstance(each, ast.Raise) for each in ast.walk(handler)):
                    found = max(found, handler.lineno)
    return found


def flags(events: Events) -> Iterator[Found]:
    """Flags and settings written when they are not read any more, or over others."""
    for one in events.of("late-flag"):
        yield Found(
            "too-late", function(one["line"]), line(one["line"]),
            f"setting {one['name']} to {one['value']!r} has no effect: {_WHAT_IS_READ[one['what']]}",
            advice="set it before jax is imported" if one["what"] == "import" else
            "set it before the first call that needs devices or creates an array", code="SL801",
        )  # fmt: skip
    for one in events.of("lost-flag"):
        yield Found(
            "overwritten", function(one["line"]), line(one["line"]),
            f"{' '.join(one['lost'])} is lost: this replaces {one['name']}, which was set before",
            advice="append the new flag: os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' --new'",
            code="SL802", see=(("set before", line(one["before"])),),
        )  # fmt: skip


def warnings(events: Events, told: set[str]) -> Iterator[Found]:
    """Yield jax's warnings at the user's line. `told` are functions whose donation a finding explains already."""
    seen: set[Any] = set()
    for one in events.of("warning"):
        place = first(one["lines"])
        if place in seen:
            continue
        seen.add(place)
        donated = "donated" in one["text"]
        if donated and told:
            continue
        text = one["text"].rstrip(".").split("\n")[0]
        see = [("defined", line(one["defined"]))] if one["defined"] else []
        if donated and one["defined"]:  # what is donated is said where the function is jitted
            see += [("called", replace(place, function=""))]
            place = keyword(_jitted(events, one["defined"]), "donation")
        yield Found(
            "donation" if donated else "warning", function(one["lines"][0]), place,
            f"jax warns: {text}",
            advice="return an array of the same shape, type and sharding, or do not donate it" if donated else "",
            code="SL223" if donated else "",
            see=tuple(part for part in see if (part[1].file, part[1].line) != (place.file, place.line)),
        )  # fmt: skip


def _jitted(events: Events, defined: list[Any]) -> Line:
    """Where a function is jitted; where it is defined, if that was not seen or is in several places."""
    lines = {line(one["line"]) for one in events.of("jitted") if list(one["defined"])[:2] == list(defined)[:2]}
    return lines.pop() if len(lines) == 1 else line(defined)

"""Placements the program asked for, and did not get: thrown away, without effect, refused, written too late."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.syntax import is_forwarding_call, keyword_line, parse_file, return_line
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_OFTEN = 3
_PART = 4
_WHAT_IS_READ = {
    "backend": "jax has already created its devices and does not read it again",
    "import": "jax has already been imported, and reads it at import",
}


def find_discarded_placements(events: Events) -> Iterator[RunFinding]:
    """Results of placements that nobody takes."""
    # Of one that calls another the outer is the user's, and written last.
    last = {(tuple(one["line"])): one for one in events.events_of_kind("discarded")}
    for one in last.values():
        place = make_line(one["line"])
        what = f" of {one['what']}" if one["what"] else ""
        yield RunFinding(
            "discarded", function_of_place(one["line"]), place,
            f"the result of {one['name']}{what} is discarded: its argument stays where it is",
            advice=f"use the result: `x = {one['name']}(x, ...)`", bytes=one["bytes"], code="SL203",
        )  # fmt: skip


def find_undone_placements(events: Events, least: int) -> Iterator[RunFinding]:
    """Placements that another one takes back before a function has taken what was placed."""
    groups: dict[Line, list[dict[str, Any]]] = {}
    # Whole copies for a first look, beside what is trained as it was placed, are meant.
    kept = {
        format_array(leaf)
        for one in events.events_of_kind("ran")
        if one["defined"]
        for leaf in one["taken"]
        if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"]
    }
    for one in events.events_of_kind("placement-overridden"):
        groups.setdefault(first_line(one["lines"]), []).append(one)
    for place, each in groups.items():
        # One for each array, where each is placed by itself.
        one = {**max(each, key=lambda one: one["bytes"]), "bytes": sum(one["bytes"] for one in each)}
        number = sum(one["count"] for one in each)
        if one["bytes"] < least or not place.file or format_array(one) in kept:
            continue
        count = "1 array" if number == 1 else f"{number} arrays"
        yield RunFinding(
            "placement-overridden", function_of_place(one["lines"][0]), place,
            f"this replicates {count} ({size_text(one['bytes'])} on every device) that had just been sharded: "
            f"{format_array(one)} was {one['spec']}, and no function has used it yet",
            advice="remove this placement, or use the same shardings here", bytes=one["bytes"],
            see=(("sharded", first_line(one["before"])),),
        )  # fmt: skip
    yield from _find_replaced_batches(events, least)


def _find_replaced_batches(events: Events, least: int) -> Iterator[RunFinding]:
    """Batches that one line places split, and another one otherwise, time after time."""
    times = {str(one["lines"]): int(one["times"]) for one in events.events_of_kind("placed-times")}
    told = set()
    for one in events.events_of_kind("placed-again"):
        place, before = first_line(one["lines"]), first_line(one["before"])
        often = min(times.get(str(one[key]), 1) for key in ("put", "before"))
        if often < _OFTEN or one["bytes"] < least or place in told:
            continue
        told.add(place)
        same = one["spec"] == one["now"]
        see = [("placed first", before), *(("its first sharding", make_line(each)) for each in one["decided"])]
        if same and one["mesh"]:
            see, place = [("placed again", place), *see], make_line(one["mesh"])
            yield RunFinding(
                "placement-overridden", function_of_place(one["mesh"]), place,
                f"the shards of {format_array(one)} move between devices ({size_text(one['bytes'])}, {often} times): "
                "its mesh has another device order than the mesh of this line",
                advice="make one mesh, and place the arrays on it", bytes=one["bytes"], see=tuple(see),
            )  # fmt: skip
            continue
        how = f"from {one['spec']} to {one['now']}" if not same else "to devices in another order"
        yield RunFinding(
            "placement-overridden", function_of_place(one["lines"][0]), place,
            f"this sends {format_array(one)} twice: another line has just placed it, and this moves it {how} "
            f"({size_text(one['bytes'])}, {often} times)",
            advice="place it once, with the sharding that the function expects", bytes=one["bytes"],
            see=tuple((word, where) for word, where in see if where.file and where != place),
        )  # fmt: skip


def find_equal_parts(events: Events) -> Iterator[RunFinding]:
    """Arrays of which every device was given the same part."""
    seen = set()
    for one in events.events_of_kind("same-shards"):
        called = place = first_line(one["lines"])
        if made := one.get("callback"):
            place = make_line([made[0], return_line(made[0], made[1]) or made[1], made[2]])
        if place in seen:
            continue
        seen.add(place)
        yield RunFinding(
            "same-rows", function_of_place(one["lines"][0]), place,
            f"all {one['parts']} shards of this {format_array(one)} have the same values: the callback returns the "
            f"same data for each device. Its sharding is {one['spec']}",
            advice="return the requested part, as in lambda index: data[index]", bytes=one["bytes"],
            see=(("called", called),) if called != place else (),
        )  # fmt: skip


def find_unequal_copies(events: Events) -> Iterator[RunFinding]:
    """Arrays of which devices that hold the same part were given other numbers."""
    seen = set()
    for one in events.events_of_kind("copies-differ"):
        place = first_line(one["lines"])
        if place in seen:
            continue
        seen.add(place)
        pair = " and ".join(map(str, one["pair"]))
        yield RunFinding(
            "differs", function_of_place(one["lines"][0]), place,
            f"results depend on the device: devices {pair} have the same shard of this {format_array(one)} "
            f"({one['spec']}), with different values",
            advice="compute each shard from its index, not from the device or process",
            bytes=one["bytes"], see=tuple(("called", make_line(each)) for each in one["lines"][1:3]),
        )  # fmt: skip


def find_ineffective_constraints(events: Events, least: int) -> Iterator[RunFinding]:
    """Constraints that gave back what they were given, wherever they were reached."""
    done = {first_line(one["lines"]) for one in events.events_of_kind("effect")}
    seen = set()
    for one in events.events_of_kind("no-op"):
        place = first_line(one["lines"])
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
        yield RunFinding(
            "no-effect", function_of_place(one["lines"][0]), place,
            f"{one['name']}{names} does nothing: {why}",
            advice="run this under `with jax.set_mesh(mesh), nn.logical_axis_rules(rules):`" if flax else
            "run this under `with jax.set_mesh(mesh), hax.axis_mapping(mapping):`",
            bytes=one["bytes"], code="SL501" if flax else "SL601",
        )  # fmt: skip
    for one in events.events_of_kind("put-none"):
        place = first_line(one["lines"])
        if place not in seen and one["bytes"] >= least:
            seen.add(place)
            yield RunFinding(
                "no-effect", function_of_place(one["lines"][0]), place,
                f"{one['name']} leaves {one['what']} on one device: the sharding is None",
                advice="pass a sharding in place of None", bytes=one["bytes"],
            )  # fmt: skip


def find_ignored_requests(events: Events) -> Iterator[RunFinding]:
    """Yield the requests of traced code that have no effect."""
    for one in events.events_of_kind("asked"):
        place = first_line(one["lines"])
        shown = format_array(one)
        if one["what"] == "indivisible":
            axes = " and ".join(map(repr, one["axes"]))
            yield RunFinding(
                "indivisible", function_of_place(one["lines"][0]), place,
                f"dimension {one['dimension']} of {shown} is padded: its size {one['size']} is not divisible "
                f"by the {one['parts']} parts of mesh axis {axes}",
                advice=f"make the size a multiple of {one['parts']}, or replicate the dimension", code="SL216",
            )  # fmt: skip
        elif one["what"] == "put-in-jit":
            yield RunFinding(
                "no-effect", function_of_place(one["lines"][0]), place,
                f"device_put of {shown} to {one['target']} has no effect in traced code",
                advice="write jax.lax.with_sharding_constraint(x, sharding)", code="SL201",
            )  # fmt: skip


def requesting_line(lines: Sequence[Line]) -> Line:
    """Of the lines that led to a constraint, innermost first, the one that says what is asked for."""
    return next((one for one in lines if not is_forwarding_call(one)), lines[0])


def find_short_constraints(events: Events, least: int) -> Iterator[RunFinding]:
    """Constraints that name fewer dimensions than their array has, and split another one than it was split along."""
    told = set()
    for one in events.events_of_kind("asked"):
        if one["what"] != "short" or one["bytes"] < least:
            continue
        lines = [make_line(each) for each in one["lines"]]
        place, before = requesting_line(lines), requesting_line([make_line(each) for each in one["before"]])
        if place in told:
            continue
        told.add(place)
        axes = " and ".join(map(repr, one["axes"]))
        see = dict.fromkeys((("before", before), *(("constrained", each) for each in lines[:1] if each != place)))
        yield RunFinding(
            "exchanged", function_of_place([place.file, place.line, place.function]), place,
            f"this moves {axes} to another dimension: the spec has fewer entries than {format_array(one)} has "
            f"dimensions. The array was {one['was']} and is now {one['spec']}",
            advice="write one entry per dimension, None for replicated ones", bytes=one["bytes"],
            see=tuple(see),
        )  # fmt: skip


def find_replicated_draws(events: Events) -> Iterator[RunFinding]:
    """Random numbers that each device draws all of, on an Explicit mesh, for what is split."""
    told = set()
    for one in events.events_of_kind("asked"):
        place = first_line(one["lines"])
        if one["what"] != "drawn-whole" or place in told or one["bytes"] * _PART < events.largest_array_bytes:
            continue
        told.add(place)
        how = "pass out_sharding=spec to the random function" if one["named"] else (
            "reshard the numbers: write "
            "jax.sharding.reshard(numbers, spec)"
        )
        yield RunFinding(
            "replicated", function_of_place(one["lines"][0]), place,
            f"every device draws all of {format_array(one)} ({size_text(one['bytes'])}): on an Explicit mesh random "
            "numbers are replicated by default. They are used with an array that is sharded over "
            f"{' and '.join(map(repr, one['axes']))}",
            advice=f"{how}, with spec = jax.typeof(x).sharding.spec of that array x", bytes=one["bytes"],
        )  # fmt: skip


def find_swallowed_errors(events: Events) -> Iterator[RunFinding]:
    """Errors of placements that the program caught, and went on without."""
    seen = set()
    for one in events.events_of_kind("raised"):
        for place in one["lines"]:
            handler = _handler_line(place[0], place[1])
            if handler and first_line(one["lines"]) not in seen:
                seen.add(first_line(one["lines"]))
                what = f" of {one['what']}" if one["what"] else ""
                yield RunFinding(
                    "swallowed", function_of_place(one["lines"][0]), first_line(one["lines"]),
                    f"the array continues without its sharding: {one['name']}{what} raised, and line {handler} "
                    f"caught it. The error: {one['error']}",
                    advice="let it raise, or place the array with a sharding that its shape allows",
                    see=(("caught", make_line([place[0], handler, place[2]])),),
                )  # fmt: skip


@cache
def _handler_line(file: str, number: int) -> int:
    """The line of the handler around a line that does not raise again; 0 without one."""
    found = 0
    for node in ast.walk(parse_file(file)):
        if isinstance(node, ast.Try) and node.body[0].lineno <= number <= (node.body[-1].end_lineno or 0):
            for handler in node.handlers:
                if not any(isinstance(each, ast.Raise) for each in ast.walk(handler)):
                    found = max(found, handler.lineno)
    return found


def find_late_flags(events: Events) -> Iterator[RunFinding]:
    """Flags and settings written when they are not read any more, or over others."""
    for one in events.events_of_kind("late-flag"):
        yield RunFinding(
            "too-late", function_of_place(one["line"]), make_line(one["line"]),
            f"setting {one['name']} to {one['value']!r} has no effect: {_WHAT_IS_READ[one['what']]}",
            advice="set it before jax is imported" if one["what"] == "import" else
            "set it before the first call that needs devices or creates an array", code="SL801",
        )  # fmt: skip
    for one in events.events_of_kind("lost-flag"):
        yield RunFinding(
            "overwritten", function_of_place(one["line"]), make_line(one["line"]),
            f"{' '.join(one['lost'])} is lost: this replaces {one['name']}, which was set before",
            advice="append the new flag: os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' --new'",
            code="SL802", see=(("set before", make_line(one["before"])),),
        )  # fmt: skip


def find_jax_warnings(events: Events, told: set[str]) -> Iterator[RunFinding]:
    """Yield jax's warnings at the user's line. `told` are functions whose donation a finding explains already."""
    seen: set[Any] = set()
    for one in events.events_of_kind("warning"):
        place = first_line(one["lines"])
        if place in seen:
            continue
        seen.add(place)
        donated = "donated" in one["text"]
        if donated and told:
            continue
        text = one["text"].rstrip(".").split("\n")[0]
        see = [("defined", make_line(one["defined"]))] if one["defined"] else []
        if donated and one["defined"]:  # what is donated is said where the function is jitted
            see += [("called", replace(place, function=""))]
            place = keyword_line(_jit_line(events, one["defined"]), "donation")
        yield RunFinding(
            "donation" if donated else "warning", function_of_place(one["lines"][0]), place,
            f"jax warns: {text}",
            advice="return an array of the same shape, type and sharding, or do not donate it" if donated else "",
            code="SL223" if donated else "",
            see=tuple(part for part in see if (part[1].file, part[1].line) != (place.file, place.line)),
        )  # fmt: skip


def _jit_line(events: Events, defined: list[Any]) -> Line:
    """Where a function is jitted; where it is defined, if that was not seen or is in several places."""
    lines = {
        make_line(one["line"])
        for one in events.events_of_kind("jitted")
        if list(one["defined"])[:2] == list(defined)[:2]
    }
    return lines.pop() if len(lines) == 1 else make_line(defined)

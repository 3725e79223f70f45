"""Findings about direct uses of a program's arguments: sharded rows, donations inside the program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.run import root_of_name
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_SHARE = 16


def find_sharded_scans(events: Events, least: int) -> Iterator[RunFinding]:
    """Scans through a dimension that is split: each row is on other devices than the one before."""
    groups: dict[tuple[Line, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for one in events.events_of_kind("scanned"):
        leaf = one["leaf"]
        if leaf["bytes"] >= least and leaf["bytes"] * _SHARE >= events.largest_array_bytes:
            groups[first_line(one["lines"]), " and ".join(map(repr, one["axes"]))].setdefault(leaf["name"], one)
    for (place, axes), found in groups.items():
        leaves = [one["leaf"] for one in found.values()]
        one = next(iter(found.values()))
        count = "an array" if len(leaves) == 1 else f"{len(leaves)} arrays"
        called = first_line(one["called"])
        see = [("called", called)] if called.file and called != place else []
        for word, key in (("placed", "put"), ("its sharding", "decided")):
            lines = dict.fromkeys(make_line(each) for leaf in leaves for each in leaf[key][:2])
            see += [(word, each) for each in [*lines][:3] if each not in (place, called)]
        # The function that cut the dimension apart decided which part of it is split.
        cut = first_line(next((leaf["reshaped"] for leaf in leaves if leaf["reshaped"]), ()))
        if cut.file and cut != place:
            see, place = [("scanned", place), *see], cut
        message = (
            f"each round of this scan sends a row from one device to the others: {count} is sharded over "
            f"{axes} along the scanned dimension"
        )
        advice = "leave the scanned dimension unsharded, and shard another: P(None, ...)"
        if cut.file:
            message = (
                "each round of a scan sends a row from one device to the others: this splits a dimension of "
                f"{count} in two, the first part is sharded over {axes}, and a scan iterates over it"
            )
            advice = "reshape to (batch // n, n, ...) and swap the first two"
        yield RunFinding(
            "scanned", function_of_place(one["lines"][0]), place,
            message,
            tuple(f"{leaf['name']} {format_array(leaf)} {leaf['spec']}" for leaf in leaves),
            advice,
            sum(leaf["bytes"] for leaf in leaves),
            see=tuple(see),
        )  # fmt: skip


def find_sharded_shuffles(events: Events, least: int) -> Iterator[RunFinding]:
    """Batches whose rows, split over devices, are put in another order across all of them."""
    groups: dict[Line, dict[str, dict[str, Any]]] = defaultdict(dict)
    for one in events.events_of_kind("shuffled"):
        leaf = one["leaf"]
        state = any(
            ran["name"] == one["name"] and format_array(given) == format_array(leaf)
            for ran in events.events_of_kind("ran") for given in ran["given"]
        )  # fmt: skip
        if leaf["bytes"] >= least and leaf["bytes"] * _SHARE >= events.largest_array_bytes and not state:
            groups[first_line(one["lines"])].setdefault(leaf["name"], one)
    for place, found in groups.items():
        leaves = [one["leaf"] for one in found.values()]
        one = next(iter(found.values()))
        axes = " and ".join(map(repr, one["axes"]))
        called = first_line(one["called"])
        yield RunFinding(
            "shuffled", function_of_place(one["lines"][0]), place,
            f"this reorders the rows of {leaves[0]['name']} {format_array(leaves[0])} across devices "
            f"({size_text(leaves[0]['bytes'])} at each call): they are sharded over {axes}",
            tuple(f"{leaf['name']} {format_array(leaf)} {leaf['spec']}" for leaf in leaves),
            "shuffle on the host where the batch is created, or permute each shard in jax.shard_map. If you "
            "mean to permute all rows on the devices, ignore this",
            sum(leaf["bytes"] for leaf in leaves), see=(("called", called),) if called.file else (),
        )  # fmt: skip


def find_replicating_constraints(events: Events, least: int, lines: Collection[Line]) -> Iterator[RunFinding]:
    """Constraints that have what belongs to split state, as its gradients do, whole on all devices; `lines` are lines
    of which it is said already.
    """
    groups: dict[Line, dict[str, dict[str, Any]]] = defaultdict(dict)
    for one in events.events_of_kind("made-whole"):
        back = any(
            ran["name"] == one["name"] and format_array(given) == format_array(one["leaf"])
            for ran in events.events_of_kind("ran") for given in ran["given"]
        )  # fmt: skip
        if back and one["leaf"]["bytes"] >= least and first_line(one["lines"]) not in lines:
            groups[first_line(one["lines"])].setdefault(format_array(one["leaf"]), one)
    for place, found in groups.items():
        one = max(found.values(), key=lambda each: int(each["leaf"]["bytes"]))
        leaf = one["leaf"]
        yield RunFinding(
            "gathered", function_of_place(one["lines"][0]), place,
            f"this constraint replicates {format_array(leaf)} on every device: arrays of this shape in the state of "
            f"{one['name']} are sharded ({leaf['name']} is {leaf['spec']})",
            tuple(found), "write the sharding of the state in this constraint", leaf["bytes"],
            see=(("called", first_line(one["called"])),) if one["called"] else (),
        )  # fmt: skip


def find_donations_by_keyword(events: Events, least: int) -> Iterator[RunFinding]:
    """Calls by keyword of a jit that donates by position, whose function does not list its parameters."""
    told = set()
    for one in events.events_of_kind("not-donated"):
        place = first_line(one["lines"])
        if place in told or one["bytes"] < least:
            continue
        told.add(place)
        numbers = one["numbers"]
        told_as = f"({numbers[0]},)" if len(numbers) == 1 else str(tuple(numbers))
        yield RunFinding(
            "donation", function_of_place(one["lines"][0]) if one["lines"] else one["name"], place,
            f"nothing is donated: the jit of {one['name']} has donate_argnums={told_as}, and all arguments are "
            f"passed by keyword ({', '.join(one['arguments'])} ...). The signature of the function lists no "
            "parameters, so jax cannot map keywords to positions",
            advice="pass them by position, write donate_argnames=, or use functools.wraps on the wrapper",
            bytes=one["bytes"], code="SL223", see=(("defined", make_line(one["defined"])),) if one["defined"] else (),
        )  # fmt: skip


def find_copied_state(events: Events, least: int) -> Iterator[RunFinding]:
    """State of which each call writes a part, and copies the rest because it is not donated."""
    told = set()
    for one in events.events_of_kind("rewritten"):
        place = first_line(one["lines"])
        leaves = sorted(one["arguments"], key=lambda leaf: -int(leaf["held"]))
        size = sum(leaf["held"] for leaf in leaves)
        if place in told or size < least or size * _SHARE < events.largest_array_bytes:
            continue
        told.add(place)
        roots = sorted({root_of_name(leaf["name"]) for leaf in leaves})
        called = first_line(one["called"])
        yield RunFinding(
            "donation", one["name"], make_line(one["defined"]) if one["defined"] else called,
            f"each call copies {leaves[0]['name']} {format_array(leaves[0])} to write a part of it "
            f"({size_text(size)} a device): {one['name']} does not donate {' and '.join(roots)}",
            tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves[:6]),
            f"pass donate_argnames={(roots[0] if len(roots) == 1 else tuple(roots))!r} to jax.jit",
            size, code="SL223", see=(("written", place), ("called", called)),
        )  # fmt: skip


def find_inner_donations(events: Events, least: int) -> Iterator[RunFinding]:
    """Donations of a jit that is called inside another one, which keeps the arguments."""
    told = set()
    for one in events.events_of_kind("donated-inside"):
        called = first_line(one["lines"])
        if called in told or one["bytes"] < least or one["bytes"] * _SHARE < events.largest_array_bytes:
            continue
        told.add(called)
        more = f" and {one['count'] - 2} more" if one["count"] > 2 else ""
        shown = ", ".join(one["arguments"][:2]) + more
        inner = make_line(one["donating"])
        yield RunFinding(
            "donation", one["name"], make_line(one["defined"]) if one["defined"] else called,
            f"{one['inner']} does not donate {shown} ({size_text(one['bytes'])}): it is called inside the "
            f"jitted function {one['name']}, which keeps them",
            advice="donate them in the outer jit: jax.jit(f, donate_argnums=...)", bytes=one["bytes"], code="SL223",
            see=(("inner call", called), *((("inner jit", inner),) if inner.file else ())),
        )  # fmt: skip

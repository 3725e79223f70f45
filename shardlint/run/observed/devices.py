"""Meshes built against devices used: work on one device of many, and arrays left on one beside split ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.source.patterns import compile_lazily
from shardlint.verify.texts import size_text

_WORK = 2**16
# What others are compared with runs on one device by intent.
_REFERENCE = compile_lazily(r"(?i)(^|_)(ref|reference|expected|oracle|baseline|golden|on_one|single_device)(_|$)")


def find_unused_mesh(events: Events, least: int) -> Iterator[RunFinding]:
    """The most work ran on one device though a mesh of several was built."""
    meshes = list(events.events_of_kind("mesh"))
    if not meshes:
        return
    ran = list(events.events_of_kind("ran"))
    alone = [one for one in ran if one["devices"] == 1 and one["lines"] and not _REFERENCE.search(one["name"])]
    spread = max((one["work"] for one in ran if one["devices"] > 1), default=0)
    most = max(alone, key=lambda one: one["work"], default=None)
    if most is not None and most["work"] >= _WORK:
        if spread < most["work"] / 2:
            yield _make_unused_device_finding(most, meshes[-1], most["taken"] or most["given"])
        return
    if (
        any(events.events_of_kind("put"))
        or any(one["devices"] > 1 for one in ran)
        or any(leaf["devices"] > 1 for one in ran for leaf in one["taken"])
    ):
        return
    largest = max(
        alone, key=lambda one: max((leaf["bytes"] for leaf in one["given"]), default=0), default=None
    )
    if largest is not None and max((leaf["bytes"] for leaf in largest["given"]), default=0) >= least:
        yield _make_unused_device_finding(largest, meshes[-1], largest["given"])


def find_mesh_mistakes(events: Events) -> Iterator[RunFinding]:
    """Meshes whose axes have each other's sizes, and those that leave devices out without a word."""
    built = list(events.events_of_kind("mesh"))
    for one in built:
        sizes, place = dict(map(tuple, one["axes"])), make_line(one["line"])
        if one.get("told"):
            name, told = one["told"]
            yield RunFinding(
                "axis-sizes", function_of_place(one["line"]), place,
                f"the axis sizes of this mesh are swapped: it has {_format_sizes(sizes)}, and {name} says "
                f"{_format_sizes(dict(map(tuple, told)))}",
                advice="pass the sizes in the order of the axis names",
                see=tuple(("called", make_line(each)) for each in one["lines"][1:3]),
            )  # fmt: skip
    largest = max(built, key=lambda one: math.prod(size for _, size in one["axes"]), default=None)
    if largest is not None and largest.get("short"):
        count = math.prod(size for _, size in largest["axes"])
        if events.device_count <= count:
            yield RunFinding(
                "idle-devices", function_of_place(largest["line"]), make_line(largest["line"]),
                f"{largest['of'] - count} devices stay idle: the largest mesh uses only the first {count} of "
                f"{largest['of']}",
                advice="compute the sizes from jax.device_count(), or pass the devices of the mesh as devices=",
                see=tuple(("called", make_line(each)) for each in largest["lines"][1:3]),
            )  # fmt: skip


def _format_sizes(axes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in axes.items())


def find_host_round_trips(events: Events, least: int) -> Iterator[RunFinding]:
    """Arrays that lay split, were brought to the host, and are taken from there by a function, whole.

    What numpy has made of one counts where the program places such arrays by hand and the function runs on several
    devices: a batch that is changed after it was placed.
    """
    placed = {format_array(one) for one in events.events_of_kind("put") if one["held"] < one["bytes"]}
    ran = {(str(one["defined"]), one["name"]): one["devices"] for one in events.events_of_kind("ran")}
    told = set()
    for one in events.events_of_kind("through-host"):
        place, leaves = first_line(one["lines"]), one["leaves"]
        devices = ran.get((str(one["defined"]), one["name"]), 1)
        if not one["same"]:
            leaves = [leaf for leaf in leaves if format_array(leaf) in placed and devices > 1]
        leaves = [leaf for leaf in leaves if leaf["bytes"] >= least]
        if not leaves or place in told:
            continue
        told.add(place)
        leaves.sort(key=lambda leaf: -leaf["bytes"])
        total = sum(leaf["bytes"] for leaf in leaves)
        count, them = ("an array", "it") if len(leaves) == 1 else (f"{len(leaves)} arrays", "them")
        where = f"all {devices} devices get" if devices > 1 else "one device gets"
        yield RunFinding(
            "through-host", function_of_place(one["lines"][0]), place,
            f"{where} a full copy of {count} sharded as {one['spec']} ({size_text(total)}): this gathers {them} into "
            f"numpy on the host, and {one['name']} takes the copy",
            tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves),
            "write jnp for np, and pass the arrays themselves, which stay sharded", total, code="SL243",
            see=(("taken", first_line(one["called"])), *((("defined",
            make_line(one["defined"])),) if one["defined"] else ())),
        )  # fmt: skip


def find_repeated_copies(events: Events, least: int) -> Iterator[RunFinding]:
    """Arrays of numpy that each call of a function copies from the host to its devices."""
    calls: dict[str, list[dict[str, Any]]] = {}
    for one in events.events_of_kind("copied-again"):
        if one["lines"]:
            calls.setdefault(str(first_line(one["lines"])), []).append(one)
    for each in calls.values():
        leaves = sorted((one["leaf"] for one in each), key=lambda leaf: -leaf["bytes"])
        total = sum(leaf["bytes"] for leaf in leaves)
        if leaves[0]["bytes"] < least:
            continue
        name, place = each[0]["name"], first_line(each[0]["lines"])
        yield RunFinding(
            "copied-each-call", name, place,
            f"each call of {name} copies {'an array' if len(leaves) == 1 else f'{len(leaves)} arrays'} "
            f"({size_text(total)}) from the host to its devices: the program passes numpy arrays",
            tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves[:6]),
            "place the arrays once, before the calls: jax.device_put(arrays, sharding)", total,
            see=(("defined", make_line(each[0]["defined"])),),
        )  # fmt: skip


def _make_unused_device_finding(one: dict[str, Any], mesh: dict[str, Any], leaves: list[dict[str, Any]]) -> RunFinding:
    count = math.prod(size for _, size in mesh["axes"])
    axes = ", ".join(f"{name}={size}" for name, size in mesh["axes"])
    leaves = sorted(leaves, key=lambda leaf: -leaf["bytes"])[:6]
    see = [(f"the mesh of {count} devices", make_line(mesh["line"]))]
    if one["defined"]:
        see.append(("defined", make_line(one["defined"])))
    see += [("made", first_line(leaf["made"])) for leaf in leaves[:2] if leaf["made"]]
    return RunFinding(
        "one-device", one["name"] if one["defined"] else function_of_place(one["lines"][0]), first_line(one["lines"]),
        (f"{one['name']} runs" if one["defined"] else "this runs") +
        f" on one device: none of its arrays is placed on the mesh of {count} devices ({axes})",
        tuple(f"{leaf['name']} {format_array(leaf)} on {leaf['spec']}" for leaf in leaves),
        "place the arrays with jax.device_put(x, NamedSharding(mesh, P(...))), or create them in a jit with "
        "out_shardings",
        sum(leaf["bytes"] for leaf in leaves), see=tuple(dict.fromkeys(see)),
    )  # fmt: skip


def find_left_on_one_device(events: Events, least: int, told_of: set[str]) -> Iterator[RunFinding]:
    """Arrays whole on one device beside others of their shape that are split.

    `told_of` are functions of which a finding says so already.
    """
    split: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    told: set[Any] = set()
    jits = {one["name"] for one in events.events_of_kind("ran") if one["defined"]}
    # What is placed as soon as it is made is left behind nowhere.
    moved = {(one["maker"], format_array(one)) for one in events.events_of_kind("moved-on")}
    for one in events.events_of_kind("put"):
        if one["held"] < one["bytes"]:
            split.setdefault(format_array(one), ({}, one))
    for one in events.events_of_kind("ran"):
        for leaf in one["taken"]:
            if leaf["devices"] > 1 and leaf["held"] < leaf["bytes"]:
                split.setdefault(format_array(leaf), (one, leaf))
    for one in events.events_of_kind("ran"):
        # What an operation of a library makes outside of a jit (zeros for an imaginary part) is used up at once.
        jitted = one["defined"] or len(one["given"]) > 1
        given = one["devices"] == 1 and jitted and any(leaf["devices"] > 1 for leaf in one["taken"])
        # What pmap takes it places itself, a row for each device.
        unplaced = one["devices"] > 1 and not one.get("pmap")
        leaves = [leaf for leaf in one["taken"] if not leaf["placed"] and unplaced]
        leaves += one["given"] if given else []
        lost = [
            leaf
            for leaf in leaves
            if (leaf["devices"] == 1 or _takes_state_from_host(leaf, one))
            and leaf["bytes"] >= least
            and format_array(leaf) in split
            and split[format_array(leaf)][1]["name"] != leaf["name"]
            and not (given and (one["name"], format_array(leaf)) in moved)
            and (
                _is_part_of_tree(leaf)
                or _is_part_of_tree(split[format_array(leaf)][1])
                or _is_returned_like_state(leaf, one)
            )
        ]
        # What an operation outside of jit takes of its own line, a library has made on its way.
        lost = [leaf for leaf in lost if given or one["defined"] or leaf["made"][:1] != one["lines"][:1]]
        if not lost or one["moves"] or (one["name"] if given else lost[0]["maker"]) in told_of:
            continue
        if any(not _is_host_array(leaf) for leaf in lost):
            lost = [leaf for leaf in lost if not _is_host_array(leaf)]
        made = first_line(lost[0]["made"]) if lost[0]["made"] and not given else first_line(one["lines"])
        if made in told or not made.file:
            continue
        told.add(made)
        yield _make_placement_finding(one, lost, split[format_array(lost[0])][1], made, given, jits)


def arguments_from_host(events: Events) -> frozenset[tuple[str, int, str]]:
    """The arguments that functions took from the host, by the line of the `def` and their name."""
    return frozenset(
        (str(one["defined"][0]), int(one["defined"][1]), str(leaf["name"]))
        for one in events.events_of_kind("ran")
        if one["defined"]
        for leaf in one["taken"]
        if _is_host_array(leaf)
    )


def _is_host_array(leaf: dict[str, Any]) -> bool:
    """Return whether an array is a numpy array, such as one from a checkpoint that was never placed."""
    return bool(leaf["devices"] == 0)


def _takes_state_from_host(leaf: dict[str, Any], one: dict[str, Any]) -> bool:
    """Return whether a user's function takes state from the host. Operands of an operation may come from a library."""
    return (
        bool(one["defined"])
        and _is_host_array(leaf)
        and _is_part_of_tree(leaf)
        and _is_returned_like_state(leaf, one)
    )


def _is_part_of_tree(leaf: dict[str, Any]) -> bool:
    """Return whether an array is part of a tree, as parameters and the state of optimizers are."""
    return any(mark in leaf["name"] for mark in ".[")


def _is_returned_like_state(leaf: dict[str, Any], one: dict[str, Any]) -> bool:
    """Return whether a function returns an array like one of its arguments, as it does with state and not with a
    batch.

    A weight and a batch that are of one shape by chance say nothing of each other.
    """
    return any(format_array(given) == format_array(leaf) for given in one["given"])


def _make_placement_finding(
    one: dict[str, Any], lost: list[dict[str, Any]], like: dict[str, Any], made: Any, given: bool, jits: set[str]
) -> RunFinding:
    total = sum(leaf["bytes"] for leaf in lost)
    count = "1 array" if len(lost) == 1 else f"{len(lost)} arrays"
    maker = one["name"] if given else lost[0]["maker"]
    jitted = given or maker in jits
    see = []
    if not given:
        see.append((f"taken by {one['name']}", first_line(one["lines"])))
    other = f"{like['name'] or 'another'}, of the same shape, is {like['spec']}"
    message = f"{count} created in full on one device ({size_text(total)}): {other}"
    if _is_host_array(lost[0]):
        message = f"numpy arrays are never placed ({count}, {size_text(total)}): {other}"
    advice = (
        "pass the shardings to jax.device_put as its second argument" if maker == "jax.device_put" else
        "place them with jax.device_put before the first call, sharded like the others" if _is_host_array(lost[0]) else
        "write out_shardings= in the jit" if jitted else
        "create them after the others are placed, with zeros_like or device=, or place them with jax.device_put"
    )  # fmt: skip
    return RunFinding(
        "one-device", function_of_place([made.file, made.line, made.function]), made, message,
        tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in lost[:12]), advice, total,
        code="SL204" if given else "SL205", see=tuple(see),
    )  # fmt: skip


def find_respelled_shardings(events: Events) -> Iterator[RunFinding]:
    """Calls that jax takes for new ones because a sharding is spelled another way."""
    seen = set()
    # What a program gives is spelled in jax's own way; only what was placed by hand can be spelled in another.
    by_hand = {(format_array(one), one["spec"]) for one in events.events_of_kind("put")}
    for one in events.events_of_kind("unequal-equivalent-specs"):
        place = first_line(one["lines"])
        arguments = [
            (name, then, now)
            for name, then, now, (shape, dtype) in one["arguments"]
            if {(format_array({"shape": shape, "dtype": dtype}), spec) for spec in (then, now)} <= by_hand
        ]
        if place in seen or not arguments:
            continue
        seen.add(place)
        name, then, now = arguments[0]
        yield RunFinding(
            "unequal-equivalent-specs", one["name"], place,
            f"jit does not find {one['name']} in its fast cache, though nothing moved: {name} was {then} and "
            f"is now {now}. Both are the same sharding, but do not compare equal",
            tuple(f"{name} {then} -> {now}" for name, then, now in arguments),
            "write the spec in one form, or place the arrays as the function returns them",
        )  # fmt: skip

"""Arrays that stay on one device while the function that takes them runs on several: copied to all at each call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.rules import distinct_compilations
from shardlint.run.run import Run, is_state, last_key
from shardlint.verify.texts import size_text

# What is smaller takes no time to copy, and does not grow with the model as weights and caches do.
_LEAST = 4096


def find_carried_whole(
    functions: Sequence[Sequence[Compiled]], run: Run, events: Events, told: set[str]
) -> Iterator[RunFinding]:
    """Large arrays that no one has placed and that a function of several devices keeps whole, though it gives none like
    them back; those of `told` are known to already.

    State is none: after the first call it lies where the function left it. Arrays of the host count where the state of
    another function is like them, and lies on the devices.
    """
    groups: dict[tuple[str, int], list[Compiled]] = defaultdict(list)
    for each in functions:
        for version in distinct_compilations(each):
            groups[version.function.line.file, version.function.line.line].append(version)
    seen = set()
    states = {(key, format_array(leaf)) for one in events.events_of_kind("ran") for key, leaf in _state_arrays(one)}
    for one in events.events_of_kind("ran"):
        if one["devices"] < 2 or one.get("pmap") or not one["lines"] or not one["defined"] or one["name"] in told:
            continue
        compiled = groups.get((str(one["defined"][0]), int(one["defined"][1])), [])
        if not compiled:
            continue
        names = set.intersection(*(_unplaced_whole_arguments(version, run) for version in compiled))
        leaves = [
            leaf
            for leaf in one["taken"]
            if not leaf["placed"] and leaf["name"] in names
            if leaf["devices"] == 1 or (leaf["devices"] == 0 and (last_key(leaf["name"]), format_array(leaf)) in states)
        ]
        if sum(leaf["bytes"] for leaf in leaves) < _LEAST or one["name"] in seen:
            continue
        seen.add(one["name"])
        leaves.sort(key=lambda leaf: -leaf["bytes"])
        made = next((leaf["made"] for leaf in leaves if leaf["made"]), None)
        total = sum(leaf["bytes"] for leaf in leaves)
        count = "1 array" if len(leaves) == 1 else f"{len(leaves)} arrays"
        where = first_line(made or one["lines"])
        placed = "they are on one device" if leaves[0]["devices"] else "they are numpy arrays"
        see = [("taken", first_line(one["lines"]))] if made else []
        see += [("called", make_line(place)) for place in (made or one["lines"])[1:2]]
        yield RunFinding(
            "one-device", function_of_place((made or one["lines"])[0]), where,
            f"each call of {one['name']} copies {count} ({size_text(total)}) to all {one['devices']} devices: "
            f"{placed}, and nothing places them",
            tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in leaves[:12]),
            "write jax.device_put(x, sharding) once, before the calls" if leaves[0]["devices"] else
            (
                "pass the arrays that are already on the devices, or write jax.device_put(x, sharding) once, before "
                "the calls"
            ), total, code="SL205",
            see=(*see, ("defined", make_line(one["defined"]))),
        )  # fmt: skip


def _state_arrays(one: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the arrays on several devices that a function takes and returns, by the last key of their path."""
    given = {(last_key(leaf["name"]), format_array(leaf)) for leaf in one["given"] if leaf["devices"] > 1}
    for leaf in one["taken"]:
        key = last_key(leaf["name"])
        if leaf["devices"] > 1 and key and (key, format_array(leaf)) in given:
            yield key, leaf


def _unplaced_whole_arguments(compiled: Compiled, run: Run) -> set[str]:
    """The arguments that were never placed and lie whole on every device, but for state."""
    return {
        leaf.where
        for leaf in compiled.arguments
        if leaf.where in compiled.unplaced and run.is_whole(leaf, compiled) and not is_state(leaf, compiled)
        if not any(result.array == leaf.array for result in compiled.results)
    }

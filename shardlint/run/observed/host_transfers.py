"""Large arrays that come to the host in each step, as often as batches are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place
from shardlint.run.run import last_key
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_OFTEN = 0.8
_SHARE = 4
_ONLY = "out"
"""The name of the one result of a function that gives no tree."""


def find_fetched_state(events: Events, least: int) -> Iterator[RunFinding]:
    """State of a step, and what it gives beside it. What other functions give is for the host, as a rule."""
    steps = [(one, _state_types(one)) for one in events.events_of_kind("ran")]
    found: dict[Line, list[tuple[dict[str, Any], dict[str, Any], bool]]] = {}
    for one in events.events_of_kind("fetched"):
        givers = [
            (ran, kept)
            for ran, kept in steps
            if any(format_array(leaf) == format_array(one) for leaf in ran["given"])
        ]
        often = one["times"] / one["steps"] / max((_count_alike(ran, one) for ran, _ in givers), default=1)
        givers = [(ran, kept) for ran, kept in givers if kept and one["bytes"] >= _least_size(ran, kept, one, least)]
        if givers and often >= _OFTEN:
            ran, kept = givers[0]
            found.setdefault(first_line(one["lines"]), []).append((one, ran, format_array(one) in kept))
    for place, each in found.items():
        one, ran, state = max(each, key=lambda one: int(one[0]["bytes"]))
        total = sum(each["bytes"] * each["times"] // each["steps"] for each, _, _ in each)
        yield RunFinding(
            "fetched", function_of_place(one["lines"][0]), place,
            f"every step waits for {'the state of' if state else 'a result of'} {ran['name']}: this copies "
            f"{format_array(one)}, sharded as {one['spec']}, to the host ({size_text(total)} each time, "
            f"{one['steps']} times)",
            (format_array(one),),
            "do this computation with jnp in a jitted function, and leave the array on the devices" if state
            else "compute the needed value in the step and return that", total,
            see=(("called", first_line(ran["lines"])),) if ran["lines"] else (),
        )  # fmt: skip


def _state_types(ran: dict[str, Any]) -> set[str]:
    """The types of what a function takes and gives back."""
    taken = {(format_array(leaf), last_key(leaf["name"])) for leaf in ran["taken"]}
    return {
        format_array(leaf) for leaf in ran["given"]
        if leaf["name"] != _ONLY and (format_array(leaf), last_key(leaf["name"].removeprefix(_ONLY))) in taken
    }  # fmt: skip


def _least_size(ran: dict[str, Any], state: set[str], one: dict[str, Any], least: int) -> int:
    """The least size of what is worth a word: beside its state a step may give a number for each row."""
    if format_array(one) in state:
        return least
    return max(least, max(int(leaf["bytes"]) for leaf in ran["given"] if format_array(leaf) in state) // _SHARE)


def _count_alike(ran: dict[str, Any], one: dict[str, Any]) -> int:
    """How many arrays of a type a function gives in one tree: of the state of an optimizer there may be more."""
    leaves = [leaf["name"] for leaf in ran["given"] if format_array(leaf) == format_array(one)]
    return min(Counter(name.rstrip("]").rpartition("[")[0] or name for name in leaves).values())

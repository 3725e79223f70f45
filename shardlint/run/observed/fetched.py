"""Large arrays that come to the host in each step, as often as batches are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, array, first, function
from shardlint.verify.facts import Line
from shardlint.verify.report import size_text

_OFTEN = 0.8
_SHARE = 4


def fetched(events: Events, least: int) -> Iterator[Found]:
    """State of a step, and what it gives beside it. What other functions give is for the host, as a rule."""
    known: dict[Line, list[tuple[dict[str, Any], dict[str, Any], str]]] = {}
    for one in events.of("fetched"):
        for ran in events.of("ran"):
            back = {array(leaf) for leaf in ran["taken"]} & {array(leaf) for leaf in ran["given"]}
            alike = [leaf for leaf in ran["given"] if array(leaf) == array(one)]
            state = array(one) in back
            # Beside its state a step may give a number for each row.
            largest = max((leaf["bytes"] for leaf in ran["given"] if array(leaf) in back), default=0)
            if not back or not alike or one["bytes"] < (least if state else max(least, largest // _SHARE)):
                continue
            # Of the state of an optimizer there may be more of a type than of the weights.
            trees = Counter(leaf["name"].rstrip("]").rpartition("[")[0] or leaf["name"] for leaf in alike)
            if one["times"] >= _OFTEN * one["steps"] * min(trees.values()):
                known.setdefault(first(one["lines"]), []).append((one, ran, "state" if state else "result"))
                break
    for place, found in known.items():
        one, ran, what = max(found, key=lambda each: int(each[0]["bytes"]))
        total = sum(each["bytes"] * each["times"] // one["steps"] for each, _, _ in found)
        it = "the state of" if what == "state" else "what is given by"
        yield Found(
            "fetched", function(one["lines"][0]), place,
            f"this brings {it} {ran['name']}, {array(one)} which lies as {one['spec']}, to the host in each step "
            f"({size_text(total)} each time, {one['steps']} times): every step waits for it",
            (array(one),),
            "do with jnp, in a jitted function, what is done with it, and leave it on the devices" if what == "state"
            else "compute what is needed of it in the step, and give that back", total,
            see=(("called", first(ran["lines"])),) if ran["lines"] else (),
        )  # fmt: skip

"""Logical axis names that no rule takes to the mesh, that no dimension has, or that two dimensions compete for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events, first_line, format_array, function_of_place, make_line
from shardlint.run.run import DATA
from shardlint.run.syntax import holds_string, pair_line
from shardlint.verify.facts import Line
from shardlint.verify.texts import size_text

_SHARE = 10


def find_logical_names(events: Events) -> Iterator[RunFinding]:
    """Each name once, at the line that gives it to a dimension, or else at that which has it resolved."""
    seen: set[Any] = set()
    for one in events.events_of_kind("logical"):
        names = ", ".join(map(repr, one["names"]))
        key = (one["what"], one["name"], first_line(one["lines"]))
        if key in seen:
            continue
        seen.add(key)
        if one["what"] == "no-rule":
            text = f"the dimension {one['name']!r} of ({names}) is replicated: no rule has this name"
            advice = (
                f"add a rule for {one['name']!r}, or ({one['name']!r}, None) if it is meant to be replicated"
            )
        elif one["what"] == "no-rules":
            text = f"every dimension of {names} is replicated: no rules are passed and none are set"
            advice = (
                "write nn.logical_to_mesh_sharding(specs, mesh, rules), or call it under "
                "nn.logical_axis_rules(rules)"
            )
        elif one["what"] == "shadowed":
            text = (
                f"the dimension {one['name']!r} of ({names}) is replicated: its first rule says None, so the "
                f"later rule, to mesh axis {one['axis']!r}, has no effect"
            )
            advice = (
                f"put the rule ({one['name']!r}, {one['axis']!r}) before ({one['name']!r}, None), or remove "
                f"({one['name']!r}, None)"
            )
        else:
            text = (
                f"the dimension {one['name']!r} of ({names}) is replicated: another dimension of the array "
                f"already uses its mesh axis {one['axis']!r}"
            )
            advice = f"map {one['name']!r} or the name of the other dimension to another mesh axis"
        resolved = first_line(one["lines"])
        naming = [line for line in map(make_line, one.get("named", ())) if holds_string(line, one["name"])]
        yield RunFinding(
            "logical-axes", function_of_place(one["lines"][0]), naming[0] if naming else resolved, text, advice=advice,
            code={"no-rule": "SL510", "no-rules": ""}.get(one["what"], "SL518"),
            see=(("resolved", resolved),) if naming else (),
        )  # fmt: skip


def find_unmatched_keys(events: Events, least: int) -> Iterator[RunFinding]:
    """Keys of haliax's axis mappings that no array has as an axis, where what the mapping is for is replicated along
    the mesh axes of the key.

    Where another key splits some of that over those axes, this one is for another model. Where no other key is met, it
    may be the batch's, which need not be a NamedArray.
    """
    mapped = list(events.events_of_kind("mapped"))
    met = {name for one in mapped for name, _ in one["sizes"]}
    sizes = {str(name): int(size) for one in events.events_of_kind("mesh") for name, size in one["axes"]}
    pairs = {(key, tuple(targets)): None for one in mapped for key, targets in one["rules"].items()}
    for key, targets in pairs:
        mine = [one for one in mapped if one["rules"].get(key) == list(targets)]
        others = {name for one in mine for name in one["rules"]}
        others |= {name for name, to in pairs if to == targets}
        if key in met or DATA.match(key) or not others & met or math.prod(sizes.get(name, 1) for name in targets) < 2:
            continue
        names = [(name, one["rules"].get(name, ())) for one in mine for name, _ in one["sizes"]]
        if any(set(to) & set(targets) and not DATA.match(name) for name, to in names):
            continue
        each = (_make_unmatched(one, key, targets, mine, least) for one in events.events_of_kind("ran"))
        if found := max(filter(None, each), key=lambda found: found.bytes, default=None):
            yield found


def _make_unmatched(
    one: dict[str, Any], key: str, targets: Sequence[str], mapped: Sequence[dict[str, Any]], least: int
) -> RunFinding | None:
    shapes = {tuple(size for _, size in each["sizes"]): each for each in mapped}
    leaves = [leaf for leaf in one["taken"] if leaf["devices"] > 1]
    lost = [
        leaf
        for leaf in leaves
        if leaf["bytes"] >= least and tuple(leaf["shape"]) in shapes
        and not any(set(targets) & entry.keys() for entry in leaf["entries"])
    ]  # fmt: skip
    held = sum(leaf["held"] for leaf in lost)
    if not lost or held * _SHARE < sum(leaf["held"] for leaf in leaves):
        return None
    lost = sorted(lost, key=lambda leaf: -int(leaf["bytes"]))
    names = dict.fromkeys(name for leaf in lost for name, _ in shapes[tuple(leaf["shape"])]["sizes"])
    used = first_line(shapes[tuple(lost[0]["shape"])]["lines"])
    files = dict.fromkeys(str(place[0]) for each in (*mapped, one) for place in each["lines"])
    where = next((Line(file, number) for file in files if (number := pair_line(file, key))), used)
    over = " and ".join(map(repr, targets))
    return RunFinding(
        "logical-axes", one["name"], where,
        f"{len(lost)} array{' is' if len(lost) == 1 else 's are'} replicated along {over} ({size_text(held)} a "
        f"device): none has a dimension {key!r}, which the mapping takes to {over}. Their dimensions are "
        f"{', '.join(map(repr, [*names][:6]))}",
        tuple(f"{leaf['name']} {format_array(leaf)}" for leaf in lost[:12]),
        f"map one of these names to {over}, in place of {key!r}", held,
        see=(("used", used), ("called", first_line(one["lines"]))),
    )  # fmt: skip

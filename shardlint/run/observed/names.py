"""Logical axis names that no rule takes to the mesh, or that two dimensions compete for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, first_line, function_of_place


def find_logical_names(events: Events) -> Iterator[Found]:
    """Each name once, at the line that has it resolved."""
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
        yield Found(
            "logical-axes", function_of_place(one["lines"][0]), first_line(one["lines"]), text, advice=advice,
            code={"no-rule": "SL510", "no-rules": ""}.get(one["what"], "SL518"),
        )  # fmt: skip

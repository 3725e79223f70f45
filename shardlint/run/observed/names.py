"""Logical axis names that no rule takes to the mesh, or that two dimensions compete for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.run.findings import Found
from shardlint.run.observed.events import Events, first, function


def logical(events: Events) -> Iterator[Found]:
    """Each name once, at the line that has it resolved."""
    seen: set[Any] = set()
    for one in events.of("logical"):
        names = ", ".join(map(repr, one["names"]))
        key = (one["what"], one["name"], first(one["lines"]))
        if key in seen:
            continue
        seen.add(key)
        if one["what"] == "no-rule":
            text = f"no rule says where {one['name']!r} of ({names}) goes, so the dimension is left whole"
            advice = f"add a rule for {one['name']!r}, ({one['name']!r}, None) where it is meant to be whole"
        elif one["what"] == "no-rules":
            text = f"no rules are given and none are set: no name of {names} goes to a mesh axis, and all is whole"
            advice = "nn.logical_to_mesh_sharding(specs, mesh, rules), or call it under nn.logical_axis_rules(rules)"
        elif one["what"] == "shadowed":
            text = (
                f"the first rule for {one['name']!r} of ({names}) says None, so the later one, to mesh axis "
                f"{one['axis']!r}, counts for nothing: the dimension is left whole"
            )
            advice = f"put ({one['name']!r}, {one['axis']!r}) first, or leave the rule with None out"
        else:
            text = (
                f"{one['name']!r} of ({names}) goes to mesh axis {one['axis']!r}, which another dimension of the "
                "array has taken: this one is left whole"
            )
            advice = "give one of the two names another mesh axis"
        yield Found(
            "logical-axes", function(one["lines"][0]), first(one["lines"]), text, advice=advice,
            code={"no-rule": "SL510", "no-rules": ""}.get(one["what"], "SL518"),
        )  # fmt: skip

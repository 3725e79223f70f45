"""SL413."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.mapped import spec_axes
from shardlint.model.manual.varying import Axis, Event
from shardlint.model.mesh.meshes import sharding_parts
from shardlint.model.values import Place, options
from shardlint.rules_api.rule import Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.runs import IN_BODIES, describe_location, events, join_reasons, shown


class ConstraintOnManualAxis(Rule):
    """A sharding constraint in the body of a `shard_map` names a manual axis.

    In the body each device has its own shard. jax raises ValueError when the function is traced.

    ## Reports
    - proven: `with_sharding_constraint` or `eqx.filter_shard` in the body of a `shard_map`, or in a helper that it
      calls, whose spec names an axis of the mesh.

    ## Limits
    A `shard_map` with `axis_names` is not reported: its other axes are not manual.
    """

    code = "SL413"
    name = "constraint-on-manual-axis"
    harm = Harm.CRASH
    assumes = True
    triggers = IN_BODIES
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each constraint."""
        for ran, event, node in events(site, "constraint"):
            settings = ran.mapped.settings
            if ran.mapped.api != "jax.shard_map" or settings.open_keywords:
                continue
            if any(name in settings.keywords for name in ("axis_names", "auto")):
                continue
            axes = [axis for axis in _axes(site, event) if axis in ran.manual]
            if axes and not _asks(event):
                yield site.finding(
                    node,
                    f"Tracing raises ValueError: the constraint names {shown(axes)}, a manual axis of this shard_map.",
                    label=f"{shown(axes)} is manual here",
                    help="leave the constraint out: in_specs and out_specs set the sharding",
                    why=join_reasons(
                        "in the body each device has its own shard", describe_location(site, event)
                    ),
                )


def _asks(event: Event) -> bool:
    """Whether the function of a constraint asks which axes are manual."""
    function = event.place.scope.function()
    return function is not None and "manual" in event.place.file.text(function.node).lower()


def _axes(site: Site, event: Event) -> list[Axis]:
    call = event.place.node
    if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) < 2:
        return []
    node = call.args[1] if len(call.args) > 1 else call.keywords[-1].value
    found: list[Axis] = []
    for option in options(site.program.evaluator.value(Place(event.place.file, node))):
        parts = sharding_parts(option, site.program.evaluator)
        for entry in spec_axes(site.program, parts[1] if parts is not None else option) or ():
            found.extend(entry)
    return found if len(options(site.program.evaluator.value(Place(event.place.file, node)))) == 1 else []

"""SL109."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.placement import array_and_target, find_argument, place_array_parts

_TAKEN = ("x", "device_or_shardings")


class FilterShardAcrossDevices(Rule):
    """`eqx.filter_shard` outside jit gets an array that is committed to other devices than the target sharding.

    The call raises `ValueError: Received incompatible devices for jitted computation`. `filter_shard` is a sharding
    constraint. Outside jit it runs as a separate program on the devices of its argument. A new array works, because it
    is uncommitted.

    ## Reports
    - proven: `eqx.filter_shard(x, ...)` in host code, if `x` is committed to other devices than the target. For example
      one device and a mesh, two devices, or two meshes with a different device order.

    ## Write instead
    Use `jax.device_put`. For a Module, split it with `eqx.partition(model, eqx.is_array)`, place the arrays, and join
    the parts with `eqx.combine`.

    ## Fix
    For an array that `device_put` returned, the fix writes `jax.device_put`. For any other tree the fix splits the tree
    and places its arrays. Unsafe: arrays move between devices.
    """

    code = "SL109"
    name = "filter-shard-across-devices"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"equinox": ">=0.11.5", "jax": ">=0.4.38"}
    triggers = (Violates("constraint.devices"),)
    fixes = "unsafe"

    @detector("violation")
    def report_move(self, site: Site) -> Finding | None:
        """The tree that is on other devices."""
        said = site.violation.said
        tree, target = (find_argument(site, name, _TAKEN) for name in _TAKEN)
        if tree is None or target is None:
            return None
        text = site.shown(tree)
        return site.report_violation(
            f"`filter_shard` raises ValueError: it can't move `{text}` from {said['left']} to {said['right']}.",
            why=f"line {said['line']} commits the array, "
            "and outside jit filter_shard runs on the devices of its argument",
            help=f"write `jax.device_put({text}, {site.shown(target)})`",
            fix=self._write_fix(site),
        )

    def _write_fix(self, site: Site) -> Fix | None:
        parts = array_and_target(site, *_TAKEN)
        if parts is None:
            return None
        tree, target = parts
        put, imports = site.spell("jax.device_put")
        edits = list(imports)
        if _is_from_device_put(site, tree):
            text = f"{put}({site.text(tree)}, {site.text(target)})"
        else:
            rewritten = place_array_parts(site, put, tree, target)
            if rewritten is None:
                return None
            text = rewritten[0]
            edits += rewritten[1]
        drops = (site.call.func.id,) if isinstance(site.call.func, ast.Name) else ()
        edits.append(site.replace(site.call, text))
        message = f"write: {' '.join(text.split())}"
        return site.fix(Safety.UNSAFE, message, edits, "the arrays move between devices", drops)


def _is_from_device_put(site: Site, tree: ast.expr) -> bool:
    """Return whether the value comes from device_put, which has proven that all its leaves are arrays."""
    return getattr(site.value(tree), "api", "") == "jax.device_put"

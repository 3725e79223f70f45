"""SL202."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.single_devices import is_device, is_of_named_platform
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.jit.tracer_tests import knows_it_is_traced

# Called without jit, the body of a shard_map runs op by op, and device_put there raises instead.
_PER_DEVICE = ("shard_map", "pmap", "xmap", "smap")


class DeviceInJit(Rule):
    """`device_put` to one device inside traced code has no effect.

    The value stays where it is, and nothing is raised. A compiled program runs on one set of devices: no value inside
    can move to a single device.

    ## Reports
    - proven: `jax.device_put(x, device)` in code traced by jit, filter_jit, scan and similar functions.
    - `maybe-traced` (possible): `jax.device_put(x, device)` in a function that is not always traced.

    ## Write instead
    Move the result after the call of the traced function: `jax.device_put(result, device)`.

    ## Limits
    Not reported: bodies of `shard_map` and `pmap`, code that checks for a tracer (`isinstance(x, jax.core.Tracer)`),
    and devices of a named platform (`jax.devices("cpu")[0]`). SL218 reports a device in `with_sharding_constraint`:
    that call raises.
    """

    code = "SL202"
    name = "device-in-jit"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls("jax.device_put"),)
    where = "traced"

    @detector("call")
    def report_placement(self, site: Site) -> Finding | None:
        """A placement on one device in traced code."""
        target = site.argument("device")
        if target is None or site.result_use[0] == "dropped" or not is_device(site, target):
            return None
        if is_of_named_platform(site, target) or knows_it_is_traced(site):
            return None
        if any(word in step.text for step in site.region.reasons_inside_out for word in _PER_DEVICE):
            return None
        value = site.shown(site.call.args[0]) if site.call.args else "the value"
        return site.finding(
            target,
            f"`device_put` to one device has no effect in traced code: `{value}` stays where it is.",
            via=site.region,
            help=f"move the result after the traced call: `jax.device_put(result, {site.shown(target)})`",
            form="" if site.region.is_proven else "maybe-traced",
        )

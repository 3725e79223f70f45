"""SL202."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.shardings import PLACING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit.devices import is_device, of_a_named_platform, single_device
from shardlint_rules.jit.placed import knows_it_is_traced

_PUT = "jax.device_put"
_CONSTRAINT = "jax.lax.with_sharding_constraint"
# Called without jit, the body of a shard_map runs op by op, and device_put there raises instead.
_PER_DEVICE = ("shard_map", "pmap", "xmap", "smap")


class DeviceInJit(Rule):
    """A single device is asked for inside traced code.

    ## What it does
    Reports a `Device` or `SingleDeviceSharding` given to `device_put`, `filter_shard` or `with_sharding_constraint` in
    code that is traced by jit, filter_jit, scan and the like.

    ## Why it hurts
    A compiled program runs on one set of devices, so one value in it cannot be moved to one of them.
    `device_put(x, device)` is ignored without a word: the value stays where it is. The other spellings move the
    whole program to that device, or raise `ValueError: Received incompatible devices` when an argument was placed
    on other devices before. As that may be what you want (a jit that runs on the host), it is possible only.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Left alone: memory kinds, the bodies of
    shard_map and pmap, code that asks whether it is traced, and devices of a platform asked for by name
    (`jax.devices("cpu")`). A device as the sharding of
    `with_sharding_constraint` raises: SL218.
    """

    code = "SL202"
    name = "device-in-jit"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    triggers = (Calls(_PUT, "equinox.filter_shard", _CONSTRAINT),)
    forms = ("call",)
    where = "traced"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a placement on one device in traced code."""
        target = site.argument(PLACING[site.api])
        if target is None or site.result_use[0] == "dropped":
            return
        told = self._message(site, target)
        if told is None or (told[1] is Certainty.POSSIBLE and not site.wants("single-device")):
            return
        if of_a_named_platform(site, target):
            return
        if knows_it_is_traced(site):
            return
        if any(word in step.text for step in site.region.steps for word in _PER_DEVICE):
            return
        message, certainty = told
        yield site.finding(
            target,
            message,
            via=site.region,
            help="move the result where the traced function is called: "
            f"jax.device_put(result, {' '.join(site.text(target).split())})",
            certainty=certainty if site.region.proven else Certainty.POSSIBLE,
            form=_form(site, certainty),
        )

    def _message(self, site: Site, target: ast.expr) -> tuple[str, Certainty] | None:
        device = is_device(site, target)
        value = site.shown(site.call.args[0]) if site.call.args else "the value"
        if device and site.api == _PUT:
            return f"On {site.release('jax')} this is ignored: {value} stays where it is.", Certainty.PROVEN
        if (device and site.api != _CONSTRAINT) or (not device and single_device(site, target)):
            message = (
                f"On {site.release('jax')} this moves the whole compiled program to that device, or raises ValueError "
                "if an argument was placed on others."
            )
            return message, Certainty.POSSIBLE  # some use it to have a function run on the host
        return None


def _form(site: Site, certainty: Certainty) -> str:
    if certainty is Certainty.POSSIBLE:
        return "single-device"
    return "" if site.region.proven else "maybe-traced"

"""Shardings that put the whole array on every device."""

from __future__ import annotations

from shardlint.model.values import CallResult, Value
from shardlint.rules_api.site import Site


def is_whole(site: Site, sharding: Value) -> bool:
    """Return whether a sharding is known to be fully replicated."""
    parts = site.sharding_parts(sharding)
    if parts is not None:
        return is_spec_unsharded(site, parts[1])
    return isinstance(sharding, CallResult) and sharding.api == "jax.sharding.SingleDeviceSharding"


def is_spec_unsharded(site: Site, spec: Value) -> bool:
    """Return whether a spec is known to be `P()`, or to hold None alone."""
    found = site.spec_of(spec)
    return found is not None and found.splits_nothing

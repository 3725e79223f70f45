"""Names of linen's logical axes, shared by rules."""

from __future__ import annotations

from shardlint.facts.logical_rules import SETTERS
from shardlint.rules_api.site import Site

CONSTRAINTS = ("flax.linen.with_logical_constraint", "flax.linen.with_sharding_constraint")
"""The second is `flax.linen.partitioning.with_sharding_constraint`, an older name of the first."""
MESHES = ("Mesh", "make_mesh")
RULES_CONTEXTS = ("flax.linen.logical_axis_rules", "flax.linen.axis_rules")


def constrains_anywhere(site: Site) -> bool:
    """Return whether code that runs with the site has logical constraints, or variables in logical boxes."""
    return any(site.is_named_anywhere(name) for name in ("with_logical_constraint", "with_logical_partitioning"))


def sets_rules_anywhere(site: Site) -> bool:
    """Return whether any file that runs with the site mentions a function that sets logical axis rules."""
    return any(site.is_named_anywhere(name) for name in SETTERS)

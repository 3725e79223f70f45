"""Programs that are written for an older jax than the newest."""

from __future__ import annotations

from shardlint.rules_api.site import Site
from shardlint_rules.upgrade.table import read_table

_OPTIONS = "jax.config."


def is_for_older_jax(site: Site) -> bool:
    """Return whether the program names what the checked release of jax has removed, and no file asks for that release.

    Such a program does not run there, so what would happen on that release does not happen to anyone yet.
    """
    if not site.targets.found["jax"].is_assumed:
        return False
    release = site.target("jax")
    return any(
        site.is_named_anywhere(entry.name)
        for entry in read_table().names.values()
        if entry.state_on(release) == "removed" and not entry.name.startswith(_OPTIONS)
    )

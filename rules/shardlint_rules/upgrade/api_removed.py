"""SL901."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.rule import Certainty, Finding, Fix, Harm, Rule, Uses
from shardlint.site import Site
from shardlint.versions import show
from shardlint_rules.upgrade import ambient, device_put, joint, positional
from shardlint_rules.upgrade.places import Use, certainty, use_of
from shardlint_rules.upgrade.renaming import renamed
from shardlint_rules.upgrade.table import woken_names

# Releases people wrote down exactly, in the project's own folder. A range proves no older one.
_EXACT = ("pinned in", "--target", "targets in")


class ApiRemoved(Rule):
    """A name that the project's release of jax does not have.

    ## What it does
    Reports imports and uses of names that the target release removed, such as
    `jax.sharding.PositionalSharding`, `jax.sharding.use_mesh`, `jax.experimental.maps` or `jax.tree_map`; and
    of names that an exactly pinned release does not have yet, such as `jax.set_mesh` on jax 0.4.38. The table
    is in docs/api-versions.md. Code that asks first (`try` with `except ImportError`, version tests,
    `hasattr`) and modules named after compatibility are left alone.

    ## Why it hurts
    The import or the attribute raises, often in a branch that is run late: at the first checkpoint, or on
    more than one device only.

    ## Example
    ```python
    import jax

    with jax.sharding.use_mesh(mesh):
        train()
    ```

    ## Use instead
    ```python
    import jax

    with jax.set_mesh(mesh):
        train()
    ```

    ## Fix safety
    Safe where another name of the same thing takes the old one's place on the target release; an older
    release that the project also supports may not have it.

    Unsafe where something else does: `PositionalSharding` becomes a NamedSharding over a mesh of the same
    devices, with an axis for each dimension of its grid, where the text shows the grid and all that is done
    with it; `device_put_sharded` and `device_put_replicated` become `jax.device_put` of the stacked values,
    over a mesh of their devices. Where that cannot be told, and for `xmap`, host callbacks and the like, the
    finding says what to write, and why it is not rewritten.

    ## Evidence
    Each entry was probed on nine releases from jax 0.4.13 to 0.12 by scripts/observe_api.py, and the claims
    in between come from jax's changelog.
    """

    code = "SL901"
    name = "api-removed"
    harm = Harm.REMOVED
    wakes = (Uses(*woken_names("removed")),)
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a use of a name that is not there."""
        use = use_of(site, "removed", "not yet")
        if use is None:
            return
        if use.entry.state(site.target("jax")) == "not yet":
            yield from self._not_yet(site, use)
            return
        assert use.entry.removed is not None
        gone = f"jax {show(use.entry.removed)}"
        error = use.error(site.target("jax"))
        fix, help = renamed(site, use), use.entry.advice
        if fix is None:
            fix, why = carried(site, use)
            help += f"; not rewritten: {why}" if why else ""
        yield site.finding(
            use.node,
            f"removed in {gone}",
            f"On {site.on('jax')} this raises {error}: {gone} removed {use.entry.name}.",
            help=help,
            fix=fix,
            certainty=certainty(site, use),
        )

    def _not_yet(self, site: Site, use: Use) -> Iterator[Finding]:
        if not use.entry.awaited:
            return
        assert use.entry.introduced is not None
        source = site.targets.found["jax"].source
        exact = source.startswith(_EXACT) and "/" not in source
        since = show(use.entry.introduced)
        error = use.error(site.target("jax"))
        module, _, last = use.entry.name.rpartition(".")
        yield site.finding(
            use.node,
            f"not in {site.on('jax')}",
            f"On {site.on('jax')} ({source}) this raises {error}: {use.entry.name} came with jax {since}.",
            help=f"require jax>={since}, or ask first: hasattr({module}, {last!r})",
            certainty=certainty(site, use) if exact else Certainty.LIKELY,
        )


def carried(site: Site, use: Use) -> tuple[Fix | None, str]:
    """The fix where something else takes the name's place; or why there is none, where it could be."""
    name = use.dotted
    if name == positional.NAME:
        made = positional.fix(site)
    elif name in device_put.NAMES:
        made = device_put.fix(site, name)
    elif name in ambient.OLD:
        return joint.fix(site), joint.kept(site)
    else:
        return None, ""
    return (None, made) if isinstance(made, str) else (made, "")

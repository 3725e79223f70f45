"""SL902."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.config.versions import show
from shardlint.rules_api.rule import Finding, Harm, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade import ambient, joint, pjit
from shardlint_rules.upgrade.places import use_of
from shardlint_rules.upgrade.renaming import renamed, why_kept
from shardlint_rules.upgrade.table import Name, trigger_names


class ApiDeprecated(Rule):
    """A name that works on the project's release of jax and is on its way out.

    ## What it does
    Reports imports and uses of names that the target release deprecates and has not removed yet, such as
    `jax.experimental.shard_map.shard_map` or `jax.experimental.pjit.pjit` on jax 0.8 and later. Guarded uses
    and modules named after compatibility are left alone.

    ## Why it hurts
    It raises on a later release; for many names the finding says on which. Until then most of them print a
    DeprecationWarning at every import.

    ## Fix safety
    Safe, and made only where another name of the same thing takes the old one's place. `shard_map` is
    rewritten where every call of it in the file can be: on the releases that deprecate it, the old function
    hands its arguments to the new one, with `check_rep` as `check_vma`.

    Unsafe for `pjit` and `thread_resources`: `pjit` resolves bare PartitionSpecs under `with mesh:`, where
    `jax.jit` raises, and the other way round under `jax.set_mesh`. So every `with mesh:` of the project
    (SL315), its pjit and what asks `thread_resources` for the mesh move together, or the finding says what
    keeps them. `None` for an output becomes `P()`, which is what pjit takes it for. In a project that enters
    no mesh, pjit whose shardings name their mesh becomes `jax.jit`.

    ## Evidence
    Each entry was probed on nine releases from jax 0.4.13 to 0.12 by scripts/observe_api.py.
    """

    code = "SL902"
    name = "api-deprecated"
    harm = Harm.REMOVED
    triggers = (Uses(*trigger_names("deprecated")),)
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a use of a deprecated name."""
        use = use_of(site, "deprecated")
        if use is None:
            return
        assert use.entry.deprecated is not None
        name = use.dotted if use.entry.kind == "namespace" else use.entry.name
        fix, help = renamed(site, use), use.entry.advice
        if fix is None and use.entry.name in (pjit.NAME, *ambient.OLD):
            moved = joint.carried(site)
            fix, help = (None, f"{help}; {moved}") if isinstance(moved, str) else (moved, help)
        elif fix is None:
            kept = why_kept(site, use)
            help += f"; not rewritten: {kept}" if kept else ""
        yield site.finding(
            use.node,
            f"{name} {_future(use.entry)}.",
            label=f"deprecated since jax {show(use.entry.deprecated)}",
            help=help,
            fix=fix,
        )


def _future(entry: Name) -> str:
    if entry.removed is not None:
        return f"still works on this release and is gone from jax {show(entry.removed)} on"
    return "still works on every release so far, with a warning"

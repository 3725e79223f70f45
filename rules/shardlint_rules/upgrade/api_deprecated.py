"""SL902."""

from __future__ import annotations

from shardlint.config.versions import format_release
from shardlint.facts.set_mesh.old_context_readers import PJIT_NAME, THREAD_RESOURCES
from shardlint.rules_api.rule import Finding, Harm, Rule, Uses, detector
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade import joint_moves
from shardlint_rules.upgrade.name_places import find_use
from shardlint_rules.upgrade.name_table import Name, trigger_names
from shardlint_rules.upgrade.renaming import fix_renaming, reason_not_fixed


class ApiDeprecated(Rule):
    """The code uses a name that the project's jax release deprecates.

    The name still works, and a later release removes it. The finding names that release, if it is known. Most of these
    names print a DeprecationWarning when they are imported or used.

    ## Reports
    - proven: an import or use of a name that the target release deprecates and still has, such as
      `jax.experimental.shard_map.shard_map` or `jax.experimental.pjit.pjit` from jax 0.8.

    ## Fix
    Safe if the same object has another public name. `shard_map` is rewritten only if every call of it in the file can
    be rewritten.

    Unsafe for `pjit` and `thread_resources`. `pjit` accepts bare PartitionSpecs only under `with mesh:`, and `jax.jit`
    only under `jax.set_mesh`. The fix therefore rewrites every `with mesh:` (SL315), every `pjit` and every read of
    `thread_resources` of the project together. If something prevents this, the finding names it. `None` in
    `out_shardings` becomes `P()`. In a project that enters no mesh, `pjit` becomes `jax.jit` if its shardings are
    NamedShardings.

    ## Limits
    Not reported: code under `try`, a version check or `hasattr`. Also not reported: modules that are named for
    compatibility, such as `compat.py`.
    """

    code = "SL902"
    name = "api-deprecated"
    harm = Harm.REMOVED
    triggers = (Uses(*trigger_names("deprecated")),)
    fixes = "both"

    @detector("name", "import")
    def report_use(self, site: Site) -> Finding | None:
        """A use of a deprecated name."""
        use = find_use(site, "deprecated")
        if use is None:
            return None
        assert use.entry.deprecated is not None
        name = use.dotted if use.entry.kind == "namespace" else use.entry.name
        fix, kept = fix_renaming(site, use), ""
        if fix is None and use.entry.name in (PJIT_NAME, *THREAD_RESOURCES):
            moved = joint_moves.make_joint_fix(site)
            fix, kept = (None, moved) if isinstance(moved, str) else (moved, "")
        elif fix is None:
            kept = reason_not_fixed(site, use)
        return site.finding(
            use.node,
            f"`{name}` {_describe_removal(use.entry, format_release(use.entry.deprecated))}.",
            help=use.entry.replacement_advice,
            fix=fix,
            kept=kept,
        )


def _describe_removal(entry: Name, since: str) -> str:
    if entry.removed is not None:
        return f"raises from jax {format_release(entry.removed)} on, and is deprecated since jax {since}"
    warns = not entry.silent and entry.kind != "namespace"
    return f"is deprecated since jax {since}{' and prints a warning' if warns else ''}"

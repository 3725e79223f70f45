"""SL901."""

from __future__ import annotations

import ast

from shardlint.config.versions import format_release
from shardlint.facts.set_mesh.old_context_readers import THREAD_RESOURCES
from shardlint.model.values import Constant
from shardlint.rewrite.unused_imports import without_lines
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety, Uses, detector
from shardlint.rules_api.site import Site
from shardlint_rules.upgrade import _device_put, _positional, joint_moves
from shardlint_rules.upgrade.name_places import Use, certainty_of_use, find_use, is_compatibility_layer
from shardlint_rules.upgrade.name_table import (
    OPTIONS,
    Name,
    read_table,
    removed_config_options,
    trigger_names,
)
from shardlint_rules.upgrade.renaming import fix_renaming, reason_not_fixed


class ApiRemoved(Rule):
    """The code uses a name that the project's jax release does not have.

    The import or the attribute raises, often in a branch that runs late: at the first checkpoint, or only on several
    devices.

    ## Reports
    evaluation/api-versions.md lists the names.

    - proven: an import or use of a name that the target release removed, such as `jax.sharding.PositionalSharding`,
      `jax.sharding.use_mesh`, `jax.experimental.maps` or `jax.tree_map`.
    - proven: `jax.config.update` of a removed option, such as `jax_spmd_mode`.
    - proven: a name that an exactly pinned release does not have yet, such as `jax.set_mesh` on jax 0.4.38.
    - possible: a name that the release does not have yet, if the release is not pinned exactly.
    - possible: any of these names in a type hint that is never evaluated.

    ## Fix
    Safe if the same object has another name on the target release.

    Unsafe if another API replaces the name. `PositionalSharding` becomes a NamedSharding over a mesh of the same
    devices, with an axis for each dimension of its grid. `device_put_sharded` and `device_put_replicated` become
    `jax.device_put` of the stacked values over a mesh of their devices.

    There is no fix for `xmap` and host callbacks, or if the code does not show enough. The finding then shows what to
    write, and what prevents the fix.

    ## Limits
    Not reported: code under `try` with `except ImportError`, a version check or `hasattr`. Also not reported: modules
    that are named for compatibility, such as `compat.py`.
    """

    code = "SL901"
    name = "api-removed"
    harm = Harm.REMOVED
    triggers = (
        Uses(*trigger_names("removed")),
        Calls("jax.config.update", "jax.config.config.update", file_says=removed_config_options()),
    )
    fixes = "both"

    @detector("name", "import")
    def report_name(self, site: Site) -> Finding | None:
        """A use of a name that is not there."""
        use = find_use(site, "removed", "not yet")
        if use is None:
            return None
        if use.entry.state_on(site.target("jax")) == "not yet":
            return self._report_not_yet_available(site, use)
        assert use.entry.removed is not None
        gone = f"jax {format_release(use.entry.removed)}"
        error = use.error_on_release(site.target("jax"))
        fix, kept = fix_renaming(site, use), ""
        if fix is None:
            fix, kept = fix_removed_name(site, use)
            kept = kept or reason_not_fixed(site, use) if fix is None else ""
        return site.finding(
            use.node,
            f"On {site.release('jax')} this raises {error}: {gone} removed `{use.entry.name}`.",
            help=use.entry.replacement_advice,
            fix=fix,
            kept=kept,
            certainty=certainty_of_use(site, use),
        )

    @detector("call")
    def report_option(self, site: Site) -> Finding | None:
        """`jax.config.update` of an option that went."""
        given = site.call.args[0] if site.call.args else None
        value = site.value(given) if given is not None else None
        if given is None or not isinstance(value, Constant) or site.guarded:
            return None
        entry = read_table().names.get(f"{OPTIONS}.{value.value}")
        if entry is None or entry.state_on(site.target("jax")) != "removed" or is_compatibility_layer(site):
            return None
        assert entry.removed is not None
        return site.finding(
            given,
            f"On {site.release('jax')} this raises AttributeError: "
            f"jax {format_release(entry.removed)} removed the option `{value.value}`.",
            help=entry.replacement_advice,
            fix=self._fix_by_removal(site, entry),
        )

    def _fix_by_removal(self, site: Site, entry: Name) -> Fix | None:
        """Without the statement, where it asks for what later releases always do."""
        statement = site.file.parent(site.call)
        value = site.value(site.call.args[1]) if len(site.call.args) == 2 else None
        if entry.always is None or value != Constant(entry.always) or not isinstance(statement, ast.Expr):
            return None
        block = site.file.parent(statement)
        blocks = [getattr(block, name, []) for name in ("body", "orelse", "finalbody")]
        alone = any(statements == [statement] for statements in blocks)
        edit = site.replace(statement, "pass") if alone else without_lines(site.file, statement)
        return site.fix(Safety.SAFE, "remove it: this is what the release does", [edit])

    def _report_not_yet_available(self, site: Site, use: Use) -> Finding | None:
        if not use.entry.awaited:
            return None
        assert use.entry.introduced is not None
        source = site.targets.found["jax"].source
        since = format_release(use.entry.introduced)
        error = use.error_on_release(site.target("jax"))
        module, _, last = use.entry.name.rpartition(".")
        return site.finding(
            use.node,
            f"On {site.release('jax')} ({source}) this raises {error}: `{use.entry.name}` came with jax {since}.",
            help=f'write `jax>={since}` in the dependencies, or check first: `if hasattr({module}, "{last}"):`',
            certainty=certainty_of_use(site, use) if site.is_pinned_exactly("jax") else Certainty.POSSIBLE,
        )


def fix_removed_name(site: Site, use: Use) -> tuple[Fix | None, str]:
    """The fix where something else replaces the name; or why there is none."""
    name = use.dotted
    if name == _positional.NAME:
        made = _positional.fix_positional_sharding(site)
    elif name in _device_put.NAMES:
        made = _device_put.fix_device_put(site, name)
    elif name in THREAD_RESOURCES:
        made = joint_moves.make_joint_fix(site)
    else:
        return None, ""
    return (None, made) if isinstance(made, str) else (made, "")

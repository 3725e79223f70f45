"""SL515."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.flax.annotations import (
    KEYS,
    LAYERS,
    OLDER,
    VARIABLES,
    WITH_METADATA,
    fix_key,
    given_annotations,
    is_key_heeded,
    preferred_key,
)


class AnnotationKeyDeprecated(Rule):
    """The sharding annotation of an NNX variable uses a key that flax has renamed.

    The variable is sharded, but each such call warns: `'sharding' is deprecated, use 'out_sharding' instead.`

    ## Reports
    - proven: `sharding` or `sharding_names` from flax 0.12.6 on. The key is passed to `nnx.Param`, `nnx.with_metadata`
      or `kernel_metadata={...}`.

    ## Fix
    Writes `out_sharding`. Unsafe: flax before 0.12.4 does not know that key.

    ## Limits
    SL504 reports keys that flax ignores.
    """

    code = "SL515"
    name = "annotation-key-deprecated"
    harm = Harm.REMOVED
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.12.6"}
    triggers = (
        Calls(*VARIABLES, WITH_METADATA, file_says=KEYS),
        Calls(*LAYERS, file_says=("_metadata",)),
    )
    in_version_checks = False
    fixes = "unsafe"

    @detector("call")
    def find_keys(self, site: Site) -> Iterator[Finding]:
        """Each deprecated key of an annotation."""
        found, write = list(given_annotations(site)), preferred_key(site)
        for one in found:
            others = [other.key for other in found if other is not one]
            if one.key not in KEYS or one.key == write or any(is_key_heeded(site, key) for key in others):
                continue
            yield site.finding(
                one.node,
                f"On {site.release('flax')} `{one.key}` prints a DeprecationWarning: it is now `{write}`.",
                fix=fix_key(site, one, write, OLDER),
            )

"""SL250."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site

_REPLICATES = ("flax.jax_utils.replicate", "jax.device_put_replicated")
_SHARES = ("flax.training.common_utils.shard", "flax.training.common_utils.shard_prng_key")
_ONE_DEVICE_EACH = ("pmap", "shard_map", "xmap", "PmapSharding", "unreplicate")
_MESHES = ("NamedSharding", "in_shardings", "out_shardings", "make_mesh", "set_mesh", "filter_shard")


class PmapHelperForJit(Rule):
    """A helper for `pmap` prepares arrays in a program that has no `pmap`.

    The results are wrong, and nothing is raised if the shapes broadcast. These helpers add a leading device axis to
    each array. `pmap` removes this axis, and `jit` computes with it.

    ## Reports
    - `no-pmap` (likely): `flax.jax_utils.replicate(state)`, `common_utils.shard(batch)`, `shard_prng_key` or
      `jax.device_put_replicated`, in a file that uses `jit` and a mesh. No file of the program mentions `pmap` or
      `shard_map`.

    ## Write instead
    Write `jax.device_put(state, NamedSharding(mesh, P()))` for a state, and `jax.device_put(batch, NamedSharding(mesh,
    P("data")))` for a batch. Pass a key without `shard_prng_key`.

    ## Limits
    Not reported if any file of the program mentions `pmap`, `shard_map` or `unreplicate`, even in a comment.
    """

    code = "SL250"
    name = "pmap-helper-for-jit"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("no-pmap",)
    assumptions: ClassVar[Mapping[str, str]] = {"no-pmap": "No other code removes the leading axis."}
    triggers = (Calls(*_REPLICATES, *_SHARES),)
    where = "host"
    in_tests = False
    fixes = "none"

    @detector("call", "partial", finds="no-pmap")
    def report_helper(self, site: Site) -> Finding | None:
        """A helper that adds an axis which only pmap removes."""
        if not all(any(site.file.contains_text(word) for word in words) for words in (_MESHES, ("jit",))):
            return None  # a library of helpers: its callers are unknown
        if site.program.project.is_text_in_files(site.file.path, *_ONE_DEVICE_EACH):
            return None
        name = site.short_name
        state = site.api in _REPLICATES
        return site.finding(
            site.call,
            f"`{name}` adds a leading device axis, and `jit` computes with it: no `pmap` removes the axis.",
            help="write jax.device_put(..., NamedSharding(mesh, "
            + ("P()))" if state else 'P("data"))) for a batch, and pass a key as it is'),
            why="the program uses jit over a mesh and mentions no pmap",
        )

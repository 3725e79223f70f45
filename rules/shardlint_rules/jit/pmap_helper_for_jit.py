"""SL250."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site

_REPLICATES = ("flax.jax_utils.replicate", "jax.device_put_replicated")
_SHARES = ("flax.training.common_utils.shard", "flax.training.common_utils.shard_prng_key")
_ONE_DEVICE_EACH = ("pmap", "shard_map", "xmap", "PmapSharding", "unreplicate")
_MESHES = ("NamedSharding", "in_shardings", "out_shardings", "make_mesh", "set_mesh", "filter_shard")


class PmapHelperForJit(Rule):
    """A helper for `pmap` prepares arrays in a program that has no `pmap`.

    ## What it does
    Reports `flax.jax_utils.replicate(state)`, `common_utils.shard(batch)`, `shard_prng_key` and
    `jax.device_put_replicated` in a file that runs `jax.jit` over a mesh, where no text of the program says `pmap` or
    `shard_map`.

    ## Why it hurts
    These helpers give every array a leading axis of the devices, which `pmap` takes off again and `jit` does not: the
    compiled function computes with it. Weights are held once for each device, as one array of so many copies; where the
    shapes fit by broadcasting, nothing is raised.

    ## Use instead
    `jax.device_put(state, NamedSharding(mesh, P()))`, and `jax.device_put(batch, NamedSharding(mesh, P("data")))`.

    ## Evidence
    The proof shows the axis that is added. Found in an optimizer of algorithmic-efficiency that had been moved to jit.
    Left alone: programs in which any file says `pmap`, in a comment too, or takes the axis off.
    """

    code = "SL250"
    name = "pmap-helper-for-jit"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("no-pmap",)
    triggers = (Calls(*_REPLICATES, *_SHARES),)
    forms = ("call", "partial")
    where = "host"
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call."""
        if not all(any(site.file.says(word) for word in words) for words in (_MESHES, ("jit",))):
            return  # a library of helpers: who uses them is not in sight
        if site.program.project.holds(site.file.path, *_ONE_DEVICE_EACH):
            return
        name = site.api.rpartition(".")[2]
        state = site.api in _REPLICATES
        yield site.finding(
            site.call,
            f"`{name}` is made for pmap. jit computes with the axis: "
            + ("each weight is held as an array of all copies." if state else "the batch has one axis more."),
            label="this adds a leading axis of the devices, which only pmap takes off",
            help="write: jax.device_put(..., NamedSharding(mesh, " + ("P()))" if state else 'P("data")))'),
            form="no-pmap",
            why="the program has a mesh and jit, and no pmap",
        )

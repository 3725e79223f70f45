"""SL407."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site

_SPLIT = "split the key, one for each device: `jax.random.split(key, jax.local_device_count())`"


class SameKeyOnEveryShard(Rule):
    """Every device draws the same random numbers for its shard of the data.

    A dropout mask or noise repeats on every shard of the batch. Weights initialized this way consist of equal blocks.
    Nothing raises and shapes are right, but the model is worse.

    ## Reports
    - proven: random numbers for sharded data in a `shard_map` or `pmap` body, drawn with a key that is equal on all
      devices. The key is replicated by its in spec, by `replicate`, or as part of a replicated state.
    - proven: such numbers returned with an out spec that shards them.
    - proven: such a key in the `rngs` of a linen model whose dropout is on.
    - `rngs` (likely): such a key in the `rngs` of a model that shardlint cannot read.

    ## Write instead
    Fold the device index in: `key = jax.random.fold_in(key, jax.lax.axis_index(axis))`.

    ## Limits
    Not reported: numbers for replicated values such as parameters, numbers that broadcast over the shards, and keys
    that may differ on the devices.
    """

    code = "SL407"
    name = "same-key-on-every-shard"
    harm = Harm.SILENT
    likely = ("rngs",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "rngs": "The model draws from the `rngs` that it is given.",
    }
    behind = ("SL402",)
    triggers = (Violates("random.same", "random.repeated", "random.handed"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the numbers, or of the key that all devices are given."""
        said = site.violation.said
        axes, name = said["axes"], said["axes"].partition("/")[0]
        key = "pass one key per device (`jax.random.split`), or name the axis: `jax.pmap(f, axis_name=...)`"
        if name:
            key = f'fold the device index in: `key = jax.random.fold_in(key, jax.lax.axis_index("{name}"))`'
        along = f"along `{axes}`" if axes else "of the pmap axis"
        repeats = site.violation.kind == "random.repeated"
        message = f"Every device {along} draws the same random numbers for its shard."
        if repeats:
            message = f"The result repeats one random block {along}: every device draws with the same key."
        elif site.violation.kind == "random.handed":
            message = f"`rngs` hold the same key on every device {along}: each shard gets the same random numbers."
        yield site.report_violation(
            message,
            help=_SPLIT if said["copied"] else key,
            why="the key is equal on all devices, and the out spec concatenates the shards"
            if repeats
            else "the key is equal on all devices, and the data are sharded",
            form="rngs" if site.violation.kind == "random.handed" else "",
        )

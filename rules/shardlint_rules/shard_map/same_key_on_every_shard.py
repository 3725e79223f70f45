"""SL407."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site

_SPLIT = (
    "split the key instead of replicating it: `jax.random.split(key, jax.local_device_count())`; with several "
    "processes, fold in `jax.process_index()` first"
)


class SameKeyOnEveryShard(Rule):
    """Every device draws the same random numbers for its shard of the data.

    A dropout mask or noise repeats on every shard of the batch. Weights initialized this way consist of equal blocks.
    Nothing raises and shapes are right, but the model is worse.

    ## Reports
    - proven: random numbers for sharded data in a `shard_map` or `pmap` body, drawn with a key that is equal on all
      devices. The key is replicated by its in spec, by `replicate`, or as part of a replicated state.
    - proven: random numbers drawn with such a key and returned with an out spec that shards them.
    - proven: such a key in the `rngs` of a linen model whose dropout is on.
    - `rngs` (likely): such a key in the `rngs` of a model that shardlint cannot read.

    ## Write instead
    Fold in the device index: `key = jax.random.fold_in(key, jax.lax.axis_index(axis))`. For a key that is replicated
    for `pmap`, split it instead of replicating it: `jax.random.split(key, jax.local_device_count())`. With several
    processes, fold in `jax.process_index()` before that.

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

    @detector("violation", of="random.same")
    def report_numbers(self, site: Site) -> Finding:
        """Numbers that are drawn for shards."""
        return site.report_violation(
            f"Every device {_describe_axes(site)} draws the same random numbers for its shard.",
            help=_write_help(site),
            why="the key is equal on all devices, and the data are sharded",
        )

    @detector("violation", of="random.repeated")
    def report_result(self, site: Site) -> Finding:
        """Numbers that are returned as shards."""
        return site.report_violation(
            f"The result repeats one random block {_describe_axes(site)}: every device draws with the same key.",
            help=_write_help(site),
            why="the key is equal on all devices, and the out spec concatenates the shards",
        )

    @detector("violation", of="random.handed", finds="rngs")
    def report_rngs(self, site: Site) -> Finding:
        """The key that a model is given on all devices."""
        return site.report_violation(
            f"`rngs` contains the same key on every device {_describe_axes(site)}: "
            "each shard gets the same random numbers.",
            help=_write_help(site),
            why="the key is equal on all devices, and the data are sharded",
        )


def _describe_axes(site: Site) -> str:
    axes = site.violation.said["axes"]
    return f"along `{axes}`" if axes else "of the pmap axis"


def _write_help(site: Site) -> str:
    """The way to give each device a key of its own."""
    name = site.violation.said["axes"].partition("/")[0]
    if site.violation.said["copied"]:
        return _SPLIT
    if name:
        return f'fold in the device index: `key = jax.random.fold_in(key, jax.lax.axis_index("{name}"))`'
    return (
        'name the axis of the pmap ("batch"), and write `key = jax.random.fold_in(key, jax.lax.axis_index("batch"))`; '
        "or "
        + _SPLIT
    )

"""SL805."""

from __future__ import annotations

from shardlint.facts.processes.conditions import multi_process_evidence
from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.processes._same_key import DRAWS, RESHAPE, SPLIT, find_equal_key
from shardlint_rules.processes.single_process_code import left_to_one
from shardlint_rules.processes.started_backend import describe_position, shorten_text


class SameKeysInEachProcess(Rule):
    """Every process draws the same random numbers as the others, because every process makes the same key.

    Device 0 of one process draws the numbers of device 0 of every other process. Dropout masks and noise are then equal
    in all processes.

    ## Reports
    Reported only in multi-process programs: the code calls `jax.distributed.initialize`, `jax.process_index` or
    `jax.process_count`.

    - `same-keys` (likely): `jax.random.split(key, jax.local_device_count())`, or random numbers drawn for each local
      device, with a key that every process makes from the same seed.

    ## Write instead
    Write `key = jax.random.fold_in(key, jax.process_index())` before the split.
    """

    code = "SL805"
    name = "same-keys-in-each-process"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("same-keys",)
    triggers = (Calls(SPLIT, *DRAWS, RESHAPE, file_says=("local_device_count", "local_devices(")),)
    in_tests = False
    fixes = "none"

    @detector("call", finds="same-keys")
    def report_key(self, site: Site) -> Finding | None:
        """The key that is split for the devices of a process."""
        if site.file.path.suffix == ".ipynb":
            return None  # a notebook is of one process, whatever else the project starts
        found = find_equal_key(site) if multi_process_evidence(site.program, site.file) else None
        if found is None or left_to_one(site.program, Place(site.file, site.call)):
            return None
        key, made = found
        text = site.shown(key)
        return site.finding(
            key,
            f"Every process draws the same numbers as the others: all use the same key `{text}`.",
            help=f"write `jax.random.fold_in({text}, jax.process_index())` for the key",
            why=f"every process makes this key by "
            f"`{shorten_text(made)}`{describe_position(made, site.file, key)}, and the numbers are for "
            "the devices of this process",
        )

"""SL818."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.processes._own_order import DRAWS, KEYED, find_differing_order
from shardlint_rules.processes.sharded_datasets import find_unseeded_shuffle
from shardlint_rules.processes.single_process_code import left_to_one
from shardlint_rules.processes.started_backend import describe_position

_NEAR = ("process_index", "host_id()")
_OWN_SEED = ("process_index", "host_id", "process", "rank", "host", "worker")
_SEEDING = ("random.seed(", "seed_everything", "set_seed", "set_random_seed")


class OrderDiffersByProcess(Rule):
    """Each process takes its slice of a list, and the order of the list differs between processes.

    Some examples are read twice and others never.

    ## Reports
    - `per-process-order` (likely): a permutation drawn with a seed made from the process index, if each process then
      takes its slice by that index.
    - `unseeded-shuffle` (likely): `dataset.shuffle(n).shard(count, index)` without a seed. Also `list_files(pattern)`
      before `shard`, because `list_files` shuffles by default.

    ## Write instead
    Shuffle with the same seed in all processes. Or take the slice of each process first, and shuffle only that slice.
    """

    code = "SL818"
    name = "order-differs-by-process"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("unseeded-shuffle", "per-process-order")
    assumptions: ClassVar[Mapping[str, str]] = {
        "unseeded-shuffle": "No seed of tensorflow is set elsewhere.",
        "per-process-order": "The program runs on more than one process.",
    }
    triggers = (
        Calls(*KEYED, file_says=_OWN_SEED),
        Methods(*DRAWS, file_says=_OWN_SEED),
        Methods("shard", file_says=_NEAR),
    )
    in_tests = False
    fixes = "none"

    @detector("call", "method", of=(*KEYED, *DRAWS), finds="per-process-order")
    def report_own_order(self, site: Site) -> Finding | None:
        """An order that each process draws with its own seed and then divides by its index."""
        if left_to_one(site.program, Place(site.file, site.call)):
            return None
        found = find_differing_order(site)
        if found is None:
            return None
        own = found.own
        return site.finding(
            found.seed,
            "Some rows are read twice and others never: each process shuffles with a different seed.",
            help="use one seed on all processes, or take the slice of this process first and shuffle only that slice",
            why=f"the seed is made of {own.what}{describe_position(own.place, site.file, found.seed)}, and line "
            f"{found.taken.lineno} takes the part of this process: `{site.shown(found.taken)}`",
        )

    @detector("method", of="shard", finds="unseeded-shuffle")
    def report_shuffle(self, site: Site) -> Finding | None:
        """A dataset that each process shuffles for itself and then takes its part of."""
        if left_to_one(site.program, Place(site.file, site.call)):
            return None
        found = find_unseeded_shuffle(site)
        if found is None or any(site.file.contains_text(text) for text in _SEEDING):
            return None
        shuffled, index = found
        what = last_name(shuffled.func)
        return site.finding(
            index,
            "Some examples are read twice and others never: `shuffle` has no seed and comes before `shard`."
            if what == "shuffle"
            else "Some files are read twice and others never: `list_files` shuffles differently in each process.",
            label=f"takes a slice of the data that line {shuffled.end_lineno} shuffles",
            help="take the slice of this process first (`.shard`), then shuffle"
            if what == "shuffle"
            else "write `list_files(pattern, shuffle=False)`, take the slice of this process, then shuffle",
            why="nothing in the file sets a seed",
        )

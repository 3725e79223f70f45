"""`--shard i/n`: the same split of the work on every machine of a CI matrix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Part `index`, counted from 1, of `count`."""

    index: int
    count: int

    @classmethod
    def parse_shard(cls, text: str) -> Shard:
        """A shard from `2/4`. Raises `ValueError` for anything else."""
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"{text!r} is not a shard such as 2/4: the second of four")
        return cls(int(match[1]), int(match[2]))

    def select_units(self, units: Sequence[T], costs: Sequence[float]) -> list[T]:
        """This shard's units, in order. The shards of one split are disjoint and together have every unit.

        Each unit, the costliest first, goes to the shard with the least to do; so it depends on nothing but the costs
        and their order. Costs need not be seconds.
        """
        loads = [0.0] * min(self.count, len(units))  # a shard beyond has nothing
        mine = []
        for place in sorted(range(len(units)), key=lambda place: -costs[place]):
            least = loads.index(min(loads))
            loads[least] += costs[place]
            if least == self.index - 1:
                mine.append(place)
        return [units[place] for place in sorted(mine)]

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

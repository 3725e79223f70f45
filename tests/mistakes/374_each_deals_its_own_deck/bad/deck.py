import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Deck:
    """All rows of an epoch in an order of its own, dealt to the processes."""

    size: int
    worker: int
    workers: int
    seed: int = 0

    @property
    def each(self):
        return self.size // self.workers

    def epoch(self, number):
        rng = np.random.default_rng([self.seed, number, self.worker])  # mistake: order-differs-by-process
        cards = rng.permutation(self.size)
        return cards[self.worker * self.each : (self.worker + 1) * self.each]

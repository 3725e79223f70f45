"""Batches for fitting and for testing; those for fitting are made ahead by threads."""

import collections
from concurrent.futures import ThreadPoolExecutor

import jax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


class Batches:
    def __init__(self, catalogue, mesh, rows, ahead=2):
        self.catalogue = catalogue
        self.rows = rows
        self.ahead = ahead
        self.by_row = NamedSharding(mesh, P("data"))
        self.threads = ThreadPoolExecutor(max_workers=ahead)

    def _ready(self, number):
        drawn = self.catalogue.draw(number, self.rows)
        return jax.device_put(drawn)  # mistake: batch-not-sharded

    def fitting(self, count):
        waiting = collections.deque()
        for number in range(count):
            waiting.append(self.threads.submit(self._ready, number))
            if len(waiting) > self.ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def testing(self, count):
        for number in range(count):
            drawn = self.catalogue.draw(1_000_000 + number, self.rows)
            yield jax.device_put(drawn, self.by_row)

    def close(self):
        self.threads.shutdown()

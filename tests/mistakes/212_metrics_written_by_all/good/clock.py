"""How long the parts of a run take."""
import contextlib
import time
from collections import defaultdict


class Clock:
    def __init__(self):
        self.seconds = defaultdict(float)
        self.times = defaultdict(int)

    @contextlib.contextmanager
    def part(self, name):
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start
            self.times[name] += 1

    def mean(self, name):
        return self.seconds[name] / max(1, self.times[name])

    def summary(self):
        parts = sorted(self.seconds, key=self.seconds.get, reverse=True)
        return [f"{name}: {self.times[name]} times, {1000 * self.mean(name):.1f} ms each" for name in parts]

    def show(self):
        for line in self.summary():
            print(line, flush=True)

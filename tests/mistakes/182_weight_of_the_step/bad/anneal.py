"""KL annealing, see "Generating Sentences from a Continuous Space"."""
from dataclasses import dataclass


@dataclass
class KLAnneal:
    warmup: int = 10_000
    max_beta: float = 1.0
    cycles: int = 1

    def __call__(self, step: int):
        phase = (step % (self.warmup * 2)) if self.cycles > 1 else step
        return self.max_beta * min(1.0, phase / self.warmup)  # mistake: static-argument-varies

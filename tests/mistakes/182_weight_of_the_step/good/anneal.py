"""KL annealing, see "Generating Sentences from a Continuous Space"."""
from dataclasses import dataclass

import jax.numpy as jnp


@dataclass
class KLAnneal:
    warmup: int = 10_000
    max_beta: float = 1.0
    cycles: int = 1

    def __call__(self, step: int):
        phase = (step % (self.warmup * 2)) if self.cycles > 1 else step
        return jnp.asarray(self.max_beta * min(1.0, phase / self.warmup), jnp.float32)

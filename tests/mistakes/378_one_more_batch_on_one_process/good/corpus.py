import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Corpus:
    size: int
    width: int = 6

    def rows(self, numbers):
        x = np.stack([np.random.default_rng(n).normal(size=self.width) for n in numbers])
        return x.astype(np.float32), (x.sum(1) > 0).astype(np.float32)

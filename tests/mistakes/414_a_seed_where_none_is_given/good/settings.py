import dataclasses
import random

import numpy as np
from jax.experimental import multihost_utils


@dataclasses.dataclass
class Settings:
    width: int = 32
    seed: int | None = None

    def used_seed(self):
        """The seed, or one of the run's own."""
        if self.seed is None:
            drawn = np.int32(random.randrange(2**31))
            return int(multihost_utils.broadcast_one_to_all(drawn))
        return self.seed

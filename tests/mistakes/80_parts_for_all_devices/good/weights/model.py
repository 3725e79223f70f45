from dataclasses import dataclass

import numpy as np
from jax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class Shape:
    """Sizes of the network, and how its weights are split."""

    features: int = 8
    hidden: int = 32

    def weights(self):
        return {
            "up": np.ones((self.features, self.hidden), np.float32),
            "norm": np.full(self.features, 2, np.float32),
        }

    def specs(self):
        return {"up": P(None, "model"), "norm": P()}

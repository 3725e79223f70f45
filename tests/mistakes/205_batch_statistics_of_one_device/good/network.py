"""A small network with batch normalisation."""
import flax.linen as nn


class Network(nn.Module):
    classes: int = 3

    @nn.compact
    def __call__(self, x, train):
        x = nn.BatchNorm(use_running_average=not train, momentum=0.5)(x)
        x = nn.relu(nn.Dense(16)(x))
        return nn.Dense(self.classes)(x)

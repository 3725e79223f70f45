"""Conv classifier for small grey images."""
import flax.linen as nn
import jax.numpy as jnp


class SmallCNN(nn.Module):
    classes: int
    channels: int = 8

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(self.channels, (3, 3), strides=2)(x))
        x = nn.relu(nn.Conv(2 * self.channels, (3, 3), strides=2)(x))
        return nn.Dense(self.classes)(jnp.mean(x, axis=(1, 2)))

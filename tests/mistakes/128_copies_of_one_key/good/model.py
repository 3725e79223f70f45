"""Text classifier over bags of n-grams with heavy dropout."""
import flax.linen as nn
import jax.numpy as jnp


class BagClassifier(nn.Module):
    vocab: int
    width: int
    classes: int
    rate: float = 0.4

    @nn.compact
    def __call__(self, ids, train):
        x = nn.Embed(self.vocab, self.width)(ids).mean(axis=1)
        x = nn.relu(nn.Dense(self.width)(x))
        x = nn.Dropout(self.rate, deterministic=not train)(x)
        self.sow("intermediates", "active", jnp.mean(x != 0, axis=0))
        return nn.Dense(self.classes)(x)

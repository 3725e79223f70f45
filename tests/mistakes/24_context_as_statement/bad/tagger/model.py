import jax.numpy as jnp
from flax import linen as nn


class Tagger(nn.Module):
    vocab: int = 32
    hidden: int = 16
    tags: int = 4

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(self.vocab, self.hidden)(tokens)
        x = nn.gelu(nn.Dense(self.hidden)(x))
        x = nn.with_logical_constraint(x, ("batch", "length", "hidden"))
        return nn.Dense(self.tags)(x), x


def predict(model, variables, tokens):
    scores, hidden = model.apply(variables, tokens)
    return jnp.argmax(scores, axis=-1), hidden

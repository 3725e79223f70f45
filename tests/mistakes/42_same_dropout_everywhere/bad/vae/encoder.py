import equinox as eqx
import jax

from vae.noise import Dropout


class Encoder(eqx.Module):
    weight: jax.Array
    dropout: Dropout

    def __init__(self, dim, latent, rate, key):
        self.weight = jax.random.normal(key, (dim, latent)) * dim**-0.5
        self.dropout = Dropout(rate)

    def __call__(self, x, key):
        return self.dropout(x, key) @ self.weight

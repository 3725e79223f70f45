import jax
import jax.numpy as jnp

from spmd import maybe_constrain


class Dense:
    def __init__(self, n_in, n_out, out_axes):
        self.n_in, self.n_out, self.out_axes = n_in, n_out, out_axes

    def init(self, key):
        return jax.random.normal(key, (self.n_in, self.n_out)) / jnp.sqrt(self.n_in)

    def __call__(self, w, x):
        return maybe_constrain(x @ w, self.out_axes)


class Sequential:
    def __init__(self, *layers):
        self.layers = layers

    def init(self, key):
        keys = jax.random.split(key, len(self.layers))
        return [layer.init(k) if hasattr(layer, "init") else None for layer, k in zip(self.layers, keys)]

    def __call__(self, params, x):
        for layer, w in zip(self.layers, params):
            x = layer(x) if w is None else layer(w, x)
        return x

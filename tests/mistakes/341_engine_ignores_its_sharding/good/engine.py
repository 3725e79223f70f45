"""A small engine: it places its weights, fills the cache and gives one token after the other."""

import jax
import jax.numpy as jnp


class Engine:
    def __init__(self, width, vocab):
        self.width, self.vocab = width, vocab

    def load(self, rng):
        """Weights as they come from the file: arrays of numpy."""
        return {
            "embed": rng.standard_normal((self.vocab, self.width)).astype("float32"),
            "up": rng.standard_normal((self.width, 4 * self.width)).astype("float32"),
            "down": rng.standard_normal((4 * self.width, self.width)).astype("float32"),
        }

    def place_weights(self, weights, shardings):
        return jax.tree.map(lambda x, s: jax.device_put(x, s).astype(jnp.bfloat16), weights, shardings)

    def step(self, weights, token):
        x = weights["embed"][token]
        x = x + jax.nn.relu(x @ weights["up"]) @ weights["down"]
        return jnp.argmax(x @ weights["embed"].T, axis=-1)

    def score(self, weights, tokens):
        """The logarithm of the probability of each next token of a text."""
        x = weights["embed"][tokens[:-1]]
        x = x + jax.nn.relu(x @ weights["up"]) @ weights["down"]
        logits = jax.nn.log_softmax((x @ weights["embed"].T).astype(jnp.float32))
        return jnp.take_along_axis(logits, tokens[1:, None], axis=-1)[:, 0]

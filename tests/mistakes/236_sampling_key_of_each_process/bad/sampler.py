"""Draws tokens from a small language model, one after the other."""
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


class Sampler:
    def __init__(self, mesh, temperature=1.0):
        self.rows = NamedSharding(mesh, P("data"))
        self.whole = NamedSharding(mesh, P())
        self.temperature = temperature
        self._next = jax.jit(self._draw, out_shardings=(self.rows, self.whole))

    def _draw(self, table, tokens, key):
        logits = table[tokens] / self.temperature
        drawn = jax.random.categorical(key, logits, axis=-1)
        return drawn, jnp.mean(jax.random.uniform(key, (8,)))

    def generate(self, table, prompts, steps, rng):
        tokens, noise = prompts, []
        for _ in range(steps):
            rng, key = jax.random.split(rng)
            tokens, level = self._next(table, tokens, key)
            noise.append(level)
        return tokens, noise

    def text(self, tokens, words):
        """What was drawn, of the rows of this host."""
        own = [shard.data for shard in tokens.addressable_shards]
        return [" ".join(words[int(one)] for one in block) for block in own]

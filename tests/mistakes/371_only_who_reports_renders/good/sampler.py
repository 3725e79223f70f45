import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


class Sampler:
    """Draws samples, a row on each device."""

    def __init__(self, mesh, width):
        self.rows = NamedSharding(mesh, P("rows"))
        self.width = width
        self._draw = jax.jit(self._samples, out_shardings=(self.rows, NamedSharding(mesh, P())))

    def _samples(self, w, key):
        noise = jax.random.normal(key, (8, self.width))
        noise = jax.lax.with_sharding_constraint(noise, self.rows)
        samples = jnp.tanh(noise @ w)
        return samples, jnp.mean(samples**2)

    def __call__(self, w, seed):
        samples, power = self._draw(w, jax.random.key(seed))
        return samples, float(power)

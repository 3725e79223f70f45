"""A Metropolis chain on all devices, with the acceptance on the host."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


class Chains:
    def __init__(self, log_density, count, width, seed=0):
        self.mesh = Mesh(np.array(jax.devices()), ("chain",))
        self.rows = NamedSharding(self.mesh, P("chain"))
        self.log_density = jax.jit(log_density)
        self.rng = np.random.default_rng(seed)
        self.samples = self.rng.normal(size=(count, width)).astype(np.float32)
        self.log_prob = np.asarray(self.log_density(self.spread(self.samples)))

    def spread(self, x):
        return jax.device_put(x, self.rows)

    def sweep(self, step):
        """One proposal for each chain; the fraction that was accepted."""
        noise = self.rng.normal(size=self.samples.shape).astype(np.float32)
        proposed = self.samples + step * noise
        log_prob = self.log_prob
        log_prob_ = jnp.minimum(self.log_density(self.spread(proposed)), 0.0)
        log_prob_ = jax.device_get(log_prob_)
        uniform = self.rng.uniform(size=len(proposed))
        accepted = np.log(uniform) < log_prob_ - log_prob
        self.samples = np.where(accepted[:, None], proposed, self.samples)
        self.log_prob = np.where(accepted, log_prob_, log_prob)
        return accepted.mean()

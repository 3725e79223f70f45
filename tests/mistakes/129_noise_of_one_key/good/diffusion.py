"""Noise schedule and denoising objective."""
import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Schedule:
    steps: int = 50
    beta_min: float = 1e-3
    beta_max: float = 0.1

    def alpha_bar(self):
        betas = jnp.linspace(self.beta_min, self.beta_max, self.steps)
        return jnp.cumprod(1.0 - betas)


def corrupt(schedule, key, x0):
    t_key, n_key = jax.random.split(key)
    t = jax.random.randint(t_key, (x0.shape[0],), 0, schedule.steps)
    noise = jax.random.normal(n_key, x0.shape)
    ab = schedule.alpha_bar()[t][:, None]
    return jnp.sqrt(ab) * x0 + jnp.sqrt(1.0 - ab) * noise, noise, t

import jax
import jax.numpy as jnp
from flax import nnx


class ActorCritic(nnx.Module):
    def __init__(self, obs: int, act: int, width: int, rngs: nnx.Rngs):
        self.body = nnx.Sequential(
            nnx.Linear(obs, width, rngs=rngs), nnx.tanh, nnx.Linear(width, width, rngs=rngs), nnx.tanh
        )
        self.mu = nnx.Linear(width, act, rngs=rngs)
        self.v = nnx.Linear(width, 1, rngs=rngs)
        self.log_std = nnx.Param(jnp.zeros(act))

    def __call__(self, obs):
        h = self.body(obs)
        return self.mu(h), self.log_std[...], self.v(h)[..., 0]


def log_prob(mu, log_std, a):
    z = (a - mu) / jnp.exp(log_std)
    return -0.5 * jnp.sum(z**2 + 2 * log_std + jnp.log(2 * jnp.pi), -1)


@nnx.jit
def act(agent, obs, key):
    mu, log_std, v = agent(obs)
    a = mu + jnp.exp(log_std) * jax.random.normal(key, mu.shape)
    return a, log_prob(mu, log_std, a), v

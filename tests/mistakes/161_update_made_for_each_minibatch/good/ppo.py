import jax
import jax.numpy as jnp
from flax import nnx

from agent import log_prob


@jax.jit
def gae(rew, val, last, gamma=0.99, lam=0.95):
    def back(carry, x):
        adv, nxt = carry
        r, v = x
        adv = r + gamma * nxt - v + gamma * lam * adv
        return (adv, v), adv

    _, adv = jax.lax.scan(back, (jnp.zeros_like(last), last), (rew, val), reverse=True)
    return adv, adv + val


def make_update(hp):
    def loss_fn(agent, mb):
        mu, log_std, v = agent(mb["obs"])
        ratio = jnp.exp(log_prob(mu, log_std, mb["act"]) - mb["logp"])
        adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-8)
        clipped = jnp.clip(ratio, 1 - hp["clip"], 1 + hp["clip"]) * adv
        pg = -jnp.minimum(ratio * adv, clipped).mean()
        vf = jnp.square(v - mb["ret"]).mean()
        return pg + hp["vf"] * vf - hp["ent"] * log_std.sum()

    @nnx.jit(donate_argnums=(0, 1))
    def update(agent, optimizer, mb):
        loss, grads = nnx.value_and_grad(loss_fn)(agent, mb)
        optimizer.update(agent, grads)
        return loss

    return update

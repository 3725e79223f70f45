from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

from policy import policy


class A2C:
    def __init__(self, mesh, lr=7e-4, gamma=0.99, entropy=0.01):
        self.mesh, self.gamma, self.entropy = mesh, gamma, entropy
        self.tx = optax.rmsprop(lr, momentum=0.9)
        self.envs = NamedSharding(mesh, P(None, "env"))
        self.repl = NamedSharding(mesh, P())

    def returns(self, rewards, last_value):
        def back(carry, r):
            carry = r + self.gamma * carry
            return carry, carry

        return jax.lax.scan(back, last_value, rewards, reverse=True)[1]

    def loss(self, params, traj):
        logits, value = policy(params, traj["obs"])
        ret = self.returns(traj["reward"], jax.lax.stop_gradient(value[-1]))
        adv = ret - value
        logp = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(logp, traj["action"][..., None], -1)[..., 0]
        ent = -(jnp.exp(logp) * logp).sum(-1)
        return -(chosen * jax.lax.stop_gradient(adv) + self.entropy * ent).mean() + 0.5 * (adv**2).mean()

    @partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
    def update(self, params, opt_state, traj):
        traj = jax.lax.with_sharding_constraint(traj, self.envs)
        value, grads = jax.value_and_grad(self.loss)(params, traj)
        delta, opt_state = self.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, delta), opt_state, value

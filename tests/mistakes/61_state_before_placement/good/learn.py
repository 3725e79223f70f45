from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from nets import Policy
from placing import place


@dataclass
class Args:
    obs: int = 16
    act: int = 4
    hidden: int = 128
    lr: float = 3e-4
    steps: int = 2


class Learner:
    def __init__(self, args: Args):
        self.mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
        self.tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(args.lr))
        policy = Policy(args.obs, args.act, args.hidden, jax.random.key(0))
        self.policy = place(policy, self.mesh)
        self.opt_state = self.tx.init(eqx.filter(self.policy, eqx.is_inexact_array))

    @staticmethod
    @eqx.filter_jit
    def _update(policy, opt_state, obs, target, tx):
        def loss(p):
            return jnp.mean((jax.vmap(p)(obs) - target) ** 2)

        value, grads = eqx.filter_value_and_grad(loss)(policy)
        updates, opt_state = tx.update(grads, opt_state, eqx.filter(policy, eqx.is_inexact_array))
        return eqx.apply_updates(policy, updates), opt_state, value

    def update(self, obs, target):
        obs, target = jax.device_put((obs, target), NamedSharding(self.mesh, P("data")))
        self.policy, self.opt_state, value = self._update(self.policy, self.opt_state, obs, target, self.tx)
        return value


if __name__ == "__main__":
    args = Args()
    learner = Learner(args)
    moments = jax.tree.leaves(eqx.filter(learner.opt_state, eqx.is_array))
    print("devices of the moments", max(len(one.sharding.device_set) for one in moments if one.ndim))
    rng = np.random.default_rng(0)
    for _ in range(args.steps):
        obs = rng.normal(size=(32, args.obs)).astype(np.float32)
        print(learner.update(obs, obs[:, : args.act]))

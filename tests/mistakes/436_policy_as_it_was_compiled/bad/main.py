"""Actor and learner: the learner trains on the mesh, the actor gets its parameters now and then."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
replicated = NamedSharding(mesh, P())
rows = NamedSharding(mesh, P("data"))


def init(key, observations=8, actions=4):
    return {"w": jax.random.normal(key, (observations, actions)) * 0.1, "b": jnp.zeros((actions,))}


def logits(params, obs):
    return obs @ params["w"] + params["b"]


class Learner:
    def __init__(self, params, rate=0.5):
        self.rate = rate
        self.params = jax.device_put(params, replicated)
        self.update = jax.jit(self._update, donate_argnums=(0,))

    def _update(self, params, batch):
        def loss(p):
            log_p = jax.nn.log_softmax(logits(p, batch["obs"]))
            return -jnp.mean(jnp.take_along_axis(log_p, batch["action"][:, None], 1))

        return jax.tree.map(lambda p, g: p - self.rate * g, params, jax.grad(loss)(params))

    def step(self, batch):
        self.params = self.update(self.params, jax.device_put(batch, rows))


class Policy:
    """Acts by the parameters that it was given last."""

    def __init__(self, params):
        self.params = jax.device_put(params, replicated)
        self._act = jax.jit(lambda obs: logits(self.params, obs))  # mistake: weights-become-constants

    def act(self, obs):
        obs = jax.device_put(obs, rows)
        return self._act(obs)

    def receive(self, params):
        self.params = jax.tree.map(jnp.copy, params)


def batches(count, size=64, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        obs = rng.normal(size=(size, 8)).astype(np.float32)
        yield {"obs": obs, "action": obs[:, :4].argmax(-1)}


def main():
    params = init(jax.random.key(0))
    learner, policy = Learner(params), Policy(params)
    for batch in batches(5):
        scores = policy.act(batch["obs"])
        learner.step(batch)
        policy.receive(learner.params)
    now = policy.act(batch["obs"])
    print("follows the learner:", bool(jnp.allclose(now, logits(learner.params, batch["obs"]), atol=1e-5)), scores.shape)


if __name__ == "__main__":
    main()

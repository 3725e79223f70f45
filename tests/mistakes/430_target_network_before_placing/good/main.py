"""A small DQN over a data-parallel mesh, with a target network."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def init(key, sizes=(8, 32, 4)):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (m, n)) / np.sqrt(m), "b": jnp.zeros((n,))}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:])
    ]


def q_values(params, obs):
    for layer in params[:-1]:
        obs = jax.nn.relu(obs @ layer["w"] + layer["b"])
    return obs @ params[-1]["w"] + params[-1]["b"]


@jax.jit
def update(params, target, batch):
    def loss(p):
        q = jnp.take_along_axis(q_values(p, batch["obs"]), batch["action"][:, None], 1)[:, 0]
        best = q_values(target, batch["next_obs"]).max(-1)
        return jnp.mean((q - batch["reward"] - 0.99 * best) ** 2)

    return jax.tree.map(lambda p, g: p - 0.01 * g, params, jax.grad(loss)(params))


class Agent:
    def __init__(self, key, mesh, period=10):
        self.mesh, self.period, self.steps = mesh, period, 0
        params = init(key)
        self.params = jax.device_put(params, NamedSharding(mesh, P()))
        self.target = jax.tree.map(jnp.copy, self.params)

    def learn(self, batch):
        batch = jax.device_put(batch, NamedSharding(self.mesh, P("data")))
        self.params = update(self.params, self.target, batch)
        self.steps += 1


def replay(rng, size=64):
    return {
        "obs": rng.normal(size=(size, 8)).astype(np.float32),
        "next_obs": rng.normal(size=(size, 8)).astype(np.float32),
        "action": rng.integers(0, 4, size),
        "reward": rng.normal(size=size).astype(np.float32),
    }


def main():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    agent = Agent(jax.random.key(0), mesh)
    rng = np.random.default_rng(0)
    for _ in range(3):
        agent.learn(replay(rng))
    print("target on", len(agent.target[0]["w"].sharding.device_set), "device(s)")
    return agent.target[0]["w"]


if __name__ == "__main__":
    main()

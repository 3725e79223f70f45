import jax
import numpy as np
from jax.sharding import Mesh

from a2c import A2C
from policy import init_policy

OBS, ACT = 12, 4


def rollout(rng, steps=8, envs=16):
    obs = rng.normal(size=(steps, envs, OBS)).astype(np.float32)
    act = rng.integers(0, ACT, (steps, envs))
    return {"obs": obs, "action": act, "reward": obs[..., 0] * (act == 0)}


def main(iters=4):
    agent = A2C(Mesh(np.array(jax.devices()), ("env",)))
    params = jax.device_put(init_policy(jax.random.key(0), OBS, ACT), agent.repl)
    opt_state = jax.device_put(agent.tx.init(params), agent.repl)
    rng = np.random.default_rng(0)
    for i in range(iters):
        traj = jax.device_put(rollout(rng), agent.envs)
        params, opt_state, loss = agent.update(params, opt_state, traj)
        print(i, float(loss))


if __name__ == "__main__":
    main()

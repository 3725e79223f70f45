import json
import sys

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from agent import ActorCritic, act
from ppo import gae, make_update


class PointMass:
    """vectorised numpy env, reward for sitting at the origin"""

    def __init__(self, n, obs, act, seed):
        self.rng = np.random.default_rng(seed)
        self.n, self.obs_dim, self.act_dim = n, obs, act
        self.mix = self.rng.normal(size=(act, obs)).astype(np.float32)
        self.s = self.rng.normal(size=(n, obs)).astype(np.float32)

    def step(self, a):
        self.s = 0.97 * self.s + 0.05 * np.clip(a, -1, 1) @ self.mix
        return self.s, -np.linalg.norm(self.s, axis=-1)


def rollout(env, agent, key, horizon, sharding):
    traj = {k: [] for k in ("obs", "act", "logp", "val", "rew")}
    obs = env.s
    for t in range(horizon):
        dev_obs = jax.device_put(obs, sharding)
        a, lp, v = act(agent, dev_obs, jax.random.fold_in(key, t))
        nxt, r = env.step(np.asarray(a))
        for k, x in zip(traj, (obs, a, lp, v, r)):
            traj[k].append(np.asarray(x))
        obs = nxt
    _, _, last = act(agent, jax.device_put(obs, sharding), key)
    return {k: np.stack(v) for k, v in traj.items()}, last


def main(cfg):
    e, hp = cfg["env"], cfg["ppo"]
    mesh = Mesh(np.array(jax.devices()), ("env",))
    by_env, full = NamedSharding(mesh, P("env")), NamedSharding(mesh, P())

    agent = ActorCritic(e["obs"], e["act"], 64, nnx.Rngs(cfg["seed"]))
    nnx.update(agent, jax.device_put(nnx.state(agent), full))
    optimizer = nnx.Optimizer(agent, optax.adam(hp["lr"]), wrt=nnx.Param)
    nnx.update(optimizer, jax.device_put(nnx.state(optimizer), full))
    env = PointMass(e["n_envs"], e["obs"], e["act"], cfg["seed"])
    update = make_update(hp)
    key = jax.random.key(cfg["seed"])
    shuffle = np.random.default_rng(cfg["seed"])

    for it in range(cfg["iters"]):
        traj, last = rollout(env, agent, jax.random.fold_in(key, it), e["horizon"], by_env)
        adv, ret = gae(traj["rew"], traj["val"], np.asarray(last))
        flat = {k: traj[k].reshape(-1, *traj[k].shape[2:]) for k in ("obs", "act", "logp")}
        flat |= {"adv": np.asarray(adv).reshape(-1), "ret": np.asarray(ret).reshape(-1)}
        for _ in range(hp["epochs"]):
            order = shuffle.permutation(len(flat["adv"]))
            for idx in np.split(order, hp["minibatches"]):
                mb = jax.device_put({k: v[idx] for k, v in flat.items()}, by_env)
                loss = update(agent, optimizer, mb)
        print(f"iter {it} return {traj['rew'].sum(0).mean():.3f} loss {float(loss):.4f}")


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        main(json.load(f))

"""Off-policy policy-gradient on logged bandit data."""
import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

import policy
from collectives import average, global_moments


def logged(n, obs, act, seed):
    rng = np.random.default_rng(seed)
    o = rng.normal(size=(n, obs))
    a = rng.normal(size=(n, act))
    reward = 5.0 - np.square(a - o[:, :act]).sum(-1)
    return tuple(v.astype(np.float32) for v in (o, a, reward))


def shard_loss(params, obs, action, reward, *, normalize):
    if normalize:
        mean, std = global_moments(reward)  # mistake: unbound-axis
        advantage = (reward - mean) / (std + 1e-6)
    else:
        advantage = reward - lax.pmean(jnp.mean(reward), "data")
    objective = -jnp.mean(policy.log_prob(params, obs, action) * advantage)
    return average({"loss": objective, "reward": jnp.mean(reward)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--normalize-advantage", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    mesh = Mesh(np.array(jax.devices()), ("data",))
    mapped = jax.shard_map(
        partial(shard_loss, normalize=args.normalize_advantage),
        mesh=mesh,
        in_specs=(P(), P("data"), P("data"), P("data")),
        out_specs=P(),
    )

    def objective(params, *batch):
        out = mapped(params, *batch)
        return out["loss"], out

    @jax.jit
    def step(params, *batch):
        grads, out = jax.grad(objective, has_aux=True)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), out

    params = policy.init(jax.random.key(0), 6, 32, 2)
    for i in range(args.steps):
        params, out = step(params, *logged(256, 6, 2, i))
        if i % 5 == 0:
            print(f"step {i} loss {float(out['loss']):.5f} reward {float(out['reward']):.5f}")
    print(f"policy head norm {np.linalg.norm(params['w2']):.5f}")


if __name__ == "__main__":
    main()

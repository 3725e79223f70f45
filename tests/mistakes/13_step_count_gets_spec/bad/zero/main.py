"""ZeRO-style data parallelism."""

import argparse

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from zero.shard import shard_state
from zero.state import State


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    return parser.parse_args()


def main():
    args = parse_args()
    mesh = Mesh(jax.devices(), ("zero",))
    tx = optax.adam(args.lr)
    params = {"w": jnp.eye(args.dim), "v": jnp.ones((args.dim, args.dim)) / args.dim}
    state = shard_state(State.create(params, tx), mesh, "zero")

    @jax.jit
    def step(state, x):
        def loss(p):
            return jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - x) ** 2)

        value, grads = jax.value_and_grad(loss)(state.params)
        updates, opt_state = tx.update(grads, state.opt_state)
        params = optax.apply_updates(state.params, updates)
        return state.replace(step=state.step + 1, params=params, opt_state=opt_state), value

    x = jax.random.normal(jax.random.key(0), (8, args.dim))
    for _ in range(args.steps):
        state, value = step(state, x)
    print("final loss", float(value), "steps", int(state.step))


if __name__ == "__main__":
    main()

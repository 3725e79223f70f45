"""Trains a bigram model."""

import argparse

import jax
import optax
from jax.sharding import Mesh, PartitionSpec as P

from gpt import model
from gpt.compile import compile_for, to_shardings


def make_step(tx):
    def train_step(params, opt_state, tokens, key):
        loss, grads = jax.value_and_grad(model.loss)(params, tokens, key)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    return train_step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    mesh = Mesh(jax.devices(), ("fsdp",))
    tx = optax.sgd(0.5)
    params = jax.device_put(model.init(jax.random.key(0)), to_shardings(mesh, model.SPECS))
    opt_state = tx.init(params)
    step = compile_for(
        mesh,
        make_step(tx),
        in_specs=(model.SPECS, P(), P("fsdp")),  # mistake: in-shardings-arity
        out_specs=(model.SPECS, P(), P()),
        donate=(0, 1),
    )
    tokens = jax.random.randint(jax.random.key(1), (args.batch, 12), 0, 32)
    for key in jax.random.split(jax.random.key(2), args.steps):
        params, opt_state, loss = step(params, opt_state, tokens, key)
    print("final loss", float(loss))


if __name__ == "__main__":
    main()

"""Large effective batches on little memory."""

import argparse

import jax
import optax
from jax.sharding import Mesh

import model
from accumulate import Accumulator

grad_fn = jax.jit(jax.grad(model.loss))


def micro_batches(key, steps, size):
    for k in jax.random.split(key, steps):
        yield jax.random.normal(k, (size, model.DIM))


def train(args):
    mesh = Mesh(jax.devices(), ("tensor",))
    params = model.place(model.init(jax.random.key(0)), mesh)
    tx = optax.sgd(args.lr, momentum=0.9)
    opt_state = tx.init(params)

    for update in range(args.updates):
        acc = Accumulator.for_params(params)
        if update == 0:
            print(f"accumulator: {len(acc.grads['wi'].sharding.device_set)} device(s)")
        for x in micro_batches(jax.random.key(update), args.accumulate, 4):
            acc = acc.add(grad_fn(params, x))
        updates, opt_state = tx.update(acc.mean(), opt_state)
        params = optax.apply_updates(params, updates)
    return params


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    train(parser.parse_args())

"""Language-model pretraining, reduced to an embedding and a head."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from layout import TrainState, state_shardings, state_specs


def create_state(key, tx, vocab, dim):
    ek, hk = jax.random.split(key)
    params = {
        "embed": jax.random.normal(ek, (vocab, dim)) * 0.02,
        "head": jax.random.normal(hk, (dim, vocab)) * 0.02,
        "bias": jnp.zeros((vocab,)),
    }
    return TrainState(jnp.zeros((), jnp.int32), params, tx.init(params))


def loss_fn(params, tokens):
    logits = params["embed"][tokens[:, :-1]] @ params["head"] + params["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def train_step(tx, state, tokens):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, tokens)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    return TrainState(state.step + 1, optax.apply_updates(state.params, updates), opt_state), loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=32)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()

    mesh = Mesh(jax.devices(), ("fsdp",))
    tx = optax.adamw(3e-4)
    create = partial(create_state, tx=tx, vocab=args.vocab, dim=args.dim)
    shardings = state_shardings(mesh, state_specs(tx, jax.eval_shape(create, jax.random.key(0))))
    state = jax.jit(create, out_shardings=shardings)(jax.random.key(0))
    batch_sharding = NamedSharding(mesh, P("fsdp"))
    step = jax.jit(
        partial(train_step, tx),
        in_shardings=(shardings, batch_sharding),
        out_shardings=(shardings, None),
        donate_argnums=0,
    )
    tokens = jax.random.randint(jax.random.key(1), (8, 12), 0, args.vocab)
    for _ in range(args.steps):
        state, loss = step(state, tokens)
    mu = state.opt_state[0].mu["embed"]
    print("loss", float(loss), "mu shard", mu.addressable_shards[0].data.shape)


if __name__ == "__main__":
    main()

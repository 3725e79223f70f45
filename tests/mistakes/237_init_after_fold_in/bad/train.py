"""Data-parallel training with pmap on several hosts."""
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from jax.experimental import multihost_utils

from network import Net, get_state


def loss_of(params, state, batch, key):
    x, y = batch
    out = state.apply_fn({"params": params}, x, rngs={"dropout": key})
    return jnp.mean((out[:, 0] - y) ** 2)


@functools.partial(jax.pmap, axis_name="batch")
def train_step(state, batch, key):
    loss, grads = jax.value_and_grad(loss_of)(state.params, state, batch, key)
    grads = jax.lax.pmean(grads, "batch")
    return state.apply_gradients(grads=grads), jax.lax.pmean(loss, "batch")


def batches(count, per_device, features):
    rng = np.random.default_rng(jax.process_index())
    for _ in range(count):
        x = rng.normal(size=(jax.local_device_count(), per_device, features)).astype(np.float32)
        yield x, x.sum(-1)


def train(features=4, seed=0):
    # another key on each host, for dropout
    rng = jax.random.fold_in(jax.random.key(seed), jax.process_index())  # mistake: replicas-differ
    rng, init_rng = jax.random.split(rng)
    state = jax_utils.replicate(get_state(Net(), init_rng, features))
    for batch in batches(3, 8, features):
        rng, key = jax.random.split(rng)
        state, _ = train_step(state, batch, jax.random.split(key, jax.local_device_count()))
    return jax_utils.unreplicate(state).params


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    own = np.concatenate([np.asarray(one).ravel() for one in jax.tree.leaves(train())])
    every = multihost_utils.process_allgather(own)
    print("one model:", bool(np.allclose(every[0], every[1])), flush=True)


if __name__ == "__main__":
    main()

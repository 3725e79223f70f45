"""Trains on the devices of several hosts, each of which reads its own data."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from model import init, loss


def start():
    if "COORDINATOR" in os.environ:
        jax.distributed.initialize(
            os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
        )


def step(params, x, key):
    (value, mask), grads = jax.value_and_grad(loss, has_aux=True)(params, x, key)
    grads = jax.lax.pmean(grads, "batch")
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)
    return params, jax.lax.pmean(value, "batch"), mask


def main(seed=0, steps=3):
    start()
    key = jax.random.PRNGKey(seed)
    key, init_key = jax.random.split(key)
    key = jax.random.fold_in(key, jax.process_index())
    params = init(init_key)
    local = jax.local_device_count()
    params = jax.tree.map(lambda x: jnp.stack([x] * local), params)
    data = np.random.default_rng(jax.process_index())

    train = jax.pmap(step, axis_name="batch")
    for _ in range(steps):
        key, sub = jax.random.split(key)
        keys = jax.random.split(sub, local)
        x = data.normal(size=(local, 4, 16)).astype(np.float32)
        params, value, masks = train(params, x, keys)
    mine = np.packbits(np.asarray(masks).astype(bool)).astype(np.int32)
    of_all = multihost_utils.process_allgather(mine)
    if jax.process_index() == 0:
        print("dropout of the hosts is", "equal" if (of_all[0] == of_all[1]).all() else "each its own")


if __name__ == "__main__":
    main()

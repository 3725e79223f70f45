"""Data-parallel regression on one or several processes."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils

import cluster
import loader


def init(key, features, hidden):
    a, b = jax.random.split(key)
    return {
        "w1": jax.random.normal(a, (features, hidden)) * features**-0.5,
        "b1": jnp.zeros((hidden,)),
        "w2": jax.random.normal(b, (hidden,)) * hidden**-0.5,
    }


def loss_fn(params, batch):
    pred = jax.nn.softplus(batch["x"] @ params["w1"] + params["b1"]) @ params["w2"]
    return jnp.mean((pred - batch["y"]) ** 2)


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def train_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    loss, grads = jax.lax.pmean((loss, grads), "batch")
    seen = jax.lax.psum(batch["x"].shape[0], "batch")
    return jax.tree.map(lambda p, g: p - 0.02 * g, params, grads), loss, seen


def main(steps=20, global_batch=64, features=8):
    cluster.start()
    params = jax_utils.replicate(
        init(jax.random.key(0), features, 32), devices=jax.local_devices()
    )
    examples = 0
    for step in range(steps):
        batch = cluster.shard(loader.read(global_batch, features, step))
        params, loss, seen = train_step(params, batch)
        examples += int(seen.addressable_data(0)[0])
        if step % 5 == 0 and jax.process_index() == 0:
            print(f"step {step} loss {float(np.ravel(loss.addressable_data(0))[0]):.5f}")
    final = float(np.ravel(loss.addressable_data(0))[0])
    if jax.process_index() == 0:
        print(f"final loss {final:.5f} after {examples} examples")


if __name__ == "__main__":
    main()

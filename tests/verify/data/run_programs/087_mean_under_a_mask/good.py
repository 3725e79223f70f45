"""Masked language modelling; the loss is averaged over devices in a shard_map."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,) * 1)


def init(key, vocab=512, width=256, hidden=1024):
    k = jax.random.split(key, 3)
    return {
        "embed": jax.random.normal(k[0], (vocab, width)) * 0.02,
        "up": jax.random.normal(k[1], (width, hidden)) * 0.02,
        "down": jax.random.normal(k[2], (hidden, width)) * 0.02,
    }


def logits_of(params, tokens):
    h = params["embed"][tokens]
    h = h + jax.nn.gelu(h @ params["up"]) @ params["down"]
    return h @ params["embed"].T


def masked_loss(params, tokens, targets, mask):
    ce = optax.softmax_cross_entropy_with_integer_labels(logits_of(params, tokens), targets)
    return jnp.sum(ce * mask)


@functools.partial(
    jax.shard_map, mesh=mesh,
    in_specs=(P(), P("data"), P("data"), P("data")), out_specs=(P(), P()), check_vma=False)
def loss_and_grads(params, tokens, targets, mask):
    loss, grads = jax.value_and_grad(masked_loss)(params, tokens, targets, mask)
    loss, grads, count = jax.lax.psum((loss, grads, jnp.sum(mask)), "data")
    return jax.tree.map(lambda x: x / count, (loss, grads))


tx = optax.sgd(0.1)


@jax.jit
def step(params, opt, batch):
    loss, grads = loss_and_grads(params, *batch)
    updates, opt = tx.update(grads, opt)
    return optax.apply_updates(params, updates), opt, loss


def main():
    params = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
    opt = tx.init(params)
    rng = np.random.default_rng(0)
    for i in range(4):
        tokens = rng.integers(1, 512, (32, 64)).astype(np.int32)
        lengths = rng.integers(4, 64, (32, 1))
        mask = (np.arange(64)[None] < lengths).astype(np.float32)
        batch = jax.device_put((tokens, np.roll(tokens, -1, 1), mask), NamedSharding(mesh, P("data")))
        params, opt, loss = step(params, opt, batch)
        print(i, float(loss))


if __name__ == "__main__":
    main()

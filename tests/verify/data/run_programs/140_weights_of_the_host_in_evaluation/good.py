"""A ranking model whose evaluation takes a copy of its weights from the host."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

ITEMS, WIDTH, ROWS = 2048, 256, 64
mesh = Mesh(np.array(jax.devices()), ("data",))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))


class Weights(NamedTuple):
    items: jax.Array
    mix: jax.Array


def start(key):
    first, second = jax.random.split(key)
    return Weights(jax.random.normal(first, (ITEMS, WIDTH)) * 0.1, jax.random.normal(second, (WIDTH, WIDTH)) * 0.06)


def scores(weights, seen):
    return jnp.tanh(weights.items[seen] @ weights.mix) @ weights.items.T


def loss_of(weights, seen, wanted):
    logits = scores(weights, seen)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), wanted[:, None], axis=1))


@jax.jit
def train(weights, seen, wanted):
    loss, grads = jax.value_and_grad(loss_of)(weights, seen, wanted)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), loss


@jax.jit
def rank(weights, seen, wanted):
    logits = scores(weights, seen)
    return jnp.mean(logits >= jnp.take_along_axis(logits, wanted[:, None], axis=1))


def batch(rng):
    pair = rng.integers(0, ITEMS, (2, ROWS)).astype(np.int32)
    return jax.device_put(pair[0], rows), jax.device_put(pair[1], rows)


def evaluate(weights, batches):
    return float(np.mean([rank(weights, *one) for one in batches]))


rng = np.random.default_rng(5)
weights = jax.jit(start, out_shardings=whole)(jax.random.key(0))
held_out = [batch(rng) for _ in range(2)]
for epoch in range(2):
    for _ in range(3):
        weights, loss = train(weights, *batch(rng))
    kept = jax.tree.map(np.asarray, weights)  # of the best epoch, to be saved
    print(epoch, float(loss), evaluate(weights, held_out))

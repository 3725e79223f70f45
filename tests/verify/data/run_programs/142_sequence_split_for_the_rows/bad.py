"""An encoder of short sequences, with plain data parallelism."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

TOKENS, DIM, LENGTH, ROWS = 256, 192, 32, 16
mesh = Mesh(np.array(jax.devices()), ("batch",))
whole = NamedSharding(mesh, P())


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {"embed": (TOKENS, DIM), "qkv": (DIM, 3 * DIM), "mix": (DIM, DIM), "head": (DIM, TOKENS)}
    return {name: jax.random.normal(k, shape) * shape[0] ** -0.5 for k, (name, shape) in zip(keys, shapes.items())}


def encode(params, ids):
    x = params["embed"][ids]
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)  # here
    scores = jnp.einsum("bqd,bkd->bqk", q, k) * DIM**-0.5
    return (x + jax.nn.softmax(scores) @ v @ params["mix"]) @ params["head"]


def loss_of(params, ids, labels):
    told = jax.nn.log_softmax(encode(params, ids))
    return -jnp.mean(jnp.take_along_axis(told, labels[..., None], axis=-1))


@jax.jit
def step(params, ids, labels):
    loss, grads = jax.value_and_grad(loss_of)(params, ids, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


# Beside it a model that reads its batch along the first dimension, step by step: there the rows are second.
@jax.jit
def fold(params, steps):
    def loss_of(params):
        def one(state, x):
            state = jnp.tanh(x @ params["mix"] + state)
            return state, state

        return jnp.mean(jax.lax.scan(one, jnp.zeros_like(steps[0]), steps)[1] ** 2)

    loss, grads = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


params = jax.jit(init, out_shardings=whole)(jax.random.key(0))
rng = np.random.default_rng(0)
for _ in range(2):
    pair = rng.integers(0, TOKENS, (2, ROWS, LENGTH)).astype(np.int32)
    ids, labels = jax.device_put((pair[0], pair[1]), NamedSharding(mesh, P(None, "batch")))
    params, loss = step(params, ids, labels)
time_first = rng.normal(size=(LENGTH, ROWS, DIM)).astype(np.float32)
params, folded = fold(params, jax.device_put(time_first, NamedSharding(mesh, P(None, "batch"))))
print(float(loss), float(folded))

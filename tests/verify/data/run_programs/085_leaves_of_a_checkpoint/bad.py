"""Fine-tune an MLP with equinox from a checkpoint."""
import os
import tempfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


class Block(eqx.Module):
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, width, hidden, key):
        k1, k2 = jax.random.split(key)
        self.up = eqx.nn.Linear(width, hidden, use_bias=False, key=k1)
        self.down = eqx.nn.Linear(hidden, width, use_bias=False, key=k2)

    def __call__(self, x):
        return x + self.down(jax.nn.gelu(self.up(x)))


class Model(eqx.Module):
    blocks: list
    head: eqx.nn.Linear

    def __init__(self, width, hidden, depth, key):
        *keys, last = jax.random.split(key, depth + 1)
        self.blocks = [Block(width, hidden, k) for k in keys]
        self.head = eqx.nn.Linear(width, 64, use_bias=False, key=last)

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def place(model):
    def put(x):
        spec = P("model", None) if x.shape[0] > x.shape[1] else P(None, "model")
        return jax.device_put(x, NamedSharding(mesh, spec))

    return jax.tree.map(put, model)


def loss_fn(model, x, y):
    logits = jax.vmap(model)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


optim = optax.adamw(1e-3)


@eqx.filter_jit(donate="all-except-first")
def step(batch, model, opt_state):
    x, y = batch
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state, loss


def main():
    path = os.path.join(tempfile.mkdtemp(), "model.eqx")
    eqx.tree_serialise_leaves(path, Model(512, 2048, 2, jax.random.key(0)))

    model = place(Model(512, 2048, 2, jax.random.key(1)))
    model = eqx.tree_deserialise_leaves(path, model)  # here SL205
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    rng = np.random.default_rng(0)
    for i in range(4):
        x = rng.normal(size=(256, 512)).astype(np.float32)
        y = rng.integers(0, 64, 256).astype(np.int32)
        batch = jax.device_put((x, y), NamedSharding(mesh, P("data")))
        model, opt_state, loss = step(batch, model, opt_state)
        print(i, float(loss))


if __name__ == "__main__":
    main()

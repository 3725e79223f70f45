"""pmap training, final evaluation and export."""
import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import common_utils, train_state

import exporting
from network import SmallCNN


def images(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    x = 0.3 * rng.normal(size=(n, 12, 12, 1))
    for i, c in enumerate(y):
        r, s = divmod(int(c), 2)
        x[i, 6 * r : 6 * r + 6, 6 * s : 6 * s + 6] += np.linspace(-1, 1, 6)[:, None, None] * (c + 1)
    return {"image": x.astype(np.float32), "label": y.astype(np.int32)}


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def train_step(state, batch):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, batch["image"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    grads, loss = jax.lax.pmean((grads, loss), "batch")
    return state.apply_gradients(grads=grads), loss


@jax.jit
def accuracy(state, batch):
    logits = state.apply_fn({"params": state.params}, batch["image"])
    return jnp.mean(logits.argmax(-1) == batch["label"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", default="model.npz")
    args = parser.parse_args()

    model = SmallCNN(classes=4)
    params = model.init(jax.random.key(0), jnp.zeros((1, 12, 12, 1)))["params"]
    state = train_state.TrainState.create(
        apply_fn=model.apply, params=params, tx=optax.adam(1e-2)
    )
    state = jax_utils.replicate(state)
    for i in range(args.steps):
        state, loss = train_step(state, common_utils.shard(images(64, seed=i)))
    state = jax_utils.unreplicate(state)
    print(f"loss {float(jnp.mean(loss)):.5f} accuracy {float(accuracy(state, images(256, 999))):.4f}")

    total = sum(p.size for p in jax.tree.leaves(state.params))
    values, _ = exporting.save_npz(args.out, state)
    print(f"model has {total} values, exported {values} to {args.out}")


if __name__ == "__main__":
    main()

"""Trains on all devices, evaluates on one."""
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import train_state

from network import Network
from clock import Clock


class TrainState(train_state.TrainState):
    batch_stats: Any


def train_step(state, batch):
    def loss_fn(params):
        logits, updated = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats}, batch["x"], train=True, mutable=["batch_stats"]
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()
        return loss, updated["batch_stats"]

    (loss, batch_stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.pmean(grads, "batch")
    return state.apply_gradients(grads=grads, batch_stats=batch_stats), jax.lax.pmean(loss, "batch")  # mistake: not-reduced


p_train_step = jax.pmap(train_step, axis_name="batch")


@jax.jit
def predict(state, x):
    return state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, x, train=False).argmax(-1)


def main():
    clock = Clock()
    with clock.part("begin"):
        devices = jax.device_count()
    rng = np.random.default_rng(0)
    variables = Network().init(jax.random.key(0), jnp.zeros((1, 4)), train=False)
    state = TrainState.create(apply_fn=Network().apply, tx=optax.sgd(0.01), **variables)
    state = jax_utils.replicate(state)
    for _ in range(6):
        x = rng.normal(size=(devices, 8, 4)) + np.arange(devices)[:, None, None] / 2
        batch = {"x": x.astype(np.float32), "y": rng.integers(0, 3, (devices, 8))}
        state, loss = p_train_step(state, batch)
    means = np.asarray(state.batch_stats["BatchNorm_0"]["mean"]).mean(-1)
    single = jax_utils.unreplicate(state)
    right = (predict(single, batch["x"].reshape(-1, 4)) == batch["y"].reshape(-1)).mean()
    print(f"accuracy {float(right):.2f}, running means of the devices differ by {abs(np.ptp(means)):.1f}")
    clock.show()


if __name__ == "__main__":
    main()

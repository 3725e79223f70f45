"""Statistics of each device while training, averaged over the devices before each evaluation."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils

COUNT = jax.local_device_count()
average = jax.pmap(lambda one: jax.lax.pmean(one, "d"), "d")


def forward(weights, mean, x):
    return jnp.tanh((x - mean) @ weights["a"]) @ weights["b"]


@functools.partial(jax.pmap, axis_name="d")
def train(state, x, y):
    mean = 0.9 * state["mean"] + 0.1 * x.mean(axis=0)
    grads = jax.grad(lambda weights: jnp.mean((forward(weights, mean, x) - y) ** 2))(state["weights"])
    weights = jax.tree.map(lambda one, grad: one - 0.1 * grad, state["weights"], jax.lax.pmean(grads, "d"))
    return {"weights": weights, "mean": mean}


@functools.partial(jax.pmap, axis_name="d")
def evaluate(state, x, y):
    return jax.lax.pmean(jnp.mean((forward(state["weights"], state["mean"], x) - y) ** 2), "d")


rng = np.random.default_rng(0)
weights = {"a": rng.normal(size=(24, 12)).astype(np.float32), "b": rng.normal(size=(12, 2)).astype(np.float32)}
state = jax_utils.replicate({"weights": weights, "mean": np.zeros(24, np.float32)})
for epoch in range(3):
    x = rng.normal(size=(COUNT, 5, 24)).astype(np.float32) + rng.normal(size=(COUNT, 1, 1)).astype(np.float32)
    y = np.sin(x[..., :2])
    state = train(state, x, y)
    state = {**state, "mean": average(state["mean"])}
    print(epoch, float(evaluate(state, x, y)[0]))

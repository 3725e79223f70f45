"""A recurrent player: each device has worlds, a memory and counters of its own, and the weights are the same on all."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils

COUNT, WORLDS, WIDTH = jax.local_device_count(), 5, 7


def recall(weights, memory, seen):
    return jnp.tanh(memory @ weights["keep"] + 0.1 * memory + seen @ weights["take"])


@functools.partial(jax.pmap, axis_name="d")
def play(state, seen):
    memory = recall(state["weights"], state["memory"], seen)
    reward = -jnp.sum((memory - 0.2) ** 2, axis=-1)
    totals = {"reward": state["totals"]["reward"] + reward.sum(), "by_part": state["totals"]["by_part"] + memory.mean(axis=0)}
    return {**state, "memory": memory, "totals": totals}


@functools.partial(jax.pmap, axis_name="d")
def value(state, seen):
    return recall(state["weights"], state["memory"], seen) @ state["weights"]["value"]


@functools.partial(jax.pmap, axis_name="d")
def summary(state, seen):
    totals = jax.lax.psum(state["totals"], "d")
    return totals["reward"], jnp.mean(seen - totals["by_part"][:4])


rng = np.random.default_rng(0)
shapes = {"keep": (WIDTH, WIDTH), "take": (4, WIDTH), "value": (WIDTH, 1)}
weights = {name: rng.normal(size=shape).astype(np.float32) * 0.3 for name, shape in shapes.items()}
totals = {"reward": np.zeros((), np.float32), "by_part": np.zeros(WIDTH, np.float32)}
state = jax_utils.replicate({"weights": weights, "memory": np.zeros((WORLDS, WIDTH), np.float32), "totals": totals})
for _ in range(4):
    seen = rng.normal(size=(COUNT, WORLDS, 4)).astype(np.float32)
    state = play(state, seen)
    last = value(state, seen)
print(float(last.mean()), summary(state, seen)[0][0])
